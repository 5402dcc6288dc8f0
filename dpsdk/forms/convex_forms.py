"""Several convex forms, asked at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import numpy as np

from dpsdk._checks import require, shown
from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms.base import Form
from dpsdk.forms.convex import ConvexForm

if TYPE_CHECKING:
    from dpsdk.typing import Floats

__all__ = ["ConvexForms", "parts_of"]


def _to_parts(values: Iterable[ConvexForm]) -> tuple[ConvexForm, ...]:
    parts = tuple(values) if isinstance(values, Iterable) else ()
    if not parts or not all(isinstance(part, ConvexForm) for part in parts):
        expected = "forms of models, at least one"
        raise InvalidArgument("parts", expected, shown(cast("object", values)))
    return parts


@frozen(eq=False)
class ConvexForms(Form):
    """The forms of several models over one universe, asked at once.

    Raw numbers are those of each form in turn, its θ and the certified gap after it.

    Parameters
    ----------
    domain
        That of each form.
    parts
        The forms, at least one.
    """

    domain: Domain
    parts: tuple[ConvexForm, ...] = field(converter=_to_parts)

    def __attrs_post_init__(self) -> None:
        require(isinstance(self.domain, Domain), "domain", "a domain", self.domain)
        if any(part.domain != self.domain for part in self.parts):
            raise InvalidArgument("parts", "forms over this domain", "one over another")

    @property
    def rows(self) -> int:
        """How many raw numbers there are."""
        return sum([part.dimension + 1 for part in self.parts])

    @property
    def nbytes(self) -> int:
        """Roughly how many bytes it takes."""
        return sum([part.nbytes for part in self.parts])

    def split(self, values: Floats) -> list[Floats]:
        """The raw numbers of each form."""
        ends = np.cumsum([part.dimension + 1 for part in self.parts])
        return np.split(values, ends[:-1])


def parts_of(form: ConvexForm | ConvexForms) -> tuple[ConvexForm, ...]:
    """The forms of one or several models."""
    return form.parts if isinstance(form, ConvexForms) else (form,)
