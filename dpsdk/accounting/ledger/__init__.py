"""What remembers: the books of a session as one value, and what holds them."""
