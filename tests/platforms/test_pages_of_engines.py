"""The examples of guides that need an engine run, and print what the guides say they print."""

import sys

import pytest

from tests.docs.test_examples import DOCS, ELSEWHERE, ROOT, run


@pytest.mark.parametrize("page", sorted(ELSEWHERE))
def test_a_guide_to_an_engine_runs_and_prints_what_it_says(page, spark, monkeypatch):
    assert spark.version  # which the page asks for by itself, and is given
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [*sys.path])
    pairs = run(DOCS / page)
    assert len(pairs) >= 3
    for printed, said in pairs:
        assert printed.rstrip() == said.rstrip()
