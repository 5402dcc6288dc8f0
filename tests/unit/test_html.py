"""What notebooks show: static, escaped, short, and made of what is public."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Categorical, Domain, Integer, PrivateData, Session
from dpsdk.accounting import SQLiteLedger
from dpsdk.accuracy import Bound
from dpsdk.data.histogram import Histogram
from dpsdk.mechanisms import Gaussian, Laplace, NoisyHistogram, Parts, Tree
from dpsdk.planner import Forecast, Goal, Plan, Plans, Reason
from dpsdk.queries import (
    Answers,
    Count,
    Marginal,
    MarginalTable,
    Mean,
    Rectangles,
    Threshold,
    Workload,
)
from dpsdk.release import Cost
from dpsdk.testing import seeded
from worlds import people, table

pytestmark = pytest.mark.thorough

ROOM = r"room for one run of epsilon up to \S+( or of rho up to \S+)?"
"""What is left of a budget, and cannot be spent any more by what was closed."""

TAGS = {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
STYLES = {"text-align: left", "text-align: right"}
EVIL = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><b>', "' onload='x",
    "</table><style>*{display:none}</style>", "&lt;b&gt; &amp;", "javascript:alert(1)",
    "\u202ecod.exe", "a\x00b", "{{7*7}}", "$\\href{x}{y}$", "<!-- -->", "]]>",
]  # fmt: skip


class Read(HTMLParser):
    """Refuses whatever is not static and of few kinds, and keeps the text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.said = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        given = dict(attrs)
        # No label is read as a formula.
        assert given.pop("class", None) == (
            "tex2jax_ignore mathjax_ignore" if tag == "div" else None
        )
        assert set(given) <= {"style", "scope"}
        assert given.get("style", "text-align: left") in STYLES
        assert given.get("scope", "row") in ("row", "col")
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment

    @property
    def text(self):
        return " ".join(self.said)


def shown(value):
    text = value._repr_html_()
    assert type(text) is str
    assert len(text) < 2**18
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\x00]", text)
    return Read(text).text


def session(data, **given):
    return Session(data, Budget(10**6, "1e-6"), noise=seeded(2), **given)


class Strange(Laplace):
    """A mechanism that calls itself as it likes."""

    def __str__(self):
        return EVIL[0]

    __repr__ = __str__


def strange(label):
    """A plan whose every text is another's."""
    bound = Bound(0.1, 0.05, label, "proven", vacuous=False)
    part = Plan(Strange(1), Cost(), None, None, None, None, None, None, feasible=True, because=())
    return Plan(
        Strange(1),
        Cost(),
        None,
        promised=bound,
        assumed=bound.under(label),
        expected=Forecast(0.1, 0.0, 0.2, label),
        seconds=1.0,
        bytes=10,
        feasible=False,
        because=(Reason(label, label),),
        assumes=(label,),
        free_afterwards=label,
        parts=(part,),
    )


def hostile(label):
    """A table, a session and all that comes of it, with a text wherever one may be given."""
    domain = Domain(Categorical(label, [label, "b"]), Boolean("bit"), Integer("n", 0, 3))
    columns = {label: ["b"] * 3, "bit": [True] * 3, "n": [1] * 3}
    data = PrivateData.from_columns(columns, domain, name=label)
    asked = session(data)
    marginal = Marginal(label, "bit", where={label: label})
    release = asked.release(marginal, using=Gaussian(rho="0.001"))
    several = Workload([Count(where={label: label}), marginal, Workload([Mean("n")])])
    with asked.scope(label, epsilon=5) as scope:
        many = scope.release(several, using=Laplace(1), request_id=label)
        yield scope
    with asked.partition(label) as parts:
        parts[label].answer(Count(), using=Laplace(1))
        yield from (parts, parts[label])
    channel = asked.open(Tree("n", epsilon=1))
    yield from (scope, parts, channel, strange(label))
    yield from asked.plan(marginal, error=0.5)
    yield from (domain, data, release, release.value, release.nonnegative(), many, many.value)
    yield from (asked.plan(marginal, error=0.5), asked.quote(marginal, using=Laplace(1)))
    yield from (asked.history, asked)


@pytest.mark.parametrize("label", EVIL, ids=range(len(EVIL)))
def test_texts_of_whatever_kind_are_shown_and_do_nothing(label):
    try:
        values = list(hostile(label))
    except ValueError:  # names and labels of a domain are texts that files can hold
        values = list(hostile(label.replace("\x00", "").replace("\u202e", "")))
    for value in values:
        shown(value)
    kinds = [type(value).__name__ for value in values]
    assert {"Scope", "Partition", "Part", "Channel", "Plan"} <= set(kinds)
    named = ("Domain", "PrivateData", "MarginalTable", "Scope", "Partition", "Part")
    for value in [values[kinds.index(name)] for name in named]:
        plain = re.sub(r"[\x00\u202e]", "", label)[:20]
        text = re.sub(r"\\u[0-9a-f]{4}", "", shown(value))
        assert plain in text.replace("\\\\", "\\")  # as a repr has it


def test_what_is_said():
    asked = session(table(people(40, 4)))
    release = asked.release(Marginal("sex", "hours"), using=Laplace("0.1"))
    text = shown(release)
    for part in (
        "Release of Marginal('sex', 'hours')", "NOT PRIVATE: seeded noise", "[20, 40]",
        f"± {release.bound().words}, of all numbers at once", "exact tail of the discrete noise",
        "measured by Laplace(epsilon=0.1)", str(release.cost), f"{release.value.values[0, 0]:.6g}",
    ):  # fmt: skip
        assert part in text
    assert "moved" not in text
    moved = release.nonnegative()
    assert f"{moved.moved:.4g}" in shown(moved)
    assert "made non-negative" in shown(moved)
    assert "moved by up to" in shown(moved.value)
    assert "at once" not in shown(asked.release(Count(), using=Laplace(1)))
    several = Workload([Threshold("age", 20), Marginal("sex"), Workload([Count()])])
    text = shown(asked.release(several, using=Laplace(1)).value)
    for part in ("Threshold('age', 20)", "table of 'sex', 2 numbers", "1 answer"):
        assert part in text
    text = shown(asked)
    for part in (str(asked.budget), str(asked.spent), "3 receipts", "Laplace(epsilon=0.1)"):
        assert part in text
    assert "96 cells" in shown(table(people(3, 1)).domain)
    text = shown(asked.quote(Count(), using=Laplace(1)))
    assert "1-DP" in text
    assert asked.quote(Count(), using=Laplace(1)).bound().words in text


def test_nothing_is_read_and_nothing_is_charged(monkeypatch):
    seen = []

    def spied(name, own):
        def spy(self, *given, **named):
            seen.append(name)
            return own(self, *given, **named)

        return spy

    for name in ("only", "records", "table", "counted"):
        monkeypatch.setattr(Histogram, name, spied(name, getattr(Histogram, name)))
    rows = Histogram.rows.fget
    monkeypatch.setattr(Histogram, "rows", property(spied("rows", rows)))
    asked = session(table(people(40, 4)))
    release = asked.release(Marginal("age", "sex"), using=Laplace(1))
    assert seen
    channel = asked.open(NoisyHistogram(epsilon=1))
    free = channel.release(Workload([Count(), Mean("age")]))
    data = table(people(40, 4))
    plans = asked.plan(Count(), error=0.1)
    scope = asked.scope("weekly", epsilon=5)
    scope.answer(Count(), using=Laplace("0.1"))
    divided = asked.partition("age")
    divided[18].answer(Count(), using=Laplace("0.1"))
    values = [data, data.domain, asked, release, release.value, free, asked.history, plans,
              asked.quote(Count(), using=Laplace(1)), plans[0], scope, divided, divided[18],
              channel]  # fmt: skip
    spent, receipts = asked.spent, asked.history
    seen.clear()
    before = [shown(value) for value in values]
    asked.close()
    after = [shown(value) for value in values]
    assert seen == []
    assert (asked.spent, asked.history) == (spent, receipts)
    pairs = enumerate(zip(before, after, strict=True))
    assert [place for place, (one, other) in pairs if one != other] == [2, 10, 11, 12, 13]
    for place in (2, 10, 11, 12, 13):
        title = before[place].split(" NOT")[0]
        closed = before[place].replace(title, f"{title}, closed", 1)
        assert after[place] == re.sub(ROOM, "room for no run", closed)
    # No part was opened to be shown.
    assert list(divided._known) == [1]


def test_what_belongs_to_a_session_says_so():
    asked = session(table(people(40, 4), name="people"))
    scope = asked.scope("weekly", epsilon=5)
    scope.answer(Count(), using=Laplace("0.1"))
    for part in ("Scope 'weekly'", "people", "5-DP", str(scope.spent), str(scope.remaining)):
        assert part in shown(scope)
    assert "cap 25% of (1000000, 1e-6)-DP" in shown(asked.scope("daily", "0.25"))
    with asked.partition("age") as parts:
        assert "asked 0" in shown(parts)
        parts[18].answer(Count(), using=Laplace("0.1"))
        for part in ("Partition by 'age'", "parts 8", "asked 1", "24", str(parts[18].spent)):
            assert part in shown(parts)
        for part in ("Part '18' of 'age'", str(parts[18].remaining)):
            assert part in shown(parts[18])
    channel = asked.open(NoisyHistogram(epsilon=1))
    for part in ("DistributionChannel", "NoisyHistogram(epsilon=1)", "people"):
        assert part in shown(channel)
    channel.close()
    assert "DistributionChannel, closed" in shown(channel)
    assert "NOT PRIVATE" not in shown(Session(table(people(9, 1)), Budget(1)).scope("a", epsilon=1))


def test_a_plan_says_what_stands_in_its_fields():
    asked = session(table(people(40, 4)))
    plan = asked.plan(Count(), error=0.1)[0]
    text = shown(plan)
    for part in (f"Plan of {plan.mechanism}", str(plan.cost), f"± {plan.promised.words}"):
        assert part in text
    for part in (f"{plan.expected.median:.4g}", plan.because[0].text):
        assert part in text
    assert "may not be run" not in text
    text = shown(strange("words"))
    for part in ("may not be run", "if words", "free afterwards", EVIL[0]):
        assert part in text
    joint = asked.plan([Goal(Count(), alpha=0.1), Goal(Marginal("sex"), alpha=0.2)])
    several = next(plan for plan in joint if isinstance(plan.mechanism, Parts))
    for part in several.parts:
        assert str(part.mechanism) in shown(several)


def test_a_session_shows_itself_where_its_ledger_is_gone(tmp_path):
    path = tmp_path / "ledger.db"
    data = table(people(40, 4), name="people")
    asked = Session(data, Budget(1), ledger=SQLiteLedger(path))
    asked.answer(Count(), using=Laplace("0.1"))
    assert "1 receipt" in shown(asked)
    scope = asked.scope("weekly", epsilon="0.1")
    parts = asked.partition("age")
    parts[18].answer(Count(), using=Laplace("0.1"))
    for file in tmp_path.iterdir():
        file.write_bytes(b"no ledger")
    for value in (asked, scope, parts, parts[18]):
        text = shown(value)
        assert "people" in text
        assert "ledger" in text


def test_large_values_are_shown_in_few_lines():
    wide = MarginalTable((Integer("n", 0, 10**6 - 1),), np.zeros(10**6))
    assert "999,976 more" in shown(wide)
    many = Answers(tuple([0.5] * 10**5), lambda: np.zeros(10**5))
    assert "99,976 more" in shown(many)
    domain = Domain(
        *(Categorical(f"{'x' * 900}{number}", ["<" * 900, "b"]) for number in range(99))
    )
    assert "75 more" in shown(domain)
    assert "about 10^30 cells" in shown(domain)
    twenty = MarginalTable(domain.attributes[:12], np.zeros((2,) * 12))
    assert "..." in shown(twenty)
    boxes = Rectangles("age", lower=np.zeros(10**5, int), upper=np.ones(10**5, int))
    asked = session(table(people(40, 4)))
    assert "Rectangles" in shown(asked.release(boxes, using=Laplace(1)))
    for _ in range(40):
        asked.answer(Count(), using=Laplace(1))
    assert "17 more" in shown(asked.history)
    assert "Plans for a question" in shown(Plans([], "a question"))


def test_the_page_keeps_its_colours():
    text = session(table(people(9, 1)))._repr_html_()
    assert set(re.findall(r"class=[^>]*", text)) == {'class="tex2jax_ignore mathjax_ignore"'}
    assert not re.search(r"colou?r|background|id=|href|src=", text)


def test_a_channel_says_what_it_was_paid_and_by_whom():
    asked = session(table(people(40, 4), name="people"))
    asked.answer(Count(), using=Laplace("0.1"))
    first, second = asked.open(Laplace("0.25")), asked.open(Laplace("0.25"))
    assert "spent nothing" in shown(first)
    first.answer(Count())
    first.answer(Mean("age"))
    opened = asked.scope("a, b", epsilon=5).open(NoisyHistogram(epsilon=2))
    opened.answer(Count())
    assert f"spent {Cost(first.release(Count()).cost.runs * 3)}" in shown(first)
    assert "spent nothing" in shown(second)
    assert f"paid by the session which has left {asked.remaining}" in shown(second)
    assert "spent 2-DP" in shown(opened)
    assert "paid by scope 'a, b'" in shown(opened)


def test_a_session_of_which_nothing_was_asked_says_so():
    asked = session(table(people(40, 4)))
    for text in (shown(asked), shown(asked.history)):
        assert "Nothing was asked yet" in text
        assert "receipt" not in text


@pytest.mark.parametrize("name", [None, "people, all"])
def test_nothing_shown_has_the_folder_of_a_file(tmp_path, name):
    path = tmp_path / "people.csv"
    path.write_text("age\n18\n19\n")
    data = PrivateData.from_csv(path, Domain(Integer("age", 18, 25)), name=name)
    assert data.name == (str(path) if name is None else name)
    called = "people.csv" if name is None else name
    asked = Session(data, Budget(10))
    with asked.partition("age") as parts:
        released = asked.release(Count(normalized=False), using=Laplace("0.1"))
        values = [data, asked, parts, parts[18]]
        texts = [*map(repr, values), *map(shown, values)]
    texts.append(str(released.metadata().to_csvw().content))
    assert [text for text in texts if str(tmp_path) in text] == []
    assert [text for text in texts if called not in text] == []


def test_a_ledger_knows_a_file_by_its_path(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age\n18\n")
    data = PrivateData.from_csv(path, Domain(Integer("age", 18, 25)))
    ledger = SQLiteLedger(tmp_path / "spend.db")
    Session(data, Budget(1), ledger=ledger).answer(Count(), using=Laplace("0.1"))
    assert Session(data, Budget(1), ledger=ledger).spent.charges == 1
    other = PrivateData.from_csv(path, Domain(Integer("age", 18, 25)), name="people.csv")
    assert Session(other, Budget(1), ledger=ledger).spent.charges == 0
