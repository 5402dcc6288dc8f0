"""Exact numbers: sums on a grid, rounding to a side, searching, and how they are shown."""
