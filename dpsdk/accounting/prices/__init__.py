"""Prices of one run, in each currency that a filter counts in."""
