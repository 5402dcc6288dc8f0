"""Tables of shares as distributions have them, which nobody but a test knows."""


class Shares:
    """The shares of the rows in all cells of a domain, or their counts."""

    def __init__(self, domain, cells):
        self.domain, self.cells = domain, cells

    def table(self, names):
        """The marginal on some attributes, in the order of the domain."""
        gone = tuple(axis for axis, name in enumerate(self.domain.names) if name not in names)
        return self.cells.sum(axis=gone)
