"""Numbers on a grid as an attribute: bounds and a step, and no bins."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Literal, TypeAlias

from dpsdk._checks import shown, to_flag, to_fraction, to_positive
from dpsdk._records import field, frozen
from dpsdk.codec import AMOUNT, FLAG, JSON, NAME, Choice, Codebook, Member, Plain, refused, written
from dpsdk.domain.attributes import ATTRIBUTES, EXTRAS, Flagged, to_attribute_name
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Label, Real

__all__ = ["Beyond", "Number"]

Beyond: TypeAlias = Literal["clip", "other"]
"""Where a number beyond the bounds of a `Number` goes: to the nearest bound, or to the others."""

_DIGITS = 40
_POINTS = 2**62


def decimal_text(value: Fraction) -> str:
    """The text of an exact number: a decimal where a short one says it, else a fraction."""
    places, rest = 0, value.denominator
    for prime in (2, 5):
        power = 0
        while rest % prime == 0 and power <= _DIGITS:
            rest, power = rest // prime, power + 1
        places = max(places, power)
    if rest != 1 or places > _DIGITS:
        return str(value)
    digits = str(abs(value.numerator) * 10**places // value.denominator).zfill(places + 1)
    text = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return f"-{text}" if value < 0 else text


def _shown_number(value: Fraction) -> str:
    text = decimal_text(value)
    return text if "/" not in text else repr(text)


class _Signed:
    """An exact number as a text, as `AMOUNT` has it, with a minus before it where it is below 0."""

    def write(self, value: Fraction, path: str, codebook: Codebook, /) -> Plain:
        text = decimal_text(abs(value))
        if len(text) > 2 * _DIGITS:
            text = str(AMOUNT.write(abs(value), path, codebook))
        return f"-{text}" if value < 0 else text

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Fraction:
        if type(plain) is not str or not plain.startswith("-"):
            return AMOUNT.read(plain, path, codebook)
        value = AMOUNT.read(plain[1:], path, codebook)
        if not value:
            raise refused(path, "no minus before zero", plain)
        return -value

    def schema(self, codebook: Codebook, /) -> JSON:
        amount = AMOUNT.schema(codebook)
        return {**amount, "pattern": f"{amount['pattern']}".replace("^", "^-?", 1)}


_SIGNED = _Signed()


def _to_end(value: Real) -> Fraction:
    return to_fraction("low and high", value, "finite numbers")


def _to_step(value: Real) -> Fraction:
    return to_positive("step", value)


def _to_beyond(value: Beyond) -> Beyond:
    if isinstance(value, str) and value in ("clip", "other"):
        return value
    raise InvalidArgument("outside", '"clip" or "other"', shown(value))


def _to_exact(value: bool) -> bool:  # noqa: FBT001  # a converter
    return to_flag("exact", value)


@written(
    "number",
    {
        "name": NAME,
        "low": _SIGNED,
        "high": _SIGNED,
        "step": _SIGNED,
        "outside": Member[Beyond](Choice[Beyond]("clip", "other"), "clip", quiet=True),
        "exact": Member(FLAG, default=False, quiet=True),
        **EXTRAS,
    },
    kinds=ATTRIBUTES,
)
@frozen(repr=False)
class Number(Flagged):
    """A numeric attribute by its bounds and a step: its labels are low, low + step, ..., high.

    A value of the table is read exactly, moved into the bounds, and rounded to the nearest label,
    halves upwards; if `exact`, a value between two labels is no label, and no value is rounded.
    Labels are never listed, so that amounts in cents need no bins: sums, means,
    variances, counts up to any value, and quantiles are those of the numbers themselves, to the
    step. What needs a table of all labels, such as a `Marginal`, takes `bins=`.

    Parameters
    ----------
    name
        What the attribute is called.
    low, high
        The bounds, which the owner declares, or `Discovery.bounds` buys; never those of the rows.
        Floats and texts are the decimals that they print as. Both are multiples of the step.
    step
        How fine values are kept, 1 unless another is given: "0.01" for amounts in cents.
    missing, other
        True where missing values, and values that are no numbers, have a cell of their own.
    outside
        "clip" moves numbers beyond the bounds to the nearest bound; "other" takes them for values
        that match nothing.
    exact
        True for values that are on the grid anyway, such as ages in whole years: one that is not
        matches nothing, and no bound of an answer needs room for rounding.

    Raises
    ------
    InvalidArgument
        If these are not as described, or there would be more than 2**62 labels.

    >>> income = Number("income", 0, 200_000, step="0.01", missing=True)
    >>> income.known, income.label(150), income.text(150), income.index(99.5)
    (20000001, 1.5, '1.5', 9950)
    """

    kind: ClassVar[str] = "number"
    ordered: ClassVar[bool] = True
    name: str = field(converter=to_attribute_name)
    low: Fraction = field(converter=_to_end, repr=_shown_number)
    high: Fraction = field(converter=_to_end, repr=_shown_number)
    step: Fraction = field(default=Fraction(1), converter=_to_step, repr=_shown_number)
    outside: Beyond = field(default="clip", converter=_to_beyond, kw_only=True)
    exact: bool = field(default=False, converter=_to_exact, kw_only=True)
    start: int = field(init=False, repr=False, eq=False)
    """The first label, counted in steps from zero."""
    _known: int = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidArgument("high", f"at least low, which is {self.low}", shown(self.high))
        for parameter, end in (("low", self.low), ("high", self.high)):
            if (end / self.step).denominator != 1:
                step = decimal_text(self.step)
                raise InvalidArgument(parameter, f"a multiple of the step, {step}", str(end))
        known = int((self.high - self.low) / self.step) + 1
        if known > _POINTS:
            expected = "a step so long that there are at most 2^62 labels"
            raise InvalidArgument("step", expected, decimal_text(self.step))
        # A frozen value sets its derived fields once, at birth.
        object.__setattr__(self, "start", int(self.low / self.step))
        object.__setattr__(self, "_known", known)

    @property
    def known(self) -> int:
        return self._known

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    @property
    def whole(self) -> bool:
        """True if all labels are whole numbers."""
        return self.step.denominator == 1

    def point(self, index: int) -> Fraction:
        """The exact number that cell `index` stands for, for 0 <= index < known."""
        return self.low + int(index) * self.step

    def below(self, value: Real, *, closed: bool = True) -> int:
        """How many labels are at or below a value; below it only, unless `closed`."""
        place = (to_fraction("value", value) - self.low) / self.step
        count = place // 1 + 1 if closed else -(-place // 1)
        return min(max(int(count), 0), self.known)

    def cell(self, value: Fraction | Decimal | int) -> int:
        """The number of the label next to an exact value, halves upwards, within the bounds."""
        place = ((Fraction(value) - self.low) / self.step + Fraction(1, 2)) // 1
        return min(max(int(place), 0), self.known - 1)

    def _index(self, label: Label) -> int:
        if isinstance(label, int | float) and not isinstance(label, bool) and math.isfinite(label):
            place = (to_fraction("label", label) - self.low) / self.step
            if place.denominator == 1 and 0 <= place < self.known:
                return int(place)
        low, high, step = map(decimal_text, (self.low, self.high, self.step))
        raise self._unknown(label, f"a number from {low} to {high} in steps of {step}")

    def _label(self, index: int) -> int | float:
        value = self.point(index)
        return int(value) if self.whole else float(value)

    def _text(self, index: int) -> str:
        return decimal_text(self.point(index))
