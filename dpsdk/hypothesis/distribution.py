"""Public distributions over a universe, and hypotheses, which also move.

They answer, tabulate, sample and can be kept.
"""

# ruff: noqa: ARG002  # defaults of methods that distributions override

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import ClassVar, Self

import numpy as np

from dpsdk._checks import require, shown
from dpsdk.accuracy import Accuracy, NoAccuracy
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, LinearForm
from dpsdk.hypothesis import files
from dpsdk.hypothesis.seeking import inside, seek
from dpsdk.hypothesis.streams import Seed, Streams, to_key
from dpsdk.noise.source import to_size
from dpsdk.typing import Floats, Ints, Label

__all__ = [
    "Distribution",
    "Hypothesis",
    "check_domain",
    "labels_of",
    "nowhere",
    "reached",
    "to_finite_float",
    "to_outside",
    "to_weight",
]


_LISTED = 2**20
_SAMPLED = 2**28
"""The most labels of one sample: lists of 2 GiB."""

_UNKNOWN = "read off a distribution, and never compared"


class Distribution(ABC):
    """A public probability distribution over a universe.

    It is made of public values and of releases only, so that nothing here costs any budget. With
    `outside` it has one cell more, for records outside the domain, where every function is zero;
    it takes part in every normalisation.

    An answer is the expected weight of one random record, in the weight unit of the form: a share
    of the records where the weights are 0 and 1.

    A subclass sets `domain` and `outside`, and has `outside_mass`, `table`, `records`, `draw`,
    `parts` and `from_parts`; it may answer quicker than from tables, and know how far off it may
    be. Its `kind` is what files call it, a text that no other kind has, such as "acme.factored".
    Files are read by classes that the program has imported, and by no others.
    """

    __slots__ = ()
    kind: ClassVar[str] = ""
    """The name of this kind of distribution in files; none is kept in files where it is empty."""
    listed: ClassVar[bool] = False
    """True if it is made of records, which are all that `records` gives for any attributes."""
    _kinds: ClassVar[dict[str, type[Distribution]]] = {}

    domain: Domain
    """The universe."""

    outside: bool
    """True if there is an extra cell outside the domain."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind = vars(cls).get("kind", "")
        if not kind:
            return
        known = Distribution._kinds.get(kind)
        # A class decorator may make the class anew, and so may a module that is loaded again.
        named = (cls.__module__, cls.__qualname__)
        if known is not None and (known.__module__, known.__qualname__) != named:
            expected = "a text that no other kind of distribution has"
            raise InvalidArgument("kind", expected, shown(kind))
        Distribution._kinds[kind] = cls

    @property
    @abstractmethod
    def outside_mass(self) -> float:
        """The probability of the extra cell; 0 where there is none."""

    def answers(self, form: LinearForm) -> Floats:
        """The expected weight of a random record for every function of a form.

        An array of shape (form.rows,), in the weight unit of the form. Raises `InvalidArgument` for
        a form over another domain, and `QueryError` if this kind of distribution cannot evaluate
        such a form.
        """
        self._check(form)
        return form.evaluate(self)

    def answer(self, form: LinearForm) -> float:
        """The expected weight of a random record, for a form of one function."""
        self._check_one(form)
        return float(self.answers(form)[0])

    def accuracy(self, form: LinearForm, facts: Facts) -> Accuracy:
        """How far off answers, as counts of rows, may be from those of a table with such facts.

        By default nothing is known.
        """
        return NoAccuracy(_UNKNOWN)

    @abstractmethod
    def table(self, names: tuple[str, ...]) -> Floats:
        """Marginal probabilities, one axis a name. They sum to 1 minus the outside mass."""

    @abstractmethod
    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        """Cells of the named attributes as records, each with its probability.

        For each name the cell numbers of the records, and then what each of them is worth. Every
        cell of some probability is among them; a cell may come several times.
        """

    def sample(self, size: int, seed: Seed | None = None) -> dict[str, list[Label]]:
        """Independent random records, given that they lie inside the domain.

        Each attribute is drawn from randomness of its own. Probabilities are rounded by about
        2^-53: this is public post-processing, so that nothing private hangs on it, and a sample may
        be repeated. Raises `InvalidArgument` if the size is no integer of at least 0, the seed is
        none of these, or no cell inside the domain has any probability, and `TooLarge` if there
        would be more than 2^28 labels.

        Parameters
        ----------
        size
            How many records: the length of the list of labels of each attribute.
        seed
            An integer, for a sample that is the same each time, and whose first records are those
            of any longer one; or a generator of numpy, or a source of noise, which give another
            sample each time. Fresh randomness of the operating system by default.
        """
        count, attributes = to_size(size), self.domain.attributes
        if count * len(attributes) > _SAMPLED:
            advice = "draw fewer records at a time"
            raise TooLarge("a sample", count * len(attributes), _SAMPLED, "labels", advice)
        codes = self.draw(Streams(count, to_key(seed)))
        return {
            attribute.name: labels_of(attribute, column)
            for attribute, column in zip(attributes, codes, strict=True)
        }

    @abstractmethod
    def draw(self, streams: Streams) -> Sequence[Ints]:
        """Independent random records inside the domain, as cell numbers.

        For each attribute of the domain, in order, those of `streams.size` records. An attribute
        uses the numbers of the streams that are drawn for its own name. Raises `InvalidArgument` if
        no cell inside the domain has any probability.
        """

    def save(self, path: str | PathLike[str]) -> None:
        """Write this distribution to a file: a zip archive of plain arrays, versioned, no pickle.

        Nothing is written where it raises: `InvalidArgument` if the class has no `kind`, or `parts`
        gives what a file does not hold, and `TooLarge` if no reader would take so large a file.
        """
        flags, arrays = self.parts()
        files.write(path, self.kind, flags, self.domain, arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote: a distribution of this class or of one below it.

        `Distribution.load` reads any kind that the program has imported, and `Hypothesis.load` any
        that moves. Raises `DataError` if the file is not such a distribution, is damaged, or is of
        a version from the future.
        """
        domain, flags, arrays = files.read(path)
        kind = flags.pop("kind", None)
        found = cls._kinds.get(kind) if isinstance(kind, str) else None
        if found is None or not issubclass(found, cls):
            raise files.damaged(path, f"it does not hold a {cls.__name__}")
        try:
            return found.from_parts(domain, flags, arrays)
        except (InvalidArgument, TooLarge) as error:
            raise files.damaged(path, str(error)) from None

    @abstractmethod
    def parts(self) -> tuple[Mapping[str, files.Flag], Mapping[str, Floats | Ints]]:
        """The parts that a file keeps of this distribution, besides its domain.

        Flags are truth values, numbers or texts by name; arrays are plain rows of float64 or int64,
        up to seven of them. Once written under a `kind`, a name keeps its meaning.
        """

    @classmethod
    @abstractmethod
    def from_parts(cls, domain: Domain, flags: Mapping[str, object], arrays: files.Arrays) -> Self:
        """The distribution that `parts` wrote down. Everything given comes from a file.

        The domain is as valid as any; flags and arrays are unchecked, apart from the arrays being
        rows of float64 or int64. Raises `InvalidArgument` or `TooLarge` if they are not such parts;
        `load` then names the file.
        """

    def _check(self, form: LinearForm) -> None:
        if form.domain is not self.domain and form.domain != self.domain:
            expected = "a form over the domain of this distribution"
            raise InvalidArgument("form", expected, "a form over another domain")

    def _check_one(self, form: LinearForm) -> None:
        self._check(form)
        if form.rows != 1:
            raise InvalidArgument("form", "a form of one function", f"{form.rows} functions")

    @property
    def _size(self) -> int:
        return self.domain.size + self.outside


def labels_of(attribute: Attribute, codes: Ints) -> list[Label]:
    """The labels of many cells of an attribute."""
    if attribute.size > min(_LISTED, 4 * len(codes) + 256):
        return [attribute.label(code) for code in codes.tolist()]
    labels = attribute.labels
    return [labels[code] for code in codes.tolist()]


def to_outside(mass: float | None) -> float | None:
    """A probability below 1, or none."""
    if mass is not None and not 0.0 <= mass < 1.0:
        raise InvalidArgument("outside_mass", "a number in [0, 1), or None", shown(mass))
    return mass


def nowhere() -> InvalidArgument:
    """The error of a distribution that has nothing inside the domain to draw."""
    expected = "used only while some cell inside the domain has a probability"
    return InvalidArgument("sample", expected, "none")


def check_domain(domain: Domain) -> None:
    """Refuse what is no domain."""
    require(isinstance(domain, Domain), "domain", "a domain", domain)


def reached(weights: Floats, levels: Floats) -> Ints:
    """For each level in [0, 1) the place where weights, added up, exceed that share of them all."""
    ends: Floats = np.cumsum(weights)
    total = float(ends[-1])
    if not total > 0.0:
        raise nowhere()
    # No level reaches a place without weight, not even one that is rounded up to the total.
    last = int(ends.searchsorted(total))
    return np.minimum(ends.searchsorted(levels * total, side="right"), last).astype(np.int64)


class Hypothesis(Distribution):
    """A public distribution that also moves: updates change it in place.

    Not safe for use by several threads at once. A subclass has what a distribution has, `shift`,
    `blend`, `kl_cap` and `copy`, and `check` where it cannot learn all that it answers; it may have
    a quicker `move_to` of its own.
    """

    __slots__ = ()

    @abstractmethod
    def shift(self, form: LinearForm, step: float, answer: float | None = None) -> float:
        """Multiply the probability p of every cell by exp(step · weight), and normalise.

        This is the multiplicative weights update, in place (Hardt and Rothblum 2010; Dwork and Roth
        2014, Algorithm 5). Raises `InvalidArgument` for several functions, another domain, or a
        step that is not finite, and `QueryError` if this kind of hypothesis cannot be moved along
        such a function.

        Parameters
        ----------
        form
            A form of one function f, over the domain.
        step
            Positive to raise the answer of the function, negative to lower it; in units of
            1 / weight.
        answer
            What `answer(form)` is now, if the caller has just asked, which saves a pass over the
            cells. Any other number here makes a wrong distribution.

        Returns
        -------
        float
            The logarithm of the normaliser, ln Σ p·exp(step·f). The relative entropy KL(h‖p) of any
            distribution h from p fell by step·f(h) minus this number.
        """

    def move_to(self, form: LinearForm, target: float, answer: float | None = None) -> float:
        """Shift along a function by the one step after which its answer is `target`.

        In closed form, where a kind of hypothesis knows one; otherwise by trying steps on a copy.
        Raises `InvalidArgument` or `QueryError` as `shift` does.

        Parameters
        ----------
        form, answer
            As for `shift`.
        target
            The wanted answer. One that the function cannot reach, or only in the limit of an
            infinite step, is brought inside by 2^-40 of the function's range; the answer never
            moves away from the target for it.

        Returns
        -------
        float
            The step, as `shift` would take it; 0 where the function has one value only over the
            cells of positive probability, which no step can move.
        """
        self._check_one(form)
        wanted = to_finite_float("target", target)
        low, high = form.limits
        if self.outside:
            low, high = min(low, 0.0), max(high, 0.0)
        if not low < high:
            return 0.0
        now = self.answer(form) if answer is None else answer
        step = seek(self.copy(), form, inside(wanted, now, low, high), now, low, high)
        if step != 0.0:
            self.shift(form, step, answer)
        return step

    def check(self, form: LinearForm) -> None:
        """Refuse a form of which some function could be answered, but not learnt.

        Mechanisms ask before they pay for what `shift` and `move_to` are to learn. Raises
        `QueryError` or `TooLarge` if this kind of hypothesis cannot be moved along some function of
        the form.
        """

    @abstractmethod
    def kl_cap(self) -> float:
        """The largest ln(1 / probability) of a cell; infinite where a cell has none.

        No distribution has a larger relative entropy from this one, so it bounds the potential
        that updates can use up (the prior's cap is ln |X| for the uniform one).
        """

    @abstractmethod
    def blend(self, weight: float) -> None:
        """Mix with the uniform distribution: (1 - weight) of this one, `weight` of the uniform.

        Afterwards `kl_cap()` is at most ln(cells / weight). Raises `InvalidArgument` if the weight
        is not in [0, 1].
        """

    @abstractmethod
    def copy(self) -> Self:
        """An independent hypothesis with the same distribution."""


def to_finite_float(parameter: str, value: float) -> float:
    """A finite number, such as a target or a step."""
    require(math.isfinite(value), parameter, "a finite number", value)
    return float(value)


def to_weight(weight: float) -> float:
    """A number in [0, 1]."""
    require(0.0 <= weight <= 1.0, "weight", "a number in [0, 1]", weight)
    return float(weight)
