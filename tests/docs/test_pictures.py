"""The pictures of guides are what its code draws, and are told in true words."""

import importlib.util
import re
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dpsdk import plots

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
LARGEST = 60_000
NAMES = ["marginal", "heatmap", "cdf", "stream", "budget", "plan", "audit", "coefficients"]
DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"


@pytest.fixture
def pictures(monkeypatch):
    monkeypatch.chdir(HOW_TO.parents[1])
    spec = importlib.util.spec_from_file_location("pictures_of_docs", HOW_TO / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.thorough
@pytest.mark.parametrize("count", [3, pytest.param(len(NAMES), marks=pytest.mark.audit)])
def test_every_picture_says_what_its_code_draws(pictures, count):
    pages = [path.read_text(encoding="utf-8") for path in pictures.PAGES]
    drawn = ((page, *one) for page in pages for one in pictures.figures(page, "light"))
    names = []
    for page, name, figure in islice(drawn, count):
        names.append(name)
        text = plots.alternative(figure)
        assert pictures.told(page, name, text) == page, "run docs/how-to/pictures.py"
        for mode in pictures.STYLES:
            path = HOW_TO / "pictures" / f"{name}-{mode}.svg"
            assert path.stat().st_size < LARGEST
            [told] = ET.parse(path).iter(DESCRIPTION)  # noqa: S314  # of this repository
            assert told.text == text, "run docs/how-to/pictures.py"
    assert names == NAMES[:count]
    kept = {path.name for path in (HOW_TO / "pictures").iterdir()}
    assert kept == {f"{name}-{mode}.svg" for name in NAMES for mode in pictures.STYLES}


def test_a_stale_text_is_found_out(pictures):
    page = "```{image} pictures/a-light.svg\n:class: only-light\n:alt: old\n```\n"
    assert ":alt: new\n" in pictures.told(page, "a", "new")
    assert pictures.told(page, "b", "new") == page
    assert re.search(r"only-light", pictures.told(page, "a", "new"))
