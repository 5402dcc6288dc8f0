"""Filters: which runs still fit a budget, and what was spent of it."""
