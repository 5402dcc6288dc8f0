from fractions import Fraction
from functools import partial

import mpmath as mp
import numpy as np
import pytest
from scripted import Scripted, no_bits, word64

from dpsdk.noise.table import (
    LEAST_SCALE,
    Sign,
    Table,
    gaussian_survival,
    laplace_survival,
    shift_for,
)

PRECISION = 400


def truths(kind, parameter, rows):
    """P(K > k) for k below `rows`, at 400 bits, from the definitions."""
    with mp.workprec(PRECISION):
        x = mp.mpf(parameter.numerator) / parameter.denominator
        q = mp.exp(-1 / x)
        if kind == "geometric":
            return [q ** (k + 1) for k in range(rows)]
        if kind == "laplace":
            return [2 * q ** (k + 1) / (1 + q) for k in range(rows)]
        reach = int(mp.sqrt(2 * x * PRECISION)) + 2
        weights = [mp.exp(-(mp.mpf(z) ** 2) / (2 * x)) for z in range(max(reach, rows) + 1)]
        sides = 2 if kind == "gaussian" else 1
        total = 1 + sides * mp.fsum(weights[1:])
        tail = mp.mpf(0)
        tails = []
        for weight in reversed(weights[1:]):
            tail += sides * weight
            tails.append(tail / total)
        return tails[::-1][:rows]


SURVIVALS = {
    "geometric": partial(laplace_survival, sides=1),
    "laplace": laplace_survival,
    "gaussian": gaussian_survival,
    "half gaussian": partial(gaussian_survival, sides=1),
}
CASES = [
    ("laplace", Fraction(1, 3)), ("laplace", Fraction(1, 60)), ("laplace", Fraction(10)),
    ("laplace", Fraction("127.9")), ("geometric", Fraction(1, 3)), ("geometric", Fraction(4)),
    ("geometric", Fraction("80.01")), ("gaussian", Fraction(1, 9)), ("gaussian", Fraction(1)),
    ("gaussian", Fraction(100)), ("gaussian", Fraction("16383.9")),
    ("half gaussian", Fraction(16)), ("half gaussian", Fraction("4096.5")),
    ("half gaussian", Fraction(16383)),
]  # fmt: skip


def survival_of(kind, parameter):
    return lambda precision: SURVIVALS[kind](parameter, precision)


def table_of(kind, parameter):
    sign = Sign.MIRROR if kind in ("laplace", "gaussian") else Sign.FOLD
    return Table(survival_of(kind, parameter), sign)


@pytest.mark.thorough(quick=3)
@pytest.mark.parametrize(("kind", "parameter"), CASES)
def test_every_word_is_the_true_probability_rounded_down(kind, parameter):
    table = table_of(kind, parameter)
    low = table._low[::-1].tolist()
    with mp.workprec(PRECISION):
        expected = [int(mp.floor(g * 2**63)) for g in truths(kind, parameter, len(low))]
    assert low == expected
    assert table._high[::-1].tolist() == expected
    assert expected[-1] == 0
    assert all(word > 0 for word in expected[:-1])


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize(("kind", "parameter"), CASES)
def test_brackets_hold_the_survival_function_at_any_precision(kind, parameter):
    truth = truths(kind, parameter, 4000)
    for precision in (127, 191, 255):
        brackets = iter(SURVIVALS[kind](parameter, precision))
        with mp.workprec(PRECISION):
            unit = mp.mpf(2) ** precision
            last = (1 << precision, 1 << precision)
            for k, (low, high) in enumerate(brackets):
                if k >= len(truth):
                    break
                assert low <= truth[k] * unit <= high
                assert low <= last[0]
                assert high <= last[1]
                assert high - low < 2**50
                last = low, high


@pytest.mark.thorough(quick=5)
@pytest.mark.parametrize(("kind", "parameter"), CASES)
def test_no_prefix_of_sixteen_bits_is_decided_wrongly(kind, parameter):
    table = table_of(kind, parameter)
    guide = table._guide
    resolved = guide != np.iinfo(np.int64).min
    index, drawn = np.flatnonzero(resolved), guide[resolved]
    cell, negative = (index % 2**15).astype(np.uint64), index >= 2**15
    if table._sign is Sign.MIRROR:
        k = np.abs(drawn)
        assert np.all(np.where(negative, drawn <= 0, drawn >= 0))
    else:
        k = np.where(drawn < 0, ~drawn, drawn)
        assert np.array_equal(drawn < 0, negative)

    # 2^63 P(K > k) rounded down, for k = -1, 0, 1, ...; comparing it with integers loses nothing.
    with mp.workprec(PRECISION):
        survival = [mp.mpf(1), *truths(kind, parameter, int(k.max()) + 1)]
        word = np.array([int(mp.floor(mp.ldexp(g, 63))) for g in survival], dtype=np.uint64)
    # K is k on the whole cell: every U of it is below P(K > k-1), and none below P(K > k).
    unit = np.uint64(2**48)
    assert np.all((cell + np.uint64(1)) * unit <= word[k])
    assert np.all(cell * unit > word[k + 1])

    # What is decided never outweighs the outcome, and little is left open.
    values, counts = np.unique(drawn, return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        row = abs(value) if table._sign is Sign.MIRROR else max(value, ~value)
        mass = survival[row] - survival[row + 1]
        both_signs = table._sign is Sign.MIRROR and row == 0
        assert mp.mpf(count) / 2**16 <= (mass if both_signs else mass / 2)
    assert resolved.mean() > 0.95


def draw_one(table, prefix, more):
    """The draw of a positive sign whose U starts with 63 bits of `prefix`, then words `more`."""
    cell, rest = prefix >> 48, prefix & (2**48 - 1)
    script = [cell.to_bytes(2, "little"), word64(rest)]
    bits = Scripted(script + [word64(word) for word in more])
    (drawn,) = table.draw(bits, 1)
    assert bits.done
    return int(drawn)


def scaled(g, length):
    return int(mp.floor(mp.ldexp(g, length)))


@pytest.mark.parametrize(
    ("kind", "parameter"),
    [
        ("laplace", Fraction(10)), ("laplace", Fraction(1, 3)), ("gaussian", Fraction(100)),
        ("half gaussian", Fraction(20)), ("geometric", Fraction("5.5")),
    ],
)  # fmt: skip
def test_a_word_that_holds_a_breakpoint_is_decided_by_further_bits(kind, parameter):
    table = table_of(kind, parameter)
    rows = len(table._low) - 1
    with mp.workprec(PRECISION):
        survival = truths(kind, parameter, rows)
        for k in range(0, rows, 1 + rows // 12):
            prefix = scaled(survival[k], 63)
            second = scaled(survival[k], 127) & (2**64 - 1)
            third = scaled(survival[k], 191) & (2**64 - 1)
            # Below P(K > k) the draw is k + 1; at or above it, k.
            assert draw_one(table, prefix, [second - 1]) == k + 1
            assert draw_one(table, prefix, [second + 1]) == k
            assert draw_one(table, prefix, [second, third - 1]) == k + 1
            assert draw_one(table, prefix, [second, third + 1]) == k
            assert draw_one(table, prefix, [second, third, 0]) == k + 1
            assert draw_one(table, prefix, [second, third, 2**64 - 1]) == k


@pytest.mark.parametrize("zeros", [0, 1, 3])
def test_draws_beyond_the_last_row_are_found(zeros):
    table = table_of("laplace", Fraction(10))
    length = 63 + 64 * (zeros + 1)
    for word in (2**30 + 1, 2**40 + 1, 2**64 - 1):
        drawn = draw_one(table, 0, [0] * zeros + [word])
        with mp.workprec(PRECISION):
            u, v = mp.ldexp(word, -length), mp.ldexp(word + 1, -length)
            # The draw k has P(K > k) <= U < P(K > k-1) for all U from u to v.
            q = mp.exp(-mp.mpf(1) / 10)
            assert 2 * q ** (drawn + 1) / (1 + q) <= u
            assert v <= 2 * q**drawn / (1 + q)
        assert drawn > len(table._low) - 2


def test_a_resolved_prefix_takes_no_further_bits():
    table = table_of("laplace", Fraction(10))
    assert table.draw(Scripted([(2**15 - 1).to_bytes(2, "little")]), 1).tolist() == [0]
    assert table.draw(Scripted([b""]), 0).tolist() == []


@pytest.mark.parametrize(
    ("sign", "expected"), [(Sign.NONE, [3, 3]), (Sign.MIRROR, [3, -3]), (Sign.FOLD, [3, -4])]
)
def test_the_sign_bit_acts_as_named(sign, expected):
    table = Table(survival_of("geometric", Fraction(5)), sign)
    # P(K > 3) < 1/2 < P(K > 2), half-way into the interval of 3.
    bits = Scripted([(2**14).to_bytes(2, "little") + (2**14 + 2**15).to_bytes(2, "little")])
    assert table.draw(bits, 2).tolist() == expected


def test_a_survival_function_that_ends_too_early_is_refused():
    with pytest.raises(ArithmeticError, match="ended above"):
        Table(lambda precision: [(1 << precision - 1,) * 2], Sign.NONE)


def test_small_scales_need_no_bits_beyond_the_guide_for_zero():
    table = table_of("gaussian", Fraction(1, 10**6))
    assert table.draw(lambda count: b"\xff" * count, 4).tolist() == [0] * 4
    with pytest.raises(AssertionError, match="bytes asked for"):
        table.draw(no_bits, 1)


def test_shift_brings_every_scale_into_the_table():
    least = LEAST_SCALE
    assert shift_for(2 * least - 1) == 0
    for scale in (2 * least, 2 * least + 1, 10**6, 2**55 - 1, 2**55):
        assert least <= Fraction(scale, 2 ** shift_for(scale)) < 2 * least
    assert shift_for(2**55) <= 53


def test_tables_cannot_be_written_to():
    table = table_of("laplace", Fraction(10))
    for array in (table._guide, table._low, table._high):
        assert not array.flags.writeable
