"""What the kernel lets in: forms that can only be what they were priced as."""

from __future__ import annotations

from dpsdk.errors import InvalidArgument
from dpsdk.forms import (
    Dense,
    Facts,
    Identity,
    Kronecker,
    LinearForm,
    Matrix,
    Prefix,
    Range,
)

__all__ = ["admit"]

_KINDS: frozenset[type] = frozenset(
    {Dense, Identity, Kronecker, Matrix, Prefix, Range, tuple, str, int, float}
)
"""What a form may be made of: nothing that could be another thing when it is read."""


def admit(form: LinearForm, facts: Facts) -> None:
    """Refuse a form that a primitive must not evaluate. Every primitive calls this, then charges.

    Forms, blocks and factors compute both what is charged and what is read, so a class of another
    author could charge for one thing and read another, or take the counts away; and a factor of
    the wrong size would be priced for cells that it does not read.

    Raises
    ------
    InvalidArgument
        If the form is over another domain, does not fit it, or is made of foreign classes.
    """
    if type(form) is not LinearForm:
        raise InvalidArgument("form", "a LinearForm, of that very class", type(form).__name__)
    if form.domain is not facts.domain and form.domain != facts.domain:
        raise InvalidArgument("form", "over the domain of the table", "another domain")
    sizes = dict(zip(facts.domain.names, facts.domain.shape, strict=True))
    for block in form.blocks:
        if _plain(block, sizes):
            continue
        foreign = {kind.__name__ for kind in _kinds(block) - _KINDS}
        if foreign:
            expected = "made of dpsdk.forms, tuples and plain numbers"
            raise InvalidArgument("blocks", expected, ", ".join(sorted(foreign)))
        shape = tuple([facts.domain[name].size for name in block.names])
        if block.shape != shape or len(set(block.names)) != len(shape):
            expected = f"of shape {shape}, as their attributes are"
            raise InvalidArgument("blocks", expected, f"shape {block.shape}")


def _plain(block: Kronecker | Dense, sizes: dict[str, int]) -> bool:
    """Whether a block is evidently in order: the quick way, for workloads of many blocks."""
    if type(block) is not Kronecker or type(block.scale) is not float:
        return False
    names, factors = block.names, block.factors
    if type(names) is not tuple or type(factors) is not tuple or len(names) != len(factors):
        return False
    if len(set(names)) != len(names):
        return False
    for name, factor in zip(names, factors, strict=True):
        # Only whole numbers of the plain kind compare as they will be read.
        if type(name) is not str or type(factor) is not Range or type(factor.size) is not int:
            return False
        if type(factor.start) is not int or type(factor.stop) is not int:
            return False
        if sizes.get(name) != factor.size:
            return False
    return True


def _kinds(block: Kronecker | Dense) -> set[type]:
    """The classes of a block and of all that it is made of."""
    kinds = {type(block), type(block.names), *map(type, block.names)}
    if isinstance(block, Kronecker):
        kinds |= {type(block.factors), type(block.scale), *map(type, block.factors)}
        for factor in block.factors:
            if isinstance(factor, Range):
                kinds |= {type(factor.start), type(factor.stop)}
            if not isinstance(factor, Matrix):
                kinds.add(type(factor.size))
    else:
        kinds |= {type(block.shape), *map(type, block.shape)}
    return kinds
