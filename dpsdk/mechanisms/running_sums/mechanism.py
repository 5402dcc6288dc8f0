"""Nightly tables for ever: one weighted sum of past periods a night, from which sums follow."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import numpy as np

from dpsdk._checks import shown, to_amount, to_count, to_integer
from dpsdk._records import field, frozen
from dpsdk.accounting import DiscreteGaussianGuarantee, Guarantee
from dpsdk.accuracy import LAW, SIZE
from dpsdk.codec import AMOUNT, NATURAL, NUMBER, POSITIVE, Member, OrNone, written
from dpsdk.domain import Domain, Periods
from dpsdk.domain.periods import MOMENT, to_moment
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Factor, Facts, Kronecker, LinearForm, Lowers, Weights
from dpsdk.forms.facts import times_of
from dpsdk.kernel import GaussianNoise, Kernel, Measure, Terms
from dpsdk.kernel.measure import gaussian_for
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import QUERY, check_linear, to_workload
from dpsdk.mechanisms.base import Mechanism, built_in
from dpsdk.mechanisms.linear_accuracy import COMBINATION, Combination, LinearAccuracy
from dpsdk.mechanisms.running_sums.series import UNIT, numbers_along, of_nights, weights
from dpsdk.noise import NoiseLaw
from dpsdk.release import Cost, Measurement, Quote
from dpsdk.typing import Floats, Real

__all__ = ["RunningAccuracy", "RunningSums", "Sums"]

_MOST_NIGHTS = 1024


@written("accuracy.running", {"law": LAW, "step": SIZE, "combination": COMBINATION}, public=False)
@frozen
class RunningAccuracy(LinearAccuracy):
    """The noise of sums of periods that follow from weighted sums of nights.

    It bounds what the noise adds, and nothing else: a row that came after the night of its period,
    or that was taken away or corrected since, is told in part by the nights that follow.
    """

    kind: str = field(
        init=False,
        default=(
            "proven tail of a sum of discrete noises, for rows that were there on the night of "
            "their period and have not changed"
        ),
    )

    def computed(self) -> RunningAccuracy:
        return RunningAccuracy(self.law, self.step, self.combination)


def _nights(value: int) -> int:
    count = to_count("nights", value)
    if count > _MOST_NIGHTS:
        raise InvalidArgument("nights", f"at most {_MOST_NIGHTS:,}", shown(value))
    return count


def _memory(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidArgument("memory", "a number from 0 to 1", shown(value))
    return float(value)


def _spare(value: int) -> int:
    expected = "an integer from 0 to 100"
    count = to_integer("spare", value, expected)
    if not 0 <= count <= 100:
        raise InvalidArgument("spare", expected, shown(value))
    return count


def _rho(value: Real) -> Fraction:
    return to_amount("rho", value)


def _query(value: Lowers[LinearForm]) -> Lowers[LinearForm]:
    try:
        return to_workload(value)
    except InvalidArgument:
        expected = 'a table to count each night, as Marginal("sex", normalized=False)'
        raise InvalidArgument("query", expected, shown(value)) from None


def _since(value: date | int | None) -> date | int | None:
    return to_moment("since", value)


@built_in(
    "running-sums",
    {
        "query": QUERY,
        "nights": POSITIVE,
        "rho": AMOUNT,
        "memory": NUMBER,
        "spare": Member(NATURAL, 1),
        "since": Member(OrNone(MOMENT), None),
    },
)
@frozen(repr=False, cache_hash=True)
class RunningSums(Mechanism[LinearForm]):
    """A table of every day for ever, and of all sums of days: nightly releases without a secret.

    Each night measures one weighted sum over the past periods of a table with `periods=`, its own
    period with weight one and older ones with less, with fresh noise. It is stored in the ledger,
    and the table of any days follows from what is stored: free, unbiased, and with an error that
    hardly grows with their number. Nothing is kept secret from one night to the next.

    Open it in a session, call `advance` of its channel each night, and ask the channel for sums
    over any time that it knows, bounded by a condition. A night costs a period that lies k nights
    back the square of its weight times `rho`; from `nights` nights on it pays nothing.

    Parameters
    ----------
    query
        A table of all combinations of some attributes, or a count of all rows, without a condition
        and without the time. It is counted, so that `normalized` does not matter.
    nights
        For so many nights each period is measured, its own included, at most 1,024. Sums that reach
        further back err more.
    rho
        Discrete Gaussian noise: the first night of a period is `rho`-zCDP for it.
    memory
        From 0, which measures each period once, to 1, which measures all of the last periods anew.
        0.35 serves days, months and years alike, 0.5 years; proofs/running-sums.md has a table.
    spare
        How many nights may be lost that were paid, and whose answer a crash took before it was
        stored. Such a night is paid again. So much is set aside as well.
    since
        A value in the first period of the series. By default that in which the domain begins when
        the series is first opened; afterwards the ledger knows it.

    >>> from dpsdk.mechanisms import RunningSums
    >>> from dpsdk.queries import Marginal
    >>> RunningSums(Marginal("sex", normalized=False), nights=365, rho="0.01")
    RunningSums(Marginal('sex', normalized=False), nights=365, rho=0.01, memory=0.35)
    """

    page = "explanation/proofs/running-sums.md"

    query: Lowers[LinearForm] = field(converter=_query)
    nights: int = field(default=365, converter=_nights)
    rho: Fraction = field(default=Fraction(1, 100), converter=_rho)
    memory: float = field(default=0.35, converter=_memory)
    spare: int = field(default=1, converter=_spare, kw_only=True)
    since: date | int | None = field(default=None, converter=_since, kw_only=True)

    @property
    def weights(self) -> tuple[int, ...]:
        """The weights of a period in the nights that measure it, in units of 1/4,096."""
        return weights(self.nights, self.memory)

    def block(self, domain: Domain, periods: Periods) -> Kronecker:
        """The table of one period that a night counts; refuses what is none."""
        form = self.query.lower(domain)
        check_linear(form, "RunningSums")
        block = form.blocks[0]
        plain = len(form.blocks) == 1 and isinstance(block, Kronecker) and block.table
        if not plain or periods.attribute in block.names:
            reason = (
                "RunningSums measures a table of all combinations of some attributes, without the "
                f"time {periods.attribute!r} and without a condition"
            )
            raise QueryError("", reason)
        return block  # type: ignore[return-value]  # seen above

    def request(self, facts: Facts, night: int) -> Measure:
        """What a night asks of a table that holds the periods which it weighs, and no others."""
        periods, time = times_of(facts)
        block, line = self.block(facts.domain, periods), np.array(self.weights, dtype=np.float64)
        back = night - numbers_along(periods.offset(time), periods.units, time.size)
        factors: dict[str, Factor] = dict(zip(block.names, block.factors, strict=True))
        factors[periods.attribute] = Weights(line[back][None, :])
        form = LinearForm(facts.domain, (Kronecker.of(facts.domain, factors),))
        return Measure(form, GaussianNoise(self.rho))

    def _priced(self, facts: Facts) -> tuple[NoiseLaw, list[Guarantee]]:
        """The noise of each number, and what each night costs a period, its own night first."""
        unit, line = facts.unit_rows, self.weights
        law, _ = gaussian_for(GaussianNoise(self.rho), (unit * UNIT) ** 2, unit * UNIT)
        return law, [
            DiscreteGaussianGuarantee(law.variance, (unit * one) ** 2, unit * one) for one in line
        ]

    def law(self, facts: Facts) -> NoiseLaw:
        """The noise of each number of a night, in units of 1/4,096 of a row."""
        return self._priced(facts)[0]

    def runs(self, facts: Facts) -> list[Guarantee]:
        """What all nights together cost a period, and those that may be lost."""
        _, nights = self._priced(facts)
        return [*nights, *nights[:1] * self.spare]

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        facts = facts_of(terms)
        periods, time = times_of(facts)
        first, last = periods.range(time)
        if self.since is not None:
            first = periods.number(time, time.index(self.since))
        law, nights = self._priced(facts)
        sums = Sums(self, facts, first, [None] * (last - first + 1), law)
        cost = Cost([one for one in nights if not one.free])
        return Quote(cost, cost, sums.accuracy(form))

    def open(self, kernel: Kernel, /) -> Sums:
        del kernel
        expected = "opened by a session, whose ledger keeps its nights"
        raise InvalidArgument("mechanism", expected, shown(self))

    def __repr__(self) -> str:
        told = f"{self.query!r}, nights={self.nights}, rho={float(self.rho):g}"
        spare = "" if self.spare == 1 else f", spare={self.spare}"
        since = "" if self.since is None else f", since={self.since!r}"
        return f"RunningSums({told}, memory={self.memory:g}{spare}{since})"


@frozen(eq=False)
class Sums:
    """Sums of periods, from the nights that are stored. They cost nothing.

    Parameters
    ----------
    mechanism, facts
        What was measured, and of which table.
    first
        The period in which the series begins.
    nights
        What each night measured, in units of its own period's rows; None where only errors are
        asked for.
    law
        That of the noise of each number, in units of 1/4,096 of a row.
    """

    mechanism: RunningSums
    facts: Facts
    first: int
    nights: list[Floats | None]
    law: NoiseLaw

    @property
    def last(self) -> int:
        """The last period that is known."""
        return self.first + len(self.nights) - 1

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement[LinearAccuracy]:
        """Answer in counts of rows."""
        del kernel
        accuracy = self.accuracy(form)
        table = self._table(form)
        measured = np.array([night for night in self.nights if night is not None])
        shape = tuple([form.domain[name].size for name in table])
        cells = measured.reshape(len(measured), *shape)
        values = [self._values(block, table, cells) for block in _products(form)]
        return Measurement(np.concatenate(values), accuracy, "fitted")

    def accuracy(self, form: LinearForm) -> RunningAccuracy:
        """The accuracy of the answers to a form; refuses one that does not follow."""
        check_linear(form, "RunningSums")
        table, periods = self._table(form), times_of(self.facts)[0]
        for block in _products(form):
            beyond = sorted({*block.names} - {*table, periods.attribute})
            if beyond:
                known = ", ".join(map(repr, table)) or "no attribute"
                what = f"RunningSums counts tables of {known}"
                reason = f"{what}, and this one depends on {beyond[0]!r}"
                raise QueryError("", reason)
        return RunningAccuracy(self.law, 1 / UNIT, self.combine(form))

    def combine(self, form: LinearForm) -> Combination:
        """The weights of the nights' noises in the answers to a form."""
        table, time = self._table(form), times_of(self.facts)[1].name
        parts: list[Combination] = []
        for block in _products(form):
            own = dict(zip(block.names, block.factors, strict=True))
            lines = Combination.of(of_nights(self.mechanism.weights, self._line(block)))
            beside = [form.domain[name].size for name in table if name not in own]
            found = Combination.of_ones(np.array([float(np.prod(beside, dtype=np.float64))]))
            if time not in own:
                found = found.outer(lines)
            for name, factor in own.items():
                found = found.outer(lines if name == time else Combination.of_factor(factor))
            parts.append(found.scaled(block.scale))
        return Combination.stack(parts)

    def _table(self, form: LinearForm) -> tuple[str, ...]:
        return self.mechanism.block(form.domain, times_of(self.facts)[0]).names

    def _line(self, block: Kronecker) -> Floats:
        """The weights of the known periods in each sum along the time; refuses sums beyond them."""
        periods, time = times_of(self.facts)
        along = numbers_along(periods.offset(time), periods.units, time.size)
        factor = dict(zip(block.names, block.factors, strict=True)).get(time.name)
        matrix = np.ones((1, time.size)) if factor is None else factor.matrix()
        starts = np.flatnonzero(np.diff(along, prepend=along[0] - 1))
        line = matrix[:, starts]
        if not (matrix == line[:, along - along[0]]).all():
            raise QueryError("", f"RunningSums knows whole periods of {time.name!r}, and no parts")
        weighed = along[starts][line.any(axis=0)]
        if len(weighed) and not self.first <= weighed[0] <= weighed[-1] <= self.last:
            what = "nothing yet"
            if self.nights:
                ends = periods.text(time, self.first), periods.text(time, self.last)
                what = f"{time.name!r} from {ends[0]} to {ends[1]}"
            advice = f"bound the query by where={{{time.name!r}: Between(...)}}"
            reason = f"RunningSums knows {what}: {advice}"
            raise QueryError("", reason)
        wanted = np.zeros((len(line), max(len(self.nights), 1)))
        inside = (self.first <= along[starts]) & (along[starts] <= self.last)
        wanted[:, along[starts][inside] - self.first] = line[:, inside]
        return wanted

    def _values(self, block: Kronecker, table: tuple[str, ...], cells: Floats) -> Floats:
        time = times_of(self.facts)[1].name
        own = dict(zip(block.names, block.factors, strict=True))
        lines = of_nights(self.mechanism.weights, self._line(block))
        values = np.tensordot(lines, cells, axes=1)
        for axis, name in enumerate(table, 1):
            if name in own:
                values = own[name].apply(values, axis)
            else:
                values = values.sum(axis=axis, keepdims=True)
        if time in own:  # its axis to its place among those that are asked
            rest = tuple([axis for axis, name in enumerate(table, 1) if name not in own])
            values = np.moveaxis(values.squeeze(rest), 0, block.names.index(time))
        return np.asarray(values.reshape(-1) * block.scale)


def _products(form: LinearForm) -> list[Kronecker]:
    """The blocks of a form, each a product along the attributes."""
    blocks = [block for block in form.blocks if isinstance(block, Kronecker)]
    if len(blocks) < len(form.blocks):
        reason = "RunningSums answers tables and counts, each bounded in time by one range"
        raise QueryError("", reason)
    return blocks
