"""The public distribution that stands for a private table, and how it may move."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import ClassVar, Self

import numpy as np

from dpsdk._checks import shown
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import LinearForm
from dpsdk.hypothesis import files
from dpsdk.noise import NoiseSource, SystemNoise
from dpsdk.noise.source import to_size
from dpsdk.typing import Floats, Ints, Label

__all__ = ["Hypothesis"]

MARGIN = 2.0**-40
"""A target closer than this to what a function cannot reach is taken to be this far from it."""

_TRIES = 64
_LISTED = 2**20
_HALF_ULP = 2.0**-53

_system = SystemNoise()


class Hypothesis(ABC):
    """A public probability distribution over a universe, changed in place by updates.

    It is made of public values and of releases only, so that nothing here costs any budget. With
    `outside` it has one cell more, for records outside the domain, where every function is zero;
    it takes part in every normalisation. Not safe for use by several threads at once.

    An answer is the expected weight of one random record, in the weight unit of the form: a share
    of the records where the weights are 0 and 1.
    """

    __slots__ = ()
    kind: ClassVar[str]
    """What files call this kind of hypothesis."""
    _kinds: ClassVar[dict[str, type[Hypothesis]]] = {}

    domain: Domain
    """The universe."""

    outside: bool
    """Whether there is an extra cell outside the domain."""

    def __init_subclass__(cls, *, kind: str) -> None:
        cls.kind = kind
        Hypothesis._kinds[kind] = cls

    @property
    @abstractmethod
    def outside_mass(self) -> float:
        """The probability of the extra cell; 0 where there is none."""

    @abstractmethod
    def answers(self, form: LinearForm) -> Floats:
        """The expected weight of a random record for every function of a form.

        Parameters
        ----------
        form
            Any linear form over the domain.

        Returns
        -------
        Floats
            Shape (form.rows,), in the weight unit of the form.

        Raises
        ------
        InvalidArgument
            For a form over another domain.
        QueryError
            If this kind of hypothesis cannot evaluate such a form.
        """

    def answer(self, form: LinearForm) -> float:
        """The expected weight of a random record, for a form of one function."""
        self._check_one(form)
        return float(self.answers(form)[0])

    @abstractmethod
    def table(self, names: tuple[str, ...]) -> Floats:
        """Marginal probabilities, one axis a name. They sum to 1 minus the outside mass."""

    @abstractmethod
    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        """All cells of the named attributes as records, each with its probability."""

    @abstractmethod
    def shift(self, form: LinearForm, step: float, answer: float | None = None) -> None:
        """Multiply the probability of every cell by exp(step · weight), and normalise.

        This is the multiplicative weights update, in place (Hardt and Rothblum 2010; Dwork and
        Roth 2014, Algorithm 5).

        Parameters
        ----------
        form
            A form of one function, over the domain.
        step
            Positive to raise the answer of the function, negative to lower it; in units of
            1 / weight.
        answer
            What `answer(form)` is now, if the caller has just asked: the normaliser of a function
            with two values follows from it without a pass over the cells. Any other number here
            makes a wrong distribution.

        Raises
        ------
        InvalidArgument
            For several functions, another domain, or a step that is not finite.
        QueryError
            If this kind of hypothesis cannot be moved along such a function.
        """

    def move_to(self, form: LinearForm, target: float, answer: float | None = None) -> float:
        """Shift along a function by the one step after which its answer is `target`.

        In closed form for a function with two values, where the step is the difference of two
        log-odds; by safeguarded Newton steps otherwise.

        Parameters
        ----------
        form
            A form of one function, over the domain.
        target
            The wanted answer. One that the function cannot reach, or only in the limit of an
            infinite step, is brought inside by 2^-40 of the function's range; the answer never
            moves away from the target for it.
        answer
            As in `shift`.

        Returns
        -------
        float
            The step, as `shift` would take it; 0 where the function has one value only over the
            cells of positive probability, which no step can move.

        Raises
        ------
        InvalidArgument, QueryError
            As in `shift`, or for a target that is not finite.
        """
        self._check_one(form)
        if not math.isfinite(target):
            raise InvalidArgument("target", "a finite number", shown(target))
        height = self._height(form)
        if height is None:
            return self._move_weighted(form, target)
        if height == 0.0:
            return 0.0
        given = answer is not None and 0.0 < answer / height < 1.0
        log_share = math.log(answer / height) if given and answer else self._log_share(form)
        return self._move_share(form, height, target / height, log_share) / height

    def _move_share(
        self, form: LinearForm, height: float, wanted: float, log_share: float
    ) -> float:
        """Bring the probability that the function is not zero to `wanted`."""
        moved = 0.0
        wanted = inside(wanted, math.exp(log_share), 0.0, 1.0)
        for _ in range(_TRIES):
            share = math.exp(log_share)
            if log_share == -math.inf or abs(share - wanted) <= _HALF_ULP:
                return moved
            # Of a rest too small for floats only a bound is known; so the step is made in parts.
            odds = log_share - math.log(max(-math.expm1(log_share), _HALF_ULP))
            step = math.log(wanted) - math.log1p(-wanted) - odds
            self.shift(form, step / height, share * height)
            moved += step
            if abs(odds) < 7.0:
                return moved
            log_share = self._log_share(form)
        return 0.0 if log_share >= -_HALF_ULP else moved

    @abstractmethod
    def _height(self, form: LinearForm) -> float | None:
        """The one value other than zero of a function; None where there are several."""

    @abstractmethod
    def _log_share(self, form: LinearForm) -> float:
        """The logarithm of the probability that a function with two values is not zero."""

    @abstractmethod
    def _move_weighted(self, form: LinearForm, target: float) -> float:
        """`move_to` for a function with more than two values."""

    @abstractmethod
    def kl_cap(self) -> float:
        """The largest ln(1 / probability) of a cell; infinite where a cell has none.

        No distribution has a larger relative entropy from this one, so it bounds the potential
        that updates can use up (the prior's cap is ln |X| for the uniform one).
        """

    @abstractmethod
    def blend(self, weight: float) -> None:
        """Mix with the uniform distribution: (1 - weight) of this one, `weight` of the uniform.

        Afterwards `kl_cap()` is at most ln(cells / weight).

        Raises
        ------
        InvalidArgument
            If the weight is not in [0, 1].
        """

    def sample(self, size: int, noise: NoiseSource | None = None) -> dict[str, list[Label]]:
        """Independent random records, given that they lie inside the domain.

        Probabilities are rounded to multiples of about 2^-53: this is public post-processing, so
        that nothing private hangs on it.

        Parameters
        ----------
        size
            How many records.
        noise
            Where random bits come from; the operating system's generator by default.

        Returns
        -------
        dict
            For each attribute its labels, a list of length `size`.

        Raises
        ------
        InvalidArgument
            If the size is no integer of at least 0, or no cell inside the domain has any
            probability.
        """
        codes = self._draw(_uniforms(to_size(size), _system if noise is None else noise))
        return {
            attribute.name: _labels(attribute, column)
            for attribute, column in zip(self.domain.attributes, codes, strict=True)
        }

    @abstractmethod
    def _draw(self, levels: Floats) -> Sequence[Ints]:
        """The cells at which the distribution inside the domain first exceeds each level."""

    @abstractmethod
    def copy(self) -> Self:
        """An independent hypothesis with the same distribution."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write this hypothesis to a file: a zip archive of plain arrays, versioned, no pickle."""
        header, arrays = self._parts()
        files.write(path, {"kind": self.kind, **header}, self.domain, arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote: a hypothesis of this class, or of any kind for `Hypothesis`.

        Raises
        ------
        DataError
            If the file is not such a hypothesis, is damaged, or is of a version from the future.
        """
        domain, flags, arrays = files.read(path)
        kind = flags.pop("kind", None)
        found = cls._kinds.get(kind) if isinstance(kind, str) else None
        if found is None or not issubclass(found, cls):
            raise files.damaged(path, f"it does not hold a {cls.__name__}")
        try:
            return found._from_parts(domain, flags, arrays)
        except (InvalidArgument, TooLarge) as error:
            raise files.damaged(path, str(error)) from None

    @abstractmethod
    def _parts(self) -> tuple[dict[str, bool], dict[str, Floats | Ints]]:
        """Flags and arrays that make up this hypothesis."""

    @classmethod
    @abstractmethod
    def _from_parts(cls, domain: Domain, flags: Mapping[str, object], arrays: files.Arrays) -> Self:
        """The hypothesis made of checked parts."""

    def _check(self, form: LinearForm) -> None:
        if form.domain is not self.domain and form.domain != self.domain:
            expected = "a form over the domain of this hypothesis"
            raise InvalidArgument("form", expected, "a form over another domain")

    def _check_one(self, form: LinearForm) -> None:
        self._check(form)
        if form.rows != 1:
            raise InvalidArgument("form", "a form of one function", f"{form.rows} functions")

    @property
    def _size(self) -> int:
        return self.domain.size + self.outside


def inside(target: float, answer: float, low: float, high: float) -> float:
    """A target brought strictly between what is reached in the limit, on its side of an answer."""
    margin = MARGIN * (high - low)
    if target >= answer:
        return max(answer, min(target, high - margin))
    return min(answer, max(target, low + margin))


def to_step(step: float) -> float:
    """A finite step."""
    if not math.isfinite(step):
        raise InvalidArgument("step", "a finite number", shown(step))
    return float(step)


def to_weight(weight: float) -> float:
    """A number in [0, 1]."""
    if not 0.0 <= weight <= 1.0:
        raise InvalidArgument("weight", "a number in [0, 1]", shown(weight))
    return float(weight)


def to_outside(mass: float | None) -> float | None:
    """A probability below 1, or none."""
    if mass is not None and not 0.0 <= mass < 1.0:
        raise InvalidArgument("outside_mass", "a number in [0, 1), or None", shown(mass))
    return mass


def _uniforms(size: int, noise: NoiseSource) -> Floats:
    """Uniform multiples of 2^-53 in [0, 1)."""
    if size == 0:
        return np.empty(0)
    drawn = noise.uniform_below(1 << 64 * size).to_bytes(8 * size, "little")
    words = np.frombuffer(drawn, dtype="<u8") >> np.uint64(11)
    return words.astype(np.float64) * 2.0**-53


def _labels(attribute: Attribute, codes: Ints) -> list[Label]:
    if attribute.size > min(_LISTED, 4 * len(codes) + 256):
        return [attribute.label(int(code)) for code in codes]
    labels = attribute.labels
    return [labels[code] for code in codes.tolist()]
