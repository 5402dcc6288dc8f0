"""Figures as such: made without pyplot, readable in grey and in the dark, told in words."""

import pickle
import subprocess
import sys
import threading
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import style
from matplotlib._pylab_helpers import Gcf
from matplotlib.figure import Figure
from matplotlib.text import Text

from dpsdk import Categorical, Domain, Integer, plots
from dpsdk.errors import InvalidArgument, MissingExtra
from dpsdk.mechanisms import Laplace
from dpsdk.plots._canvas import _colours, luminance
from dpsdk.queries import Marginal, Threshold, Workload
from dpsdk.testing.audit import SamplingReport, WorstCase
from pictures import Widths, artists, drawn, made, segments, session_of, texts

pytestmark = pytest.mark.thorough

RELEASE = made(Marginal("age", "sex"), range(12), Widths((2.0,) * 12))


def many(count):
    for _ in range(count):
        plots.marginal(RELEASE)


@pytest.mark.parametrize("count", [5, pytest.param(1000, marks=pytest.mark.audit)])
def test_figures_made_in_a_thread_leave_none_open(count):
    thread = threading.Thread(target=many, args=(count,))
    thread.start()
    thread.join()
    assert Gcf.get_all_fig_managers() == []


@pytest.mark.audit
def test_nothing_of_pyplot_is_loaded_and_matplotlib_only_when_asked():
    code = (
        "import sys, dpsdk; from dpsdk import plots; assert 'matplotlib' not in sys.modules;"
        "assert 'dpsdk.testing' not in sys.modules; from dpsdk.errors import InvalidArgument\n"
        "try: plots.marginal(3)\n"
        "except InvalidArgument: pass\n"
        "assert 'matplotlib' not in sys.modules; import dpsdk.plots.tables;"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_matplotlib_is_named(monkeypatch):
    figure = Figure()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for call in (plots.marginal, plots.heatmap):
        with pytest.raises(MissingExtra, match=r"matplotlib is not installed; .*dpsdk\[plots\]"):
            call(RELEASE)
    with pytest.raises(MissingExtra):
        plots.alternative(figure)


def test_axes_of_a_figure_of_ones_own_are_drawn_into():
    figure = Figure(layout="constrained", figsize=(12, 5))
    left, right = figure.subplots(1, 2)
    assert plots.marginal(RELEASE, ax=left) is figure
    assert plots.heatmap(RELEASE, ax=right) is figure
    drawn(figure)
    first, second = plots.alternative(figure).split("\n\n")
    assert "Bars hold" in first
    assert "Bounds hold" in second
    within = Figure().subfigures(1, 2)[0].subplots()
    assert plots.marginal(RELEASE, ax=within) is within.figure.figure
    assert plots.alternative(Figure()) == ""


def test_other_axes_are_refused():
    polar = Figure().add_subplot(projection="polar")
    gone = Figure().add_subplot()
    gone.remove()
    for ax in (3, Figure(), polar, gone):
        with pytest.raises(InvalidArgument, match="axes"):
            plots.marginal(RELEASE, ax=ax)
    with pytest.raises(InvalidArgument, match="a figure of matplotlib"):
        plots.alternative(3)


@pytest.mark.parametrize("beta", [0, 1, -1, "0.1", None, float("nan")])
def test_beta_is_a_probability(beta):
    with pytest.raises(InvalidArgument, match="beta"):
        plots.marginal(RELEASE, beta=beta)
    with pytest.raises(InvalidArgument, match="beta"):
        plots.budget(session_of(), beta=beta)


@pytest.mark.parametrize("beta", [1e-3, 1e-7, 1e-9, 1e-300])
def test_nothing_that_may_fail_is_said_to_be_certain(beta):
    release = session_of().release(Marginal("age"), using=Laplace(1))
    said = [
        release.bound(beta).words,
        str(release.metadata(beta)),
        str(release.metadata(beta).to_csvw().content),
        plots.alternative(plots.marginal(release, beta=beta)),
        plots.alternative(plots.budget(session_of(), beta=beta)),
    ]
    assert [text for text in said if " 100%" in text] == []


@pytest.mark.parametrize("dark", [False, True])
def test_colours_differ_in_grey_on_either_ground(dark):
    with style.context("dark_background" if dark else "default"):
        figure = Figure()
        found = _colours(figure.add_subplot())
        ground = luminance(mpl.rcParams["figure.facecolor"])
        lights = [ground, *map(luminance, (found.weak, found.strong))]
        assert found.dark is dark
        assert contrast(luminance(found.ink), ground) >= 7
        assert contrast(lights[0], lights[2]) >= 4.5
        assert contrast(lights[1], lights[2]) >= 3
        assert contrast(lights[0], lights[1]) >= 1.5
        assert sorted(lights, reverse=not dark) == lights
        pixels = drawn(plots.marginal(RELEASE))
        middle = float(np.median(pixels[..., :3]))
        assert middle == (0 if dark else 255)


def contrast(one, other):
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_axes_that_are_darker_than_the_style_are_seen():
    figure = Figure(facecolor="black")
    axes = figure.add_subplot(facecolor="none")
    found = _colours(axes)
    assert found.dark
    assert luminance(found.ink) == pytest.approx(1.0)


def tags(page):
    found = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, given: found.append((tag, dict(given)))
    parser.feed(page)
    return found


def test_a_notebook_gets_the_picture_with_its_words():
    figure = plots.marginal(RELEASE)
    [(tag, given)] = tags(figure._repr_html_())
    assert tag == "img"
    assert given["alt"] == plots.alternative(figure)
    assert given["src"].startswith("data:image/png;base64,")


def test_a_figure_is_kept_with_its_words():
    figure = plots.marginal(RELEASE)
    again = pickle.loads(pickle.dumps(figure))  # noqa: S301
    assert plots.alternative(again) == plots.alternative(figure) != ""
    assert segments(again)[1].tolist() == segments(figure)[1].tolist()


def test_tex_reads_no_label(monkeypatch):
    monkeypatch.setitem(mpl.rcParams, "text.usetex", True)
    figure = plots.marginal(RELEASE)
    shown = [one for one in figure.findobj(Text) if any(map(str.isalpha, one.get_text()))]
    assert shown
    assert not any(one.get_usetex() or one.get_parse_math() for one in shown)


def test_the_private_table_is_not_asked_again():
    session = session_of()
    release = session.release(Marginal("age"), using=Laplace(1))
    before = session.spent
    plots.marginal(release)
    plots.budget(session)
    plots.stream(session)
    assert session.spent == before
    assert artists(plots.marginal(release), "value")
    assert texts(plots.marginal(release))


WIDE = "W" * 70
BROAD = Domain(Integer("age", 20, 25), Categorical(WIDE, ["F", "M"]))


def wide_thresholds():
    query = Workload([Threshold("age", t, where={WIDE: "F"}) for t in (20, 22)])
    return plots.cdf(made(query, [1, 2], Widths((1.0, 1.0)), BROAD))


def wide_audits():
    report = WorstCase(WIDE, "ρ", 2.0, 1.0, 2.0, WIDE, 2, 80, 0.1)
    return plots.audit({WIDE: report, "short": report})


def wide_tests():
    return plots.audit(SamplingReport(violated=True, event=WIDE, first=1, second=0, samples=10))


def wide_plans():
    with session_of(BROAD) as session:
        return plots.plan(session.plan(Marginal("age", WIDE), error=0.5))


def plans():
    return plots.plan(session_of().plan(Marginal("age", "sex"), error=0.5))


def beyond(figure, dpi, sides):
    """Texts that leave their figure on some side, drawn with so many dots an inch."""
    figure.set_dpi(dpi)
    drawn(figure)
    found = []
    for text in figure.findobj(Text):
        if len(text.get_text()) > 20:  # others are of ticks, also where none is drawn
            box, all_of = text.get_window_extent(), figure.bbox
            over = {"right": box.x1 - all_of.x1, "top": box.y1 - all_of.y1, "bottom": -box.y0}
            found += [text.get_text() for side in sides if over[side] > 2]
    return found


@pytest.mark.parametrize("dpi", [72, 100, 200])
@pytest.mark.parametrize("draw", [wide_thresholds, wide_audits, wide_tests, wide_plans, plans])
def test_no_text_is_cut_by_the_edge_of_the_picture(draw, dpi):
    assert beyond(draw(), dpi, ["right", "top", "bottom"]) == []


DRAWN_INTO = {
    "bars": lambda ax: plots.marginal(RELEASE, ax=ax),
    "a map": lambda ax: plots.heatmap(RELEASE, ax=ax),
    "plans": lambda ax: plots.plan(session_of().plan(Marginal("age", "sex"), error=0.5), ax=ax),
    "a wide name": lambda ax: plots.marginal(
        made(Marginal("age", WIDE), range(12), Widths((2.0,) * 12), BROAD), ax=ax
    ),
}


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("draw", DRAWN_INTO.values(), ids=DRAWN_INTO)
@pytest.mark.parametrize("size", [(4, 3), (6.4, 4.8)])
def test_a_heading_stays_in_the_figure_whose_axes_are_given(draw, size, layout):
    figure = Figure(figsize=size, layout=layout)
    draw(figure.add_subplot())
    for dpi in (72, 100):
        assert beyond(figure, dpi, ["top", "right"]) == []
    assert figure.axes[0].bbox.height > 0.2 * figure.bbox.height


def test_seeded_noise_is_said_where_little_has_room():
    release = made(Marginal("age", "sex"), range(12), Widths((2.0,) * 12), private=False)
    figure = plots.marginal(release, ax=Figure(figsize=(2, 1)).add_subplot())
    assert any("NOT PRIVATE" in text.replace("\n", " ") for text in texts(figure))


def test_all_of_a_plan_is_told_below_its_picture():
    figure = wide_plans()
    [told] = [text for text in texts(figure) if text.startswith("1  ")]
    numbered = [line for line in told.splitlines() if line[:1].isdigit()]
    told = " ".join(told.split())
    assert told.count("no bound") + told.count("±") == len(numbered) > 3
