"""Calibration files: read strictly, written one way."""

import json
import math
from copy import deepcopy

import pytest

from dpsdk.errors import InvalidArgument, RecordError
from dpsdk.planner.calibration import Calibration, shipped, to_calibration
from dpsdk.planner.features import FEATURES
from dpsdk.planner.models import EffortModel, ErrorModel, Line

WHOLE = {
    "format": "dpsdk.calibration",
    "version": 1,
    "made": "by hand",
    "errors": {
        "mwem": {
            "base": "rows",
            "start": -0.5,
            "weights": {"strength": -0.6, "numbers": 0.2},
            "low": -0.3,
            "high": 0.4,
            "ceiling": -0.4,
            "ranges": {"strength": [1.0, 5.0], "numbers": [0.0, 4.0]},
            "runs": 40,
        }
    },
    "efforts": {
        "mwem": {
            "seconds": {"start": -2.0, "weights": {"cells": 0.5}},
            "bytes": {"start": 5.0, "weights": {}},
            "ranges": {"cells": [0.0, 6.0]},
        }
    },
}


def changed(*path, to):
    whole = deepcopy(WHOLE)
    place = whole
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return json.dumps(whole)


def test_there_and_back():
    found = Calibration.from_json(json.dumps(WHOLE))
    assert json.loads(found.to_json()) == WHOLE
    assert Calibration.from_json(found.to_json()) == found
    assert Calibration.from_json(found.to_json().encode()).to_json() == found.to_json()


def test_the_order_of_members_and_families_does_not_matter():
    def turned(value):
        if isinstance(value, dict):
            return {name: turned(value[name]) for name in reversed(value)}
        return value

    assert Calibration.from_json(json.dumps(turned(WHOLE))).to_json() == (
        Calibration.from_json(json.dumps(WHOLE)).to_json()
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nothing",
        "null",
        "[" * 100_000,
        "1" * 100_000,
        b"\xff\xfe",
        '{"format": "dpsdk.calibration", "format": "dpsdk.calibration"}',
        json.dumps(WHOLE) + " " * (1 << 20),
        changed("format", to="dpsdk.domain"),
        changed("version", to=2),
        changed("version", to=True),
        changed("version", to="1"),
        changed("made", to=7),
        changed("made", to="a\nb"),
        changed("made", to="x" * 2000),
        changed("made", to=None),
        changed("more", to=1),
        changed("errors", to=[]),
        changed("errors", "mwem", "base", to="cells"),
        changed("errors", "mwem", "base", to=["rows"]),
        changed("errors", "mwem", "base", to=None),
        changed("errors", "mwem", "more", to=1),
        changed("errors", "mwem", "start", to="1"),
        changed("errors", "mwem", "start", to=True),
        changed("errors", "mwem", "start", to=1e300),
        changed("errors", "mwem", "start", to=10**400),
        changed("errors", "mwem", "start", to=math.nan),
        changed("errors", "mwem", "start", to=math.inf),
        changed("errors", "mwem", "low", to=0.1),
        changed("errors", "mwem", "high", to=-0.1),
        changed("errors", "mwem", "ceiling", to="0"),
        changed("errors", "mwem", "runs", to=0),
        changed("errors", "mwem", "runs", to=1.5),
        changed("errors", "mwem", "weights", to=[["strength", 1]]),
        changed("errors", "mwem", "weights", "strength", to=0.1),
        changed("errors", "mwem", "weights", "age", to=0.1),
        changed("errors", "mwem", "ranges", "numbers", to=[1, 0]),
        changed("errors", "mwem", "ranges", "numbers", to=[1]),
        changed("errors", "mwem", "ranges", "numbers", to={"0": 1}),
        changed("errors", "mwem", "ranges", "age", to=[0, 1]),
        changed("efforts", "mwem", "seconds", to=1.0),
        changed("efforts", "mwem", "seconds", "weights", "cells", to="1"),
        changed("efforts", "mwem", "bytes", to=None),
        changed("efforts", "mwem", "ranges", to=None),
        changed("errors", to={f"f{i}": WHOLE["errors"]["mwem"] for i in range(300)}),
    ],
)
def test_whatever_is_not_one_is_refused(text):
    with pytest.raises(RecordError):
        Calibration.from_json(text)


@pytest.mark.parametrize("name", ["x" * 50_000, "\n" * 5000, "\ud800", "\x1b[2J"])
@pytest.mark.parametrize("where", [("errors",), ("efforts",), ("errors", "mwem", "ranges")])
def test_names_in_a_file_are_shown_in_a_line(name, where):
    with pytest.raises(RecordError) as refused:
        Calibration.from_json(changed(*where, name, to=5))
    text = str(refused.value)
    assert len(text) < 400
    assert text.isprintable()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Calibration("x", None, {}),
        lambda: Calibration("x", [1], {}),
        lambda: Calibration("x", {5: 1, "a": 2}, {}),
        lambda: Line(0, None),
        lambda: Line(0, {"cells": None}),
        lambda: Line(0, [5]),
        lambda: ErrorModel("rows", 5, 0, 0, None, {}, 1),
        lambda: ErrorModel("rows", Line(0, {}), 0, 0, None, None, 1),
        lambda: ErrorModel("rows", Line(0, {}), 0, 0, None, {"cells": 5}, 1),
        lambda: ErrorModel("rows", Line(0, {}), 0, 0, None, {"cells": (1, 2, 3)}, 1),
        lambda: EffortModel(5, Line(0, {}), {}),
        lambda: EffortModel(Line(0, {}), None, {}),
    ],
)
def test_parts_that_are_none_are_refused(make):
    with pytest.raises(RecordError):
        make()


@pytest.mark.parametrize("given", [None, 7, ["{}"], {"format": 1}, bytearray(b"{}")])
def test_only_a_text_or_bytes_are_read(given):
    with pytest.raises(RecordError):
        Calibration.from_json(given)


def test_a_file_that_is_too_long_is_not_read_whole(tmp_path):
    path = tmp_path / "long.json"
    path.write_text(json.dumps(WHOLE) + " " * (1 << 21))
    with pytest.raises(RecordError, match="at most"):
        Calibration.load(path)
    path.write_text(json.dumps(WHOLE))
    assert Calibration.load(str(path)).errors["mwem"].runs == 40
    with pytest.raises(OSError, match=r"none\.json"):
        Calibration.load(tmp_path / "none.json")


def test_numbers_have_four_decimals_so_that_files_repeat():
    line = Line(1 / 3, {"cells": 2 / 3})
    assert line == Line(0.3333, {"cells": 0.6667})
    assert line.at(dict.fromkeys(FEATURES, 1.0)) == 1.0


def test_more_of_a_feature_never_helps_beyond_what_was_measured():
    model = Calibration.from_json(json.dumps(WHOLE)).errors["mwem"]
    inside = dict.fromkeys(FEATURES, 3.0)
    far = inside | {"numbers": 9.0}
    assert not model.extrapolates(inside)
    assert model.extrapolates(far)
    near, wide = model.logs(inside), model.logs(far)
    assert wide[2] - wide[0] >= 0
    assert near[0] - near[1] == pytest.approx(0.3)
    assert wide[1] <= wide[0] <= wide[2]


def test_a_calibration_that_would_reward_less_noise_is_refused():
    line = Line(0.0, {"strength": 0.5})
    with pytest.raises(RecordError, match="strength"):
        ErrorModel("rows", line, -1.0, 1.0, None, {}, 1)
    ErrorModel("noise", line, -1.0, 1.0, None, {}, 1)


def test_an_argument_is_a_calibration_or_nothing():
    class Sub(Calibration):
        pass

    whole = Calibration.from_json(json.dumps(WHOLE))
    assert to_calibration(whole) is whole
    assert to_calibration(None) is None
    for given in ({}, "calibration.json", Sub("", {}, {}), Calibration):
        with pytest.raises(InvalidArgument, match="calibration"):
            to_calibration(given)


def test_the_package_has_one_of_many_families():
    found = shipped()
    assert found is shipped()
    assert Calibration.from_json(found.to_json()) == found
    assert {"mwem", "local-marginals", "residual-planner", "tree", "noisy-histogram"} <= set(
        found.errors
    )
    # What an answer takes does not depend on what is made of its numbers, models aside.
    known = {name.removesuffix(":ratio").removesuffix(":span") for name in found.errors}
    assert known <= set(found.efforts)
    assert all(isinstance(model, EffortModel) for model in found.efforts.values())
