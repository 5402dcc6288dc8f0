"""A ladder is in order whatever stands on it, so that both searches find the best of all places."""

import random
from itertools import pairwise

import pytest

from dpsdk.planner.search import OrderedSearch


def in_order(below, above):
    return below[0] <= above[0] and below[1] >= above[1]


def rough(seed, places):
    """Costs that nearly rise and errors that nearly fall, with gaps."""
    rng = random.Random(seed)
    noise = rng.choice([0, 1, 5, 50])
    return [
        None
        if rng.random() < 0.1
        else (place + rng.randint(-noise, noise), -place + rng.randint(-noise, noise))
        for place in range(places)
    ]


def standing(things):
    """What stands at each place, by asking for every error and every cost that there is."""
    ladder = OrderedSearch(things.__getitem__, in_order, 0, len(things) - 1)
    known = {one for one in things if one is not None}
    found = {ladder.around(lambda one, at=at: one[1] <= at[1]) for at in known}
    found |= {ladder.around(lambda one, at=at: one[0] > at[0]) for at in known}
    return ladder, {one for pair in found for one in pair if one is not None}


@pytest.mark.parametrize("seed", range(40))
def test_what_an_error_costs_buys_that_error(seed):
    things = rough(seed, 3 + seed % 37)
    ladder, stand = standing(things)
    assert all(in_order(*pair) for pair in pairwise(sorted(stand, key=lambda t: (t[0], -t[1]))))
    for alpha in range(-60, 60):
        _, reached = ladder.around(lambda one, alpha=alpha: one[1] <= alpha)
        if reached is not None:
            most, _ = ladder.around(lambda one, cost=reached[0]: one[0] > cost)
            assert most is not None
            assert most[0] <= reached[0]
            assert most[1] <= alpha
            # Nothing that stands there reaches for less.
            assert not [one for one in stand if one[1] <= alpha and one[0] < reached[0]]


@pytest.mark.parametrize("seed", range(40))
def test_a_looser_error_never_costs_more(seed):
    ladder, _ = standing(rough(seed, 3 + seed % 37))
    costs = [
        None if reached is None else reached[0]
        for alpha in range(-60, 60)
        for _, reached in [ladder.around(lambda one, alpha=alpha: one[1] <= alpha)]
    ]
    known = [cost for cost in costs if cost is not None]
    assert costs[: len(costs) - len(known)] == [None] * (len(costs) - len(known))
    assert known == sorted(known, reverse=True)


def test_things_in_order_are_searched_as_by_halves():
    asked = []

    def thing(place):
        asked.append(place)
        return place, -place

    ladder = OrderedSearch(thing, in_order, -1000, 1000)
    for wanted in (-1000, -37, 0, 999, 1000):
        assert ladder.around(lambda one, wanted=wanted: one[0] >= wanted)[1] == (wanted, -wanted)
        assert ladder.around(lambda one, wanted=wanted: one[0] > wanted)[0] == (wanted, -wanted)
    assert len(asked) <= 10 * 11


def test_of_nothing_nothing_is_found():
    ladder = OrderedSearch(lambda _: None, in_order, 0, 99)
    assert ladder.around(lambda _: True) == (None, None)
