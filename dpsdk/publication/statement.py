"""Statements of the privacy and the accuracy of a release, in words and in fields."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.accounting import AnyOf, Composition
from dpsdk.accounting.numbers import as_bound, as_text, confidence
from dpsdk.forms import Facts
from dpsdk.notes import ByPeriod
from dpsdk.wire import JSON, Plain, ReleasedNoise, ReleaseRecord

__all__ = ["Statement", "at_least"]

_MOST_NAMED = 6
_NOT_PRIVATE = "NOT PRIVATE: the noise was seeded, and this release protects nobody."


@frozen(repr=False)
class Statement:
    """The claims of a release, each no more than the release itself knows."""

    record: ReleaseRecord
    facts: Facts
    digest: str | None
    asked: tuple[str, ...]

    @property
    def protects(self) -> bool:
        """True if there is a guarantee to tell of, by private noise and a budget that paid."""
        return self.record.private and self.record.budget is not None

    @property
    def answer(self) -> str:
        """The answer in a sentence."""
        count = len(self.asked)
        if count < 2:
            return f"The answer to {self.record.query}."
        named = ", ".join(self.asked[:_MOST_NAMED])
        more = f" and {count - _MOST_NAMED:,} more" if count > _MOST_NAMED else ""
        return f"The answers to {count:,} questions: {named}{more}."

    @property
    def guarantee(self) -> str:
        """The guarantee in a sentence or two."""
        record = self.record
        if not record.private:
            return _NOT_PRIVATE
        if record.budget is None:
            return "Who paid for this release is not known, and no guarantee is claimed for it."
        trust = ""
        if record.trusted:
            names = ", ".join(one.name for one in record.trusted)
            trust = f" That rests on the word of whoever vouches for {names}."
        return (
            f"All releases on the budget that paid for this one keep {record.budget} together, for "
            f"{record.unit}.{trust}{self._of_periods}"
        )

    @property
    def _of_periods(self) -> str:
        """What the budget of one period is worth to whoever has rows in several, in a sentence."""
        told = [str(note) for note in self.record.notes if isinstance(note, ByPeriod)]
        return "".join([f" {one[0].upper()}{one[1:]}." for one in told])

    @property
    def neighbors(self) -> str:
        """The tables that are neighbours, for readers."""
        rows, periods = self.record.unit_rows, self.facts.periods
        if periods is not None:
            of = f"of one period of {shown(periods.attribute)}"
            if self.facts.person is None:
                return f"Tables of which one has one row, {of}, more than the other."
            many = "one row" if rows == 1 else f"up to {rows:,} rows"
            kept = f"{many} of them {'is' if rows == 1 else 'are'} kept"
            return (
                f"Tables of which one has all rows of one person {of} more than the other, which "
                f"has none of that person there; {kept}."
            )
        many = "one row" if rows == 1 else f"up to {rows:,} rows"
        those = "that" if rows == 1 else "those"
        if self.record.neighbors == "replace-one":
            count = "" if self.record.rows is None else f", {self.record.rows:,},"
            what = f"Tables of the same number of rows{count} of which {many}"
            return f"{what}, {those} of one person, {'is' if rows == 1 else 'are'} exchanged."
        return f"Tables of which one has {many}, {those} of one person, more than the other."

    @property
    def accuracy(self) -> str:
        """How far off the values may be, in a sentence."""
        joint = self.record.joint
        if not joint.proven:
            return f"Of its errors: {joint.words}."
        vacuous = "; no more than is known without data" if joint.vacuous else ""
        return (
            f"With probability {confidence(joint.beta)}, no error is above {as_bound(joint.error)},"
            f" in its own unit and in all entries at once ({joint.standing}, by {joint.kind})"
            f"{vacuous}."
        )

    @property
    def moved(self) -> str:
        """By how much values were moved since they were measured, in a sentence, if they were."""
        moved = self.record.moved
        if not moved:
            return ""
        far = f"by up to {as_bound(moved)}" if math.isfinite(moved) else "by how much is not known"
        return f"Values were moved, {far}, to be non-negative, monotone or possible at all."

    @property
    def made(self) -> str:
        """How the values came about, in a sentence or two."""
        record = self.record
        noise = "" if record.noise is None else f" {_noise(record.noise)}"
        moved = f" {self.moved}" if self.moved else ""
        source = _SOURCES[record.source]
        return f"{source} by {record.mechanism}, with {record.made_by}.{noise}{moved}"

    @property
    def composition(self) -> str | None:
        """How costs add up on the budget, in words."""
        rules = self.record.composition
        if isinstance(rules, AnyOf):
            return f"whichever certifies all of them of {', '.join(map(_rule, rules.members))}"
        return None if rules is None else _rule(rules)

    def to_json(self) -> JSON:
        """Return the same in fields, each left out where nothing is known."""
        record, joint = self.record, self.record.joint
        plain: dict[str, Plain] = {
            "private": record.private,
            "guarantee": self.guarantee,
            "unit": record.unit,
            "unit_rows": record.unit_rows,
            "neighbors": record.neighbors,
            "query": record.query,
            "mechanism": record.mechanism,
            "source": record.source,
            "reused": record.reused,
            "charged": str(record.cost),
            "error": {
                "joint": _finite(joint.error),
                "beta": joint.beta,
                "standing": joint.standing,
                "rests_on": joint.kind,
                "vacuous": joint.vacuous,
                **({"bins": joint.bins} if joint.bins else {}),
            },
            "made_by": record.made_by,
        }
        if record.moved:
            plain["moved"] = _finite(record.moved)
        if record.notes:
            plain["notes"] = [str(note) for note in record.notes]
        if record.rows is not None:
            plain["rows"] = record.rows
        if record.budget is not None:
            plain["budget"] = {
                "epsilon": as_text(record.budget.epsilon, up=True),
                "delta": as_text(record.budget.delta, up=True),
            }
        if record.composition is not None:
            plain["composition"] = self.composition
        if record.trusted:
            plain["trusted"] = [{"name": one.name, "proof": one.proof} for one in record.trusted]
        if record.because:
            plain["because"] = [one.text for one in record.because]
        if record.table is not None:
            plain["table"] = record.table
        plain["domain_digest"] = record.domain
        if self.digest is not None:
            plain["release_digest"] = self.digest
        return plain

    def __repr__(self) -> str:
        record = self.record
        lines = [
            f"Metadata of {record.query}",
            self.guarantee,
            self.accuracy,
            self.made,
            f"Charged: {record.cost}{', reused' if record.reused else ''}.",
            f"Neighbours: {self.neighbors}",
            *[f"Note: {note}." for note in record.notes],
        ]
        return "\n  ".join(lines)


_SOURCES = {
    "measured": "Measured on the data",
    "fitted": "Fitted to what was measured",
    "hypothesis": "Read off a hypothesis",
}


def _rule(rules: Composition) -> str:
    # As documents for readers of other fields have it.
    title: str = getattr(rules, "title", type(rules).__name__)
    return title.replace("zCDP", "zero-concentrated")


def _noise(noise: ReleasedNoise) -> str:
    gaussian = noise.law == "discrete-gaussian"
    law, of = ("Gaussian", "variance") if gaussian else ("Laplace", "scale")
    rows = f"{noise.step:g} row{'' if noise.step == 1 else 's'}"
    return (
        f"Noise on each raw number is discrete {law}, of {of} {as_text(noise.size)} in steps of "
        f"{rows}, sampled exactly and added on that lattice."
    )


def _finite(value: float) -> Plain:
    return value if math.isfinite(value) else "infinity"


def at_least(value: Fraction) -> float:
    """Return the nearest float whose decimal is no smaller: no claim is below what is kept."""
    near = float(value)
    while Fraction(repr(near)) < value:
        near = math.nextafter(near, math.inf)
    return near
