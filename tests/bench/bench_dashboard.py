"""A dashboard's repeated and overlapping questions, and what of the budget they take.

python tests/bench/bench_dashboard.py [--questions 20000] [--alpha 0.05] [--beta 0.001]

The setting is that of Turbo (Kostopoulou et al. 2023): a pool of all counts that four attributes
allow, a set of labels of each (3 * 3 * 31 * 127 = 35,433 here, 34,425 there), from which a stream
is drawn, evenly or by Zipf's law; each answer is to be off by at most alpha of the rows, with
probability 1 - beta. Beside each other: an answer each, the same with `reuse=True`, `OnlinePMW` in
the practical setting, `OnlinePMW` with a promise for all of the stream at once (at 95 %) where the
table has rows enough for one, and one noisy table of the four attributes, which is the way where
the pool is known. The table is Adult as it comes with the package. Told are the ε at δ = 1e-9 (by
`session.readings`), the number of charges, the share of answers that were off by more than alpha,
the mean error, and CPU seconds.
"""

import math
import time

import numpy as np
from measuring import EXAMPLES, arguments, example, title

from dpsdk import Budget, Domain, PrivateData, Session
from dpsdk.errors import InvalidArgument
from dpsdk.mechanisms import Gaussian, Laplace, OnlinePMW
from dpsdk.queries import Conjunction, Marginal
from dpsdk.testing import seeded

DELTA = "1e-9"
NAMES = ("sex", "income", "race", "marital-status")
WHOLE = Domain.load(EXAMPLES / "adult-domain.json")
DOMAIN = Domain(*(WHOLE[name] for name in NAMES))
SHAPE = tuple(attribute.size for attribute in DOMAIN.attributes)


def table():
    """The true counts of the four attributes, read with none of the package's own loading."""
    columns, counts = example(), np.zeros(SHAPE)
    cells = [{DOMAIN[name].text(cell): cell for cell in range(DOMAIN[name].size)} for name in NAMES]
    codes = [
        np.array([known[text] for text in columns[name]])
        for name, known in zip(NAMES, cells, strict=True)
    ]
    np.add.at(counts, tuple(codes), 1)
    return counts


TABLE = table()
ROWS = int(TABLE.sum())
DATA = PrivateData.from_counts(TABLE, DOMAIN, name="adult")


def pool():
    """Which labels each count of the pool asks for, in an order that is drawn once: bit masks."""
    axes = np.meshgrid(*(np.arange(1, 2**size) for size in SHAPE), indexing="ij")
    masks = np.stack(axes, axis=-1).reshape(-1, len(SHAPE))
    masks = masks[(masks < 2 ** np.array(SHAPE) - 1).any(axis=1)]  # all rows are no question
    return masks[np.random.default_rng(0).permutation(len(masks))]


def stream(masks, questions, power, seed):
    """The numbers of the counts that are asked: evenly at power 0, else by Zipf's law."""
    weights = np.arange(1, len(masks) + 1) ** -float(power)
    return np.random.default_rng(seed).choice(len(masks), questions, p=weights / weights.sum())


def query(mask):
    """One count of the pool as a question; what asks for all labels of a column is no condition."""
    wanted = {}
    for name, size, bits in zip(NAMES, SHAPE, mask.tolist(), strict=True):
        if bits != 2**size - 1:
            labels = DOMAIN[name].labels
            wanted[name] = {labels[cell] for cell in range(size) if bits >> cell & 1}
    return Conjunction(wanted)


def shares(masks, counts):
    """The answers that a table of counts gives, as shares of all rows."""
    answers = counts / ROWS
    lines = [
        (masks[:, [axis]] >> np.arange(size) & 1).astype(float) for axis, size in enumerate(SHAPE)
    ]
    return np.einsum("abcd,na,nb,nc,nd->n", answers, *lines, optimize=True)


def one_by_one(asked, reuse, channel):
    """The answers to a stream, each as the last one is known; and the session that gave them."""
    budget = Budget(epsilon=1000, delta=DELTA)
    session = Session(DATA, budget, noise=seeded(1), reuse=reuse)
    using = channel if not isinstance(channel, OnlinePMW) else session.open(channel)
    return [session.answer(one, using=using) for one in asked], session


def one_table(masks, alpha, beta):
    """One noisy table that gives each count of the pool within alpha, and its session."""
    # The widest count sums all cells but one; the others err less.
    z = 1.42 * math.sqrt(math.log(2 / beta))  # at least the two-sided Gaussian quantile
    variance = (alpha * ROWS / z) ** 2 / (TABLE.size - 1)
    session = Session(DATA, Budget(epsilon=1000, delta=DELTA), noise=seeded(1))
    noisy = session.answer(Marginal(*NAMES, normalized=False), using=Gaussian(rho=1 / variance))
    return shares(masks, noisy.values.reshape(SHAPE)), session


def show(name, answers, truth, session, alpha, seconds):
    off = np.abs(np.asarray(answers) - truth)
    level = session.readings(DELTA).level
    print(
        f"  {name:34}{level:9.4f}{session.spent.charges:9,}"
        f"{np.mean(off > alpha):10.2%}{off.mean():10.5f}{seconds:8.1f}",
        flush=True,
    )


def replay(masks, numbers, alpha, beta):
    """One stream in each of the ways."""
    print(f"  {'':34}{'ε':>9}{'charges':>9}{'off':>10}{'mean':>10}{'CPU s':>8}")
    truth = shares(masks[numbers], TABLE)
    questions = {int(number): query(masks[number]) for number in np.unique(numbers)}
    asked = [questions[int(number)] for number in numbers]
    each = Laplace(epsilon=math.log(1 / beta) / (alpha * ROWS))
    promised = {"alpha": alpha, "beta": 0.05, "queries": len(asked)}
    ways = {
        "an answer each": (False, each),
        "an answer each, reuse=True": (True, each),
    }
    for epsilon in ("0.1", "0.3"):
        given = {"updates": 40, "queries": len(asked)}
        ways[f"OnlinePMW(ε = {epsilon}, updates=40)"] = False, OnlinePMW(epsilon, DELTA, **given)
    for epsilon in ("0.5", "1", "2", "5", "10"):
        channel = OnlinePMW(epsilon, DELTA, **promised)
        try:
            channel.schedule(DATA.facts)
        except InvalidArgument:
            continue
        ways[f"OnlinePMW, promised at ε = {epsilon}"] = False, channel
        break
    for name, (reuse, way) in ways.items():
        start = time.process_time()
        answers, session = one_by_one(asked, reuse, way)
        show(name, answers, truth, session, alpha, time.process_time() - start)
    start = time.process_time()
    answers, session = one_table(masks[numbers], alpha, beta)
    show("one noisy table, pool known", answers, truth, session, alpha, time.process_time() - start)


def main():
    given = arguments(__doc__, questions=20_000, alpha=0.05, beta=0.001)
    masks = pool()
    for power in (0, 1):
        numbers = stream(masks, given.questions, power, seed=1 + power)
        different = len(np.unique(numbers))
        title(
            f"{given.questions:,} questions of {len(masks):,}, Zipf power {power}: {different:,} "
            f"different; n = {ROWS:,}, within {given.alpha:g} at {1 - given.beta:.1%}"
        )
        replay(masks, numbers, given.alpha, given.beta)


if __name__ == "__main__":
    main()
