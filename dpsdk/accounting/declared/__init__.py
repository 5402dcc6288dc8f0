"""Guarantees of runs that are all declared before the first answer."""
