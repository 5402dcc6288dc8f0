"""Several questions, each answered by a mechanism of its own, all of them or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, TypeAlias, cast

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import Factory, field, frozen
from dpsdk.accuracy import ACCURACY
from dpsdk.codec import NATURAL, Entry, ListOf, written
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Facts, LinearForm, Lowers
from dpsdk.kernel import Kernel, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import QUERY, check_linear, to_workload
from dpsdk.mechanisms.base import MECHANISM, Mechanism, OneRun, OneShot, Single, built_in
from dpsdk.release import Accuracy, Cost, HalfWidths, Measurement, Quote, Standing
from dpsdk.typing import Floats

__all__ = ["JointAccuracy", "Parts", "locate_queries"]

_MOST = 64
"""So many questions at a time."""

Part: TypeAlias = tuple[Lowers[LinearForm], Mechanism[LinearForm]]


def _to_parts(value: Iterable[Part]) -> tuple[Part, ...]:
    expected = "pairs of a query and a mechanism that answers it with one run"
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument("parts", expected, shown(value))
    parts = tuple(islice(value, _MOST + 1))
    if not 0 < len(parts) <= _MOST:
        raise InvalidArgument(
            "parts", f"from one to {_MOST} of them", "none" if not parts else "more"
        )
    for part in parts:
        pair: object = part
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidArgument("parts", expected, shown(part))
        one = isinstance(part[1], Mechanism) and isinstance(part[1], OneRun)
        if not one or isinstance(part[1], Parts):
            raise InvalidArgument("parts", expected, shown(part[1]))
    return tuple([(to_workload(asked), mechanism) for asked, mechanism in parts])


def _kind(joint: JointAccuracy) -> str:
    """The basis of the bound, of each kind that there is."""
    return "; ".join(sorted({accuracy.kind for accuracy, _ in joint.parts}))


def _standing(joint: JointAccuracy) -> Standing:
    """A theorem or a promise where each part has one; nothing where one has nothing."""
    standings = {accuracy.standing for accuracy, _ in joint.parts}
    if not standings <= {"proven", "promised"}:
        return "none"
    return "promised" if "promised" in standings else "proven"


def _unlike(joint: JointAccuracy) -> str:
    alike = all(part.entries in (None, rows) for part, rows in joint.parts)
    return "" if alike else "as many numbers as each part is of"


@written(
    "accuracy.joint",
    {"parts": ListOf(Entry(accuracy=ACCURACY, rows=NATURAL), least=1, most=1 << 10)},
    wrong=_unlike,
    public=False,
)
@frozen
class JointAccuracy(HalfWidths):
    """How far off the numbers of several answers may be, each of which has an accuracy of its own.

    All at once they are within what each allows at its share of beta.

    Parameters
    ----------
    parts
        The accuracy of each, with how many numbers it has.
    """

    parts: tuple[tuple[Accuracy, int], ...]
    kind: str = field(init=False, default=Factory(_kind, takes_self=True))
    standing: Standing = field(init=False, default=Factory(_standing, takes_self=True))

    @property
    def entries(self) -> int:
        """How many numbers it is of."""
        return sum([rows for _, rows in self.parts])

    def computed(self) -> JointAccuracy:
        """The same, made of numbers alone."""
        return JointAccuracy(tuple([(part.computed(), rows) for part, rows in self.parts]))

    @property
    def distances(self) -> Floats | None:  # type: ignore[override]  # derived here
        """How far each number was moved, in rows; None where no part moves any."""
        known = [
            (one.distances if isinstance(one, HalfWidths) else None, rows)
            for one, rows in self.parts
        ]
        if all(moved is None for moved, _ in known):
            return None
        return np.concatenate([np.zeros(n) if moved is None else moved for moved, n in known])

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows; infinite for the numbers of a part of which nothing is known."""
        level = beta / len(self.parts) if joint else beta
        radii: list[Floats] = []
        for accuracy, rows in self.parts:
            known = isinstance(accuracy, HalfWidths) and accuracy.proven
            radii.append(
                cast("HalfWidths", accuracy).radii(level, joint=joint)
                if known
                else np.full(rows, np.inf)
            )
        return np.concatenate(radii)


@built_in("parts", {"parts": ListOf(Entry(query=QUERY, mechanism=MECHANISM))})
@frozen(repr=False)
class Parts(OneShot[LinearForm]):
    """Several questions, each answered by a mechanism of its own, and paid for together.

    It answers a workload of just these questions, in any order: all of them or, where they do not
    fit together, none. Equal questions are answered by their parts in turn. Each part is one run,
    and is charged as if it were asked by itself; so there is nothing to prove of it but what is
    proven of its parts. The bound of all answers at once gives each part an even share of beta.

    Parameters
    ----------
    parts
        For each question, a query or a workload, what answers it: `Laplace`, `Gaussian`, `Tree`,
        `SquareRoot`, `NoisyHistogram`, `Matrix` or `ResidualPlanner`. At most 64.

    Raises
    ------
    InvalidArgument
        If a part is none of these.
    QueryError
        When asked for anything but a workload of these questions. And whatever is asked, if a
        workload of them could be read in two ways, as that of two questions and of both together.

    >>> from dpsdk.mechanisms import Gaussian, Laplace, Parts
    >>> from dpsdk.queries import Marginal, Mean
    >>> Parts([(Mean("age"), Laplace(epsilon="0.1")), (Marginal("sex"), Gaussian(rho="0.001"))])
    Parts(Mean('age') by Laplace(epsilon=0.1), Marginal('sex') by Gaussian(rho=0.001))
    """

    reusable = True
    page = "explanation/proofs/scopes.md"

    parts: tuple[Part, ...] = field(converter=_to_parts)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        placed = self._placed(form, facts_of(terms))
        quotes = {place: self.parts[place][1].quote(part, terms) for place, part in placed}
        runs = [run for place in sorted(quotes) for run in quotes[place].at_most.runs]
        accuracies = [(quotes[place].accuracy, part.rows) for place, part in placed]
        return Quote(Cost(), Cost(tuple(runs)), JointAccuracy(tuple(accuracies)))

    def open(self, kernel: Kernel, /) -> Parts:
        del kernel  # nothing is paid to open
        return self

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Pay for all parts together, and answer from all of them, in counts of rows."""
        singles: dict[int, Single[Any]] = {}
        for place, part in self._placed(form, kernel.facts):
            mechanism = cast("OneRun", self.parts[place][1])  # as was checked
            singles[place] = mechanism.single(part, kernel.terms)
        # Charged in the order of the parts, however they are asked.
        order = sorted(singles)
        found = kernel.run_all([singles[place].request for place in order])
        results = dict(zip(order, found, strict=True))
        told = [single.answered(results[place]) for place, single in singles.items()]
        accuracy = JointAccuracy(tuple([(one.accuracy, len(one.values)) for one in told]))
        alike = all(one.source == "measured" for one in told)
        values = np.concatenate([one.values for one in told])
        return Measurement(values, accuracy, "measured" if alike else "fitted")

    def _placed(self, form: LinearForm, facts: Facts) -> list[tuple[int, LinearForm]]:
        """Each part of a form, with the place of the question that it is."""
        check_linear(form, "Parts")
        asked = [query.lower(facts.domain) for query, _ in self.parts]
        for one in asked:
            check_linear(one, "Parts")
        return locate_queries(form, asked)

    def __repr__(self) -> str:
        parts = [f"{shown(asked)} by {shown(mechanism)}" for asked, mechanism in self.parts]
        return f"Parts({', '.join(parts)})"


Word: TypeAlias = tuple[bytes, ...]
"""The digests of the blocks of a form, in order."""


def locate_queries(form: LinearForm, queries: Sequence[LinearForm]) -> list[tuple[int, LinearForm]]:
    """Find each of the questions in a form once: the place among them, and the part of the form."""
    words = [_word(one) for one in queries]
    left: dict[Word, list[int]] = {}
    for place, word in enumerate(words):
        left.setdefault(word, []).append(place)
    if not _told_apart(list(left)):
        raise QueryError("", "Parts cannot tell questions apart that are made of one another")
    found: list[tuple[int, LinearForm]] = []
    start = 0
    for word in _read(_word(form), list(left)):
        if not left[word]:
            raise _others()
        stop = start + len(word)
        found.append((left[word].pop(0), LinearForm(form.domain, form.blocks[start:stop])))
        start = stop
    if start < len(form.blocks) or any(left.values()):
        raise _others()
    return found


def _others() -> QueryError:
    return QueryError("", "Parts answers a workload of just its own questions, in any order")


def _word(form: LinearForm) -> Word:
    rows = form.row_identities()
    return tuple([sha256(b"".join(islice(rows, block.rows))).digest() for block in form.blocks])


def _begins(word: Word, start: int, other: Word) -> bool:
    """True if a word goes on with another from a place on."""
    stop = start + len(other)
    return stop <= len(word) and word[start] == other[0] and word[start:stop] == other


def _read(text: Word, words: Sequence[Word]) -> Sequence[Word]:
    """The words that a text is made of; none if it is made of others."""
    came: dict[int, Word] = {}
    waiting = [0]
    while waiting:
        start = waiting.pop()
        for word in words:
            if start < len(text) and _begins(text, start, word):
                came[start + len(word)] = word
                waiting.append(start + len(word))
    read: list[Word] = []
    place = len(text)
    while place in came:
        read.append(came[place])
        place -= len(came[place])
    return read[::-1]


def _told_apart(words: Sequence[Word]) -> bool:
    """True if every text of these words, all different, is read in one way.

    Sardinas and Patterson (1953): so it is where no word is what one reading of some text is ahead
    of another by.
    """
    seen: set[tuple[int, int]] = set()
    ahead = [
        (place, len(word))
        for place, longer in enumerate(words)
        for word in words
        if word is not longer and _begins(longer, 0, word)
    ]
    while ahead:
        one = ahead.pop()
        if one in seen:
            continue
        seen.add(one)
        place, start = one
        rest = words[place][start:]
        for other, word in enumerate(words):
            if word == rest:
                return False
            if _begins(rest, 0, word):
                ahead.append((place, start + len(word)))
            elif _begins(word, 0, rest):
                ahead.append((other, len(rest)))
    return True
