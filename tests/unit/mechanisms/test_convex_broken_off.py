"""Models that are broken off by an interrupt, or asked about in a forked process."""

import os
import signal
import threading
from fractions import Fraction

import numpy as np
import pytest
from test_convex_pmw import DOMAIN, excess, shares
from test_convex_textbook import QUERY, RIDGE, ridged, session, textbook, with_ridge

from dpsdk.accounting import Odometer, zcdp_start
from dpsdk.accounting.prices.run import zcdp_rho
from dpsdk.errors import Closed
from dpsdk.hypothesis import Pairs
from dpsdk.mechanisms import ConvexPMW, Corrected, NoisyDescent, PrivateMinimizer
from dpsdk.testing.interrupts import interrupted

STREAMS = {
    "guarded": lambda: ConvexPMW(1, "1e-6", updates=20),
    "textbook": lambda: textbook(alpha=0.02),
    "ridged": lambda: ridged(alpha=0.02),
}
ORACLES = {
    "corrected": Corrected(Pairs(share="0.3"), gradients=2),
    "certified": Corrected(certify="0.3"),
    "descent": NoisyDescent.textbook(steps=4),
}
LARGEST = 2**18
"""No answer here takes more lines."""


def spent(asking):
    return sum(zcdp_rho(run) for entry in asking.history for run in entry.cost.guarantees)


def places(work, count):
    """Some lines of a piece of work, from its first to its last."""
    low, high = 1, LARGEST
    while high - low > high // 20:
        middle = (low + high) // 2
        low, high = (middle, high) if interrupted(work, middle) else (low, middle)
    return np.unique(np.linspace(1, low, count).astype(int)).tolist()


@pytest.mark.audit
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_is_interrupted_anywhere_keeps_its_budget_and_its_promise(name):
    joint, form = shares(), QUERY.lower(DOMAIN)

    def broken_off(place):
        with session() as asking, asking.open(STREAMS[name]()) as channel:
            came = interrupted(lambda: channel.release(QUERY), place)
            cells = channel.hypothesis.table(DOMAIN.names)
            assert (cells >= 0).all()
            assert cells.sum() <= 1 + 1e-9
            release = channel.release(QUERY)
            if release.bound(0.05).standing == "promised":
                theta = release.value.theta
                error = excess(form, joint, theta)[0]
                if name == "ridged":
                    error = with_ridge(form, joint, theta, RIDGE)
                assert error <= release.error(0.05)
            assert spent(asking) <= zcdp_start(Fraction(1), Fraction(1, 10**6))
        return came

    with session() as asking, asking.open(STREAMS[name]()) as channel:
        tried = places(lambda: channel.release(QUERY), 12)
    assert [broken_off(place) for place in tried].count(True) >= 3


@pytest.mark.audit
@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_that_is_interrupted_anywhere_has_paid_for_all_or_nothing(name):
    using = PrivateMinimizer(epsilon="0.4", delta="4e-7", oracle=ORACLES[name])
    whole = session().quote(QUERY, using=using).at_most.rho

    def broken_off(place):
        with session() as asking:
            came = interrupted(lambda: asking.release(QUERY, using=using), place)
            assert spent(asking) in (0, whole)
            release = asking.release(QUERY, using=using)
            assert release.cost.rho == whole
            assert np.isfinite(release.value.theta).all()
        return came

    tried = places(lambda: session().release(QUERY, using=using), 12)
    assert [broken_off(place) for place in tried].count(True) >= 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_a_model_that_another_thread_is_asking_for(monkeypatch):
    with session() as asking, asking.open(textbook(alpha=0.02)) as channel:
        working, forked = threading.Event(), threading.Event()
        charge = Odometer.charge_all

        def late(odometer, *given, **named):
            working.set()
            forked.wait(timeout=60)
            return charge(odometer, *given, **named)

        monkeypatch.setattr(Odometer, "charge_all", late)
        sources = []
        thread = threading.Thread(
            target=lambda: sources.append(channel.release(QUERY).source), daemon=True
        )
        thread.start()
        assert working.wait(timeout=60)
        child = os.fork()
        if not child:
            signal.alarm(60)
            ended = 1
            try:
                channel.release(QUERY)
            except Closed:
                ended = 7
            finally:
                os._exit(ended)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        forked.set()
        thread.join(timeout=60)
        assert sources == ["measured"]
