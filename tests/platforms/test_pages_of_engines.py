"""The guides that need an engine: their examples print what they say, and their day adds up."""

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from dpsdk.accounting.guarantee import whole_of
from platforms.conftest import engine
from tests.docs.test_examples import DOCS, OF_ENGINES, ROOT, run


@pytest.mark.parametrize("page", sorted(OF_ENGINES))
def test_a_guide_to_an_engine_runs_and_prints_what_it_says(page, spark, monkeypatch):
    assert spark.version  # which the page asks for by itself, and is given
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [*sys.path])
    pairs = run(DOCS / page)
    assert len(pairs) >= 3
    for printed, said in pairs:
        assert printed.rstrip() == said.rstrip()


SCRIPT = Path(__file__).parents[2] / "docs" / "how-to" / "platform_day.py"


def test_a_platforms_day_adds_up(tmp_path):
    engine("polars")
    spec = importlib.util.spec_from_file_location("platform_day", SCRIPT)
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    replies = script.day(tmp_path)
    assert {name.split()[0] for name in replies} == set(script.ANALYSTS)
    refused = {name for name, reply in replies.items() if "refused" in reply}
    assert refused == {"ana up to 43", "ana up to 44"}
    assert replies["ben women"]["answer"] != replies["ana women"]["answer"]
    assert len(replies) == 13
    ledger = script.ledger_in(tmp_path)
    assert ledger.verify() > 0
    charges = ledger.dataset("visits").charges()
    assert {str(whole_of(charge.guarantee)) for charge in charges} == {"0.05-DP, discrete Laplace"}
    # Whatever the worker was doing when it was killed: each request was paid once at the most.
    requests = Counter(charge.request_id for charge in charges)
    assert set(requests.values()) == {1}
    answered = {name for name in replies if name not in refused}
    assert answered <= {name.removesuffix(", again") for name in requests}
    assert {charge.scope for charge in charges} == {"ana", "ben", "cleo"}
    assert all(charge.at is not None for charge in charges)
    text = script.evening(tmp_path)
    assert "ana: 6 charges" in text
    assert "2026-05-04 to 2026-05-09: 100% left of each day" in text
    log = (tmp_path / "events.log").read_text(encoding="utf-8")
    assert "refused" in log
    assert "scope=cleo" in log
    for reply in replies.values():
        if "answer" in reply:
            assert reply["answer"] not in log
    assert json.dumps(replies)
