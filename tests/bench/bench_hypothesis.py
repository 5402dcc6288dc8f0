"""What a hypothesis costs, in units of an in-place scale of the same array in the same run.

Run it as ``python tests/bench/bench_hypothesis.py``. The scale of an array in place is what the
memory, or the cache, can do at best. Ratios are medians over interleaved rounds, since the rates of
a machine drift; those of dense functions at sizes that fit the cache say how many times numpy goes
over a piece, as nothing there waits for memory.
"""

import statistics

import numpy as np
from measuring import arguments, integers, medians, timed

from dpsdk import Domain, Integer
from dpsdk.forms import Dense, Identity, Kronecker, LinearForm, Range
from dpsdk.hypothesis import DenseHypothesis, PiecewiseHypothesis


def universe(bits):
    return integers({"a": 128, "b": 2 ** (bits - 11), "c": 16})


def cases(bits):
    domain = universe(bits)
    rng = np.random.default_rng(1)
    hypothesis = DenseHypothesis.uniform(domain)
    array = np.ones(domain.size)
    box = Kronecker.of(domain, {"a": Range(128, 5, 6), "c": Range(16, 3, 4)})
    slices = LinearForm(domain, [box])
    shape = tuple(domain[name].size for name in domain.names)
    written = rng.integers(0, 2, (1, domain.size)).astype(np.float64)
    dense = LinearForm(domain, [Dense(domain.names, shape, written)])
    real = LinearForm(domain, [Dense(domain.names, shape, written * 0.5 + 0.25)])
    marginal = LinearForm(domain, [Kronecker.of(domain, {"a": Identity(128)})])
    turns = iter(np.resize([0.1, -0.1], 10**6).tolist())

    def scale():
        np.multiply(array, 1.0000000001, out=array)

    def fresh(form):
        hypothesis._marginals.forget()
        hypothesis.answers(form)

    slice_share, dense_share = hypothesis.answer(slices), hypothesis.answer(dense)
    return scale, {
        "slice answer": lambda: fresh(slices),
        "slice shift": lambda: hypothesis.shift(slices, next(turns), slice_share),
        "slice move": lambda: hypothesis.move_to(slices, slice_share),
        "dense answer": lambda: fresh(dense),
        "dense shift": lambda: hypothesis.shift(dense, next(turns), dense_share),
        "real shift": lambda: hypothesis.shift(real, next(turns)),
        "128 marginals": lambda: fresh(marginal),
    }


def ratios(bits, rounds):
    scale, calls = cases(bits)
    unit, *times = medians(rounds, scale, *calls.values())
    print(f"2^{bits} cells, one scale {unit * 1e3:.4f} ms")
    for name, middle in zip(calls, times, strict=True):
        print(f"  {name:15}{middle * 1e3:10.4f} ms {middle / unit:10.3f} x")


def chained(rounds):
    domain = integers({f"a{size}": size for size in (21, 16, 15, 9, 7, 6, 2)})
    hypothesis = DenseHypothesis.uniform(domain)
    names = domain.names
    pairs = [(a, b) for i, b in enumerate(names) for a in names[:i]]
    triples = [(*pair, c) for pair in pairs for c in names[names.index(pair[1]) + 1 :]]
    blocks = [
        Kronecker.of(domain, {name: Identity(domain[name].size) for name in chosen})
        for chosen in pairs + triples
    ]
    form = LinearForm(domain, blocks)

    def together():
        hypothesis._marginals.forget()
        hypothesis.answers(form)

    def apart():
        for chosen in pairs + triples:
            hypothesis._marginals.forget()
            hypothesis.table(chosen)

    together()
    ours, theirs = medians(rounds, together, apart)
    print(f"{len(blocks)} marginals of {domain.size:,} cells: {ours * 1e3:.1f} ms together, "
          f"{theirs * 1e3:.1f} ms apart")  # fmt: skip


def piecewise(updates):
    domain = Domain(Integer("x", 0, 2**62 - 1))
    rng = np.random.default_rng(2)
    hypothesis = PiecewiseHypothesis.uniform(domain)
    forms = []
    for _ in range(updates):
        start, stop = sorted(int(cell) for cell in rng.integers(0, 2**62, 2))
        forms.append(LinearForm(domain, [Kronecker.of(domain, {"x": Range(2**62, start, stop)})]))
    shifts = [timed(lambda form=form: hypothesis.shift(form, 0.01)) for form in forms]
    answers = [timed(lambda form=form: hypothesis.answer(form)) for form in forms]
    print(f"2^62 cells after {updates} updates: "
          f"{statistics.median(answers) * 1e6:.0f} us an answer, "
          f"{statistics.median(shifts[-100:]) * 1e6:.0f} us an update")  # fmt: skip


def main():
    given = arguments(__doc__, bits=[16, 20, 24], rounds=0)
    for bits in given.bits:
        ratios(bits, given.rounds or max(9, 2 ** (26 - bits) // 4))
    chained(5)
    for updates in (500, 2000, 10_000):
        piecewise(updates)


if __name__ == "__main__":
    main()
