"""Nothing that a client holds, makes or hands in changes a draw of anyone else."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import attacks
import dpsdk.noise
import dpsdk.testing
from dpsdk.errors import InvalidArgument
from dpsdk.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Geometric,
    NoiseLaw,
    NoiseSource,
    SystemNoise,
)
from dpsdk.noise.laws import from_plain, to_plain
from dpsdk.testing.audit import BranchingNoise
from dpsdk.testing.noise import seeded
from dpsdk.typing import Ints
from worlds import crossed

pytestmark = pytest.mark.thorough

Law = type[DiscreteLaplace] | type[DiscreteGaussian] | type[Geometric]
CLASSES: list[Law] = [DiscreteLaplace, DiscreteGaussian, Geometric]
WIDTH = 10**12
SIZES = (1, 30, 5000)
"""One draw, a few, and enough for a table."""


def honest(cls: Law, source: NoiseSource | None = None) -> list[list[int]]:
    """What a session draws that knows nothing of any attack."""
    mine = source or seeded(77)
    return [mine.draw(cls(WIDTH), size).tolist() for _ in range(3) for size in SIZES]


@pytest.fixture(autouse=True)
def fresh() -> None:
    attacks.forget(dpsdk.noise)
    attacks.forget(dpsdk.testing)


def test_every_law_is_attacked() -> None:
    public = [getattr(dpsdk.noise, name) for name in dpsdk.noise.__all__]
    laws = [t for t in public if inspect.isclass(t) and issubclass(t, NoiseLaw)]
    assert {law for law in laws if not inspect.isabstract(law)} == set(CLASSES)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("size", SIZES)
def test_a_law_that_equals_all_others_leaves_nothing_behind(cls: Law, size: int) -> None:
    expected = honest(cls)
    attacks.forget(dpsdk.noise)
    prey = cls(WIDTH)
    for public in (SystemNoise(), seeded(1)):
        with pytest.raises(InvalidArgument, match="law"):
            public.draw(attacks.hostile(cls, prey)(0), size)
    assert honest(cls) == expected
    drawn = SystemNoise().draw(prey, size)
    assert np.count_nonzero(drawn) >= size - 1


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("source", [SystemNoise, lambda: seeded(1), BranchingNoise])
def test_every_source_refuses_foreign_laws(cls: Law, source: Callable[[], NoiseSource]) -> None:
    class Plain(cls):  # type: ignore[misc, valid-type]  # one of three classes
        pass

    for law in (Plain(5), attacks.hostile(cls, cls(5))(5), object(), None, cls):
        with pytest.raises(InvalidArgument, match="law"):
            source().draw(law, 1)  # type: ignore[arg-type]  # the refusal is what is tested
        with pytest.raises(InvalidArgument, match="law"):
            source().reaches(law, np.array([1]))  # type: ignore[arg-type]  # as above


class Liar(int):
    """An integer that compares, hashes and computes as another."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(WIDTH)

    def __le__(self, other: object) -> bool:
        return True

    __ge__ = __lt__ = __gt__ = __le__


@pytest.mark.parametrize("cls", CLASSES)
def test_numbers_that_lie_are_read_as_what_they_are_or_refused(cls: Law) -> None:
    expected = honest(cls)
    attacks.forget(dpsdk.noise)
    name = "variance" if cls is DiscreteGaussian else "scale"
    for number in (Liar(0), attacks.hostile(Fraction, Fraction(WIDTH))(0)):
        try:
            law = cls(number)
        except InvalidArgument:
            continue
        kept = getattr(law, name)
        assert type(kept) is Fraction
        assert type(kept.numerator) is int
        assert SystemNoise().draw(law, 5).tolist() == [0] * 5
    for numerator in (Liar(0), 0.5, None, 10**400, -1):
        law = cls(WIDTH)
        getattr(law, name)._numerator = numerator
        with pytest.raises(InvalidArgument, match="law"):
            SystemNoise().draw(law, 1)
    for denominator in (Liar(1), 0, -1, 1 << 1024):
        law = cls(WIDTH)
        getattr(law, name)._denominator = denominator
        with pytest.raises(InvalidArgument, match="law"):
            SystemNoise().draw(law, 1)
    unset = object.__new__(cls)
    with pytest.raises(InvalidArgument, match="law"):
        SystemNoise().draw(unset, 1)
    assert honest(cls) == expected


@pytest.mark.parametrize("cls", CLASSES)
def test_a_number_handed_in_is_not_kept(cls: Law) -> None:
    number = Fraction(WIDTH)
    law = cls(number)
    number._numerator = 0  # type: ignore[attr-defined]  # the attack
    assert to_plain(law) == to_plain(cls(WIDTH))
    assert law == cls(WIDTH)


def ways(cls: Law) -> list[str]:
    law = cls(WIDTH)
    return [name for name, _ in attacks.writes(law, cls(0), cls(2))]


@pytest.mark.parametrize(
    ("attack", "shared"),
    crossed([(cls, way) for cls in CLASSES for way in ways(cls)], [False, True], 2),
    ids=str,
)
def test_writing_into_a_law_changes_no_draw_of_another(
    attack: tuple[Law, str], shared: bool
) -> None:
    cls, way = attack

    def run(write: bool) -> list[list[list[int]]]:
        attacks.forget(dpsdk.noise)
        theirs = seeded(78)
        mine = theirs if shared else seeded(77)
        law = cls(WIDTH)
        write_it = dict(attacks.writes(law, cls(0), cls(2)))[way]
        results = []
        # Before any draw, between two, and after: the client draws with it whenever it may.
        for turn in range(3):
            if write and turn == 1:
                attacks.attempt(write_it)
            if shared:
                # The client's draws would move the stream that both share: it only looks.
                attacks.attempt(lambda: law.radius(0.05))
            else:
                for size in SIZES:
                    attacks.attempt(partial(theirs.draw, law, size))
            results.append(honest(cls, mine))
            if write:
                attacks.attempt(write_it)
        return results

    assert run(write=True) == run(write=False)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_law_written_into_poisons_no_later_one(cls: Law) -> None:
    expected = honest(cls)
    for way in ways(cls):
        attacks.forget(dpsdk.noise)
        law = cls(WIDTH)
        public = SystemNoise()
        public.draw(law, 1)
        attacks.attempt(dict(attacks.writes(law, cls(0), cls(2)))[way])
        for size in SIZES:
            attacks.attempt(partial(public.draw, law, size))
        assert honest(cls) == expected
        assert np.count_nonzero(public.draw(cls(WIDTH), 200)) >= 190


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("size", [1, 10, 100, 1000, 5000])
def test_what_is_drawn_belongs_to_whoever_drew_it(cls: Law, size: int) -> None:
    def run(write: bool) -> list[list[int]]:
        source = seeded(79)
        results = []
        for _ in range(20):
            drawn: Ints = source.draw(cls(WIDTH), size)
            results.append(drawn.tolist())
            assert drawn.base is None
            if write:
                for _, way in attacks.inner_writes(drawn):
                    attacks.attempt(way)
        return results

    assert run(write=True) == run(write=False)


def test_caches_are_keyed_by_exact_numbers_and_keep_nothing_that_can_change() -> None:
    for cls in CLASSES:
        for scale in (1, 10, 10**6):
            for size in SIZES:
                SystemNoise().draw(cls(scale), size)
        BranchingNoise().draw(cls(1), 1)
    BranchingNoise().uniform_below(3)
    filled = 0
    for package in (dpsdk.noise, dpsdk.testing):
        for name, cache in attacks.caches(package).items():
            for key, value in attacks.worked_out_once(cache):
                if name.endswith("__all__") or not callable(cache):
                    continue
                filled += 1
                assert list(attacks.foreign(key)) == [], name
                for array in attacks.arrays(value):
                    assert not attacks.unsealed(array), name
    assert filled >= 12


def test_modules_keep_no_array_or_table_that_can_change() -> None:
    for package in (dpsdk.noise, dpsdk.testing):
        for name, thing in attacks.caches(package).items():
            if isinstance(thing, np.ndarray):
                assert thing.size == 0 or not attacks.unsealed(thing), name
            else:
                # Functions with a cache are looked at above; nothing else may remember.
                assert callable(thing), name


@pytest.mark.parametrize("cls", CLASSES)
def test_pools_are_keyed_by_exact_numbers(cls: Law) -> None:
    source = SystemNoise()
    for size in SIZES:
        source.draw(cls("3.7"), size)
    for key in source._pools._pools:
        assert list(attacks.foreign(key)) == []


@pytest.mark.parametrize("cls", CLASSES)
def test_plain_laws_come_back_as_laws_of_their_own(cls: Law) -> None:
    law = cls("3.7")
    again = from_plain(to_plain(law))
    assert again == law
    assert again is not law
    assert attacks.fields(again).popitem()[1] is not attacks.fields(law).popitem()[1]
    with pytest.raises(ValueError, match="cauchy"):
        from_plain(("cauchy", 1, 1))  # type: ignore[arg-type]  # the refusal is what is tested


def test_every_public_object_is_attacked_and_no_draw_changes() -> None:
    expected = {cls: honest(cls) for cls in CLASSES}
    attacks.forget(dpsdk.noise)
    attacked = set()
    for name in dpsdk.noise.__all__:
        thing = getattr(dpsdk.noise, name)
        if isinstance(thing, str):  # what a class of another package is called
            attacked.add(name)
            continue
        if thing in CLASSES:
            mine = [thing(WIDTH), thing("0.3"), from_plain(to_plain(thing(5)))]
            others = [thing(0), thing(2)]
        elif thing is SystemNoise:
            mine, others = [SystemNoise()], [SystemNoise()]
        elif inspect.isfunction(thing):
            lies = (Liar(0), attacks.hostile(Fraction, Fraction(WIDTH))(0), True, "nan")
            for lie in lies:
                attacks.attempt(partial(thing, lie, 5))
                attacks.attempt(partial(thing, 1, lie))
            mine, others = [], []
        else:
            assert inspect.isabstract(thing), f"nobody attacks {name}"
            mine, others = [], []
        attacked.add(name)
        for value in mine:
            for _, write in attacks.writes(value, *others):
                attacks.attempt(write)
                for size in SIZES:
                    attacks.attempt(partial(seeded(3).draw, value, size))
    assert attacked == set(dpsdk.noise.__all__)
    assert {cls: honest(cls) for cls in CLASSES} == expected
    for cls in CLASSES:
        assert np.count_nonzero(SystemNoise().draw(cls(WIDTH), 200)) >= 190
