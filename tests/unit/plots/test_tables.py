"""Pictures of marginal tables: numbers as released, bars as `interval` has them."""

import math

import numpy as np
import pytest
from matplotlib.text import Text

from dpsdk import Categorical, Domain, Integer, plots
from dpsdk.errors import InvalidArgument
from dpsdk.mechanisms import Laplace, ResidualPlanner
from dpsdk.plots._text import printable
from dpsdk.queries import Marginal
from dpsdk.release import NoAccuracy, PromisedAccuracy
from pictures import PEOPLE, Widths, artists, drawn, made, segments, session_of, texts, values

pytestmark = pytest.mark.thorough

HOSTILE = [
    r"$\frac{", "a_b^c", "line\nbreak", "x" * 10_000, "\N{RIGHT-TO-LEFT OVERRIDE}abc",
    "\N{HEBREW LETTER SHIN}\N{HEBREW LETTER LAMED}", "\N{GRINNING FACE}", "\x07bell",
    r"\backslash % & #", "<script>", " ", "$x$",
]  # fmt: skip


words = plots.alternative


@pytest.mark.parametrize("beta", [0.05, 0.3])
def test_a_table_shows_what_was_released_and_its_interval(beta):
    release = session_of().release(Marginal("age", "sex"), using=Laplace(0.5))
    figure = plots.marginal(release, beta=beta)
    low, high = release.interval(beta)
    places, lower, upper = segments(figure)
    assert places.tolist() == list(range(12))
    assert lower.tolist() == low.values.ravel().tolist()
    assert upper.tolist() == high.values.ravel().tolist()
    assert values(figure, "x").tolist() == release.value.values.ravel().tolist()
    assert values(figure, "x").min() < 0  # noise of ten rows
    said = words(figure)
    assert f"β = {beta:g}, joint" in said
    assert "all 12 entries at once" in said
    assert "Proven: exact tail of the discrete noise." in said
    assert "Cost 0.5-DP" in said
    assert "NOT PRIVATE" not in said
    assert drawn(figure).std() > 0


def test_many_cells_stand_side_by_side_with_few_labels():
    domain = Domain(Integer("age", 0, 99))
    release = session_of(domain).release(Marginal("age", normalized=False), using=Laplace(0.5))
    figure = plots.marginal(release)
    places, lower, upper = segments(figure)
    low, high = release.interval()
    assert (lower.tolist(), upper.tolist()) == (low.values.tolist(), high.values.tolist())
    assert values(figure, "y").tolist() == release.value.values.tolist()
    assert places[-1] == 99
    assert len(figure.axes[0].get_xticks()) <= 14
    assert figure.axes[0].get_ylabel() == "rows"


def test_bounds_of_each_entry_alone_are_said_to_be_so():
    accuracy = Widths((math.inf,) * 6, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    release = made(Marginal("age", normalized=False), [3, -1, 0, 2, 2, 9], accuracy)
    figure = plots.marginal(release)
    _, lower, upper = segments(figure)
    assert lower.tolist() == [2, -3, -3, -2, -3, 3]
    assert upper.tolist() == [4, 1, 3, 6, 7, 15]
    assert "β = 0.05, each" in words(figure)
    assert "nothing is known of all 6 entries at once" in words(figure)
    assert "joint" not in words(figure)


def test_a_bar_without_an_end_is_an_arrow():
    release = made(
        Marginal("age", normalized=False),
        [3, -1, 0, 2, 2, 9],
        Widths((1.0, math.inf, 1.0, 1.0, 1.0, 1.0)),
    )
    figure = plots.marginal(release)
    axes = figure.axes[0]
    _, lower, upper = segments(figure)
    assert (lower[1], upper[1]) == axes.get_xlim()
    assert np.isfinite(lower).all()
    assert "1 bar has no end" in words(figure)
    assert "-1 (-infinity to infinity)" in words(figure)
    assert drawn(figure).std() > 0


def test_no_bound_is_no_bar_and_why():
    release = made(Marginal("age"), range(6), NoAccuracy("nobody knows"))
    figure = plots.marginal(release)
    assert artists(figure, "interval") == []
    assert "No bars: no bound at 95% (nobody knows)." in words(figure)
    assert len(values(figure, "x")) == 6


def test_a_vacuous_bound_says_so_and_a_promise_is_one():
    vacuous = made(Marginal("age"), [10, 0, 0, 0, 0, 0], Widths((1000.0,) * 6))
    assert "Vacuous" in words(plots.marginal(vacuous))
    promised = made(Marginal("age"), [10, 0, 0, 0, 0, 0], PromisedAccuracy(1.0, 0.05, 6))
    assert "Promised: an error promised" in words(plots.marginal(promised))
    assert "Vacuous" not in words(plots.marginal(promised))
    assert "No bars" in words(plots.marginal(promised, beta=0.01))


def test_entries_that_tell_nothing_are_left_out():
    release = made(Marginal("age"), [1, math.nan, 3, 4, 5, 6], Widths((1.0,) * 6))
    figure = plots.marginal(release)
    assert len(values(figure, "x")) == 5
    assert "1 entry tells nothing" in words(figure)
    assert "nan" not in words(figure)
    drawn(figure)
    drawn(plots.heatmap(made(Marginal("age", "sex"), [math.nan] * 12, Widths((1.0,) * 12))))


def test_what_was_moved_says_so():
    release = session_of(private=False).release(Marginal("age"), using=Laplace(0.1))
    assert "Moved" not in words(plots.marginal(release))
    moved = release.nonnegative()
    figure = plots.marginal(moved)
    assert f"Moved after it was measured, by {moved.moved:.4g} at the most." in words(figure)
    assert values(figure, "x").min() == 0


def test_seeded_noise_is_on_the_picture():
    release = session_of(private=False).release(Marginal("age"), using=Laplace(0.1))
    for figure in (plots.marginal(release), plots.heatmap(made_pair(private=False))):
        assert any(text.startswith("NOT PRIVATE") for text in texts(figure))
        assert words(figure).startswith("NOT PRIVATE")


def made_pair(**how):
    query = Marginal("age", "sex", normalized=False)
    raw = [9, -1, 0, 4, 5, 6, 7, 8, 9, 10, 11, 2]
    return made(query, raw, Widths((3.0,) * 12), **how)


def test_a_map_shows_numbers_and_hatches_what_noise_hides():
    figure = plots.heatmap(made_pair())
    [image] = figure.axes[0].images
    assert image.get_array().tolist() == [[9, -1], [0, 4], [5, 6], [7, 8], [9, 10], [11, 2]]
    [hatched] = artists(figure, "includes 0")
    assert len(hatched.get_paths()) == 3
    assert "3 hatched cells, whose bounds include 0." in words(figure)
    assert "-1\n-4 to 2" in texts(figure)
    assert "Largest half-width 3." in words(figure)
    drawn(figure)
    unknown = made(Marginal("age", "sex"), range(-1, 11), NoAccuracy("nobody knows"))
    figure = plots.heatmap(unknown)
    assert "2 hatched cells, that are not above 0." in words(figure)
    assert "No bounds: no bound at 95% (nobody knows)." in words(figure)


def test_one_cell_is_drawn():
    domain = Domain(Categorical("x", ["only"]), Categorical("y", ["one"]))
    release = session_of(domain).release(Marginal("x", "y"), using=Laplace(1))
    for figure in (plots.marginal(release), plots.heatmap(release)):
        drawn(figure)
        assert " holds with probability 95% (β = 0.05)." in words(figure)


@pytest.mark.parametrize(
    "draw", [plots.marginal, pytest.param(plots.heatmap, marks=pytest.mark.audit)]
)
def test_labels_are_drawn_letter_by_letter(draw):
    domain = Domain(Categorical("$a_b", HOSTILE), Categorical("y$\n", ["$\\sum", "\\"]))
    release = session_of(domain).release(Marginal("$a_b", "y$\n"), using=Laplace(1))
    figure = draw(release)
    drawn(figure)
    for text in texts(figure):
        assert len(text) < 600
        assert "\x07" not in text
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert any(text.startswith(r"$\frac{") for text in texts(figure))
    assert not any(one.get_parse_math() for one in figure.findobj(Text) if "$" in one.get_text())


def test_a_text_is_spelled_in_one_line_of_a_length():
    assert printable("abc") == "abc"
    assert printable("a\nb") == "a\\nb"
    assert printable("x" * 99, 5) == "xxxx…"
    assert printable("\x07" * 9, 10) == "\\x07\\x07…"
    assert printable("é", font=frozenset()) == "\\xe9"
    assert printable("é", font={0xE9}) == "é"
    assert printable("\ud800") == "\\ud800"


def test_a_mechanism_with_exact_joint_bounds_is_drawn_with_its_own():
    release = session_of().release(Marginal("age", "sex"), using=Laplace(1))
    with session_of().open(ResidualPlanner(Marginal("age", "sex"), rho=1)) as channel:
        planned = channel.release(Marginal("sex", "age"))
    for one in (release, planned):
        _, lower, _ = segments(plots.marginal(one))
        assert lower.tolist() == one.interval()[0].values.ravel().tolist()


@pytest.mark.audit
@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("size", [1, 30, 31, 150, 151, 4000])
def test_tables_of_all_sizes_are_drawn(size, private):
    domain = Domain(Integer("age", 1, size), Categorical("y", ["a"]))
    release = session_of(domain, private=private).release(Marginal("age", "y"), using=Laplace(1))
    for figure in (plots.marginal(release), plots.heatmap(release)):
        drawn(figure)
        assert len(figure.axes[0].get_xticks()) <= 30
    _, lower, _ = segments(plots.marginal(release))
    assert lower.tolist() == release.interval()[0].values.ravel().tolist()


@pytest.mark.audit
@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
@pytest.mark.parametrize("wide", [0.0, 1.0, math.inf])
def test_numbers_of_all_sizes_are_drawn(scale, wide):
    query = Marginal("age", normalized=False)
    release = made(query, np.array([1, -2, 3, 0, 5, 6]) * scale, Widths((scale * wide,) * 6))
    drawn(plots.marginal(release))


@pytest.mark.parametrize(
    "x", [None, 3, PEOPLE, "release", [], made(Marginal("age"), range(6), Widths((1.0,) * 6)).value]
)
def test_something_else_is_refused_by_name(x):
    for draw in (plots.marginal, plots.heatmap, plots.cdf):
        with pytest.raises(InvalidArgument, match="a release of a"):
            draw(x)
