"""Ledgers: the books of a session as one value, and their storage."""
