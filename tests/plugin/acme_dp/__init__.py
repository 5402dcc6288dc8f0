"""A stranger's mechanism on primitives, query with an answer of its own, hypothesis and ledger."""
