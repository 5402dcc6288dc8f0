"""Equal identities say equal functions, and, where functions are equal, so are the identities."""

import hashlib
import io
import math
import os
import subprocess
import sys
from contextlib import redirect_stdout
from fractions import Fraction

import numpy as np
import pytest
from random_forms import random_domain, random_form

from dpsdk import Binned, Boolean, Categorical, Domain, Integer
from dpsdk.errors import InvalidArgument
from dpsdk.forms import (
    Dense,
    Form,
    GapForm,
    Groups,
    Identity,
    Kronecker,
    LinearForm,
    Members,
    Prefix,
    Range,
    Ranges,
    Weights,
)
from dpsdk.forms import members as members_module
from dpsdk.queries import (
    Above,
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    Mean,
    Not,
    NumericAbove,
    Rectangles,
    Sum,
    Threshold,
    Workload,
)
from worlds import crossed, weights

SMALL = Domain(Integer("age", 17, 19), Categorical("sex", ["f", "m"]), Boolean("member"))
SHIRTS = Domain(Binned("size", [0, 0.1, 0.4]), Boolean("new"))


def exact_functions(form):
    """Each function as its exact weights on all cells of the universe, worked out anew."""
    return tuple(map(tuple, weights(form, Fraction)))


def same_where_equal(forms):
    """Both directions, over all pairs, of forms and of their functions."""
    meaning, rows = {}, {}
    for form in forms:
        functions = exact_functions(form)
        assert meaning.setdefault(form.identity, functions) == functions
        identities = list(form.row_identities())
        assert len(identities) == form.rows == len(functions)
        for one, function in zip(identities, functions, strict=True):
            assert rows.setdefault(one, function) == function
    assert len(set(meaning.values())) == len(meaning)
    assert len(set(rows.values())) == len(rows)
    return len(meaning), len(rows)


def queries_of_people():
    """Every built-in query on a small domain, in many spellings."""
    conditions = [
        None, {"sex": "f"}, {"sex": {"f", "m"}}, {"sex": Not("m")}, {"age": range(17, 19)},
        {"age": {17, 19}}, {"age": Not(18)}, {"age": 18, "member": True},
        {"member": True, "age": 18}, {"age": range(19, 25)}, {"age": {17, 18, 19}},
    ]  # fmt: skip
    for where in conditions:
        for normalized in (True, False):
            yield Count(where, normalized=normalized)
            yield Sum("age", where=where, normalized=normalized)
            if where is not None:
                yield Conjunction(where, normalized=normalized)
        yield Mean("age", where=where)
        for t in (16, 17, 17.5, 18, 19, 30):
            yield Threshold("age", t, where=where)
            yield Interval("age", 17, max(t, 17), where=where)
            yield Interval("age", min(t, 19), 19, where=where)
        for names in (("age",), ("sex", "age"), ("age", "sex"), ("member", "sex", "age"), ("sex",)):
            yield Marginal(*names, where=where)
        yield Linear([0.0, 1.0], attributes=["sex"], where=where)
        yield Linear([0.25, 0.75], attributes=["member"], where=where)
        yield Linear([[0.5, 0.0], [0.25, 0.0]], attributes=["sex", "member"], where=where)
        yield Linear([[0.5, 0.1], [0.25, 0.0]], attributes=["sex", "member"], where=where)
        yield Linear([[0.5, 0.25], [0.1, 0.0]], attributes=["member", "sex"], where=where)
        yield Linear([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]], attributes=["age", "sex"], where=where)
        yield Linear(lambda record: float(record["age"] == 18), where=where)
        yield Rectangles(
            ["sex", "age"], [[0, 0], [1, 1], [0, 1]], [[0, 1], [1, 2], [1, 1]], where=where
        )
        yield Rectangles(["age"], [0, 0, 0], [0, 1, 2], where=where)
        yield Rectangles(["age", "member"], [[0, 0]], [[2, 1]], where=where)
        yield Linear(lambda record: 0.0, where=where)
        yield Linear(lambda record: 1.0, attributes=["sex", "member"], where=where)
        yield Workload([Threshold("age", t, where=where) for t in (17, 18, 19)])
        yield Workload([Marginal("sex", where=where), Count(where)])


def queries_of_shirts():
    for where in (
        None,
        {"new": True},
        {"size": (0.0, 0.1)},
        {"size": Not((0.0, 0.1)), "new": True},
    ):
        yield Count(where)
        yield Sum("size", where=where)
        yield Mean("size", where=where)
        yield Threshold("size", 0.1, where=where)
        yield Threshold("size", 1, where=where)
        yield Interval("size", 0, 0.1, where=where)
        yield Marginal("size", "new", where=where)
        yield Linear([[0.1, 0.2], [0.3, 0.6]], where=where)
        yield Linear([[0.1, 0.2], [0.2, 0.4]], where=where)
        yield Linear([0.1, 0.2], attributes=["new"], where=where)


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize(
    ("domain", "queries"), [(SMALL, queries_of_people), (SHIRTS, queries_of_shirts)]
)
def test_built_in_queries_are_the_same_where_their_functions_are(domain, queries):
    forms = [query.lower(domain) for query in queries()]
    distinct, _ = same_where_equal(forms)
    assert 15 < distinct < len(forms)


@pytest.mark.thorough
@pytest.mark.parametrize("whole", [True, False])
def test_random_forms_are_the_same_where_their_functions_are(whole):
    rng = np.random.default_rng(41)
    for _ in range(12):
        domain = random_domain(rng, 3)
        same_where_equal([random_form(rng, domain, whole=whole) for _ in range(40)])


def written(block):
    if not block.names:
        return block
    grid = np.indices(block.shape).reshape(len(block.shape), -1)
    return Dense(block.names, block.shape, block.columns(list(grid)))


def test_a_form_written_out_is_the_form_that_it_was():
    rng = np.random.default_rng(42)
    for _ in range(60):
        form = random_form(rng, whole=True, dense=0.0)
        out = LinearForm(form.domain, [written(b) for b in form.blocks])
        assert out.identity == form.identity
        assert list(out.row_identities()) == list(form.row_identities())
        apart = LinearForm(form.domain, [form.row(i).blocks[0] for i in range(form.rows)])
        assert apart.identity == form.identity


def one(domain, scale=1.0, **factors):
    block = Kronecker.of(domain, factors)
    return LinearForm(domain, [Kronecker(block.names, block.factors, scale)])


def test_what_is_written_in_another_way_is_the_same():
    domain = Domain(Integer("a", 0, 3), Integer("b", 0, 2))
    whole = Range(4, 0, 4)
    both = ((0.5, [1, 3, 0, 2]), (1.0, [0.5, 1.5, 0, 1]), (-0.25, [-2, -6, 0, -4]))
    alike = [
        [one(domain), one(domain, a=whole), one(domain, 0.5, a=Weights([[2] * 4]))],
        [one(domain, a=Prefix(4)), one(domain, b=Range(3, 0, 3), a=Weights(np.tri(4)))],
        [one(domain, a=Identity(4)), one(domain, a=Weights(np.eye(4)))],
        [one(domain, a=Range(4, 2, 2)), one(domain, 0.0, b=Identity(3)).row(1),
         one(domain, a=Weights([[0.0, -0.0, 0, 0]]))],
        [one(domain, scale, a=Weights([line])) for scale, line in both],
        [one(domain, a=Weights([[5e-324, 0, 0, 1.5]])),
         one(domain, 2.0**-537, a=Weights([[2.0**-537, 0, 0, 1.5 * 2.0**537]]))],
        [one(domain, a=Weights([[1e308, 3, 0, 0]]), b=Weights([[3, 0, 1]])),
         LinearForm(domain, [Kronecker(
             ("b", "a"), (Weights([[3, 0, 1]]), Weights([[1e308, 3, 0, 0]])))])],
    ]  # fmt: skip
    seen = set()
    for group in alike:
        assert len({form.identity for form in group}) == 1
        seen.add(group[0].identity)
    assert len(seen) == len(alike)


def test_a_large_product_that_was_written_out_is_told_from_what_is_almost_one():
    domain = Domain(Integer("a", 0, 4), Integer("b", 0, 4))
    a, b = [1e300, 3.0, 1e-280, 0.0, 7.0], [1e5, 1.0, 0.0, 2.0**-40, 5.0]
    lines = one(domain, a=Weights([a]), b=Weights([[1.0, 0.5, 0.0, 2.0**-40, 2.0]]))
    table = np.outer(a, [1.0, 0.5, 0.0, 2.0**-40, 2.0])  # powers of two, so nothing is rounded off
    assert LinearForm(domain, [Dense(("a", "b"), (5, 5), table.reshape(1, -1))]).identity == (
        lines.identity
    )
    table[1, 1] = math.nextafter(table[1, 1], math.inf)
    near = LinearForm(domain, [Dense(("a", "b"), (5, 5), table.reshape(1, -1))])
    assert near.identity != lines.identity
    # A product whose floats were rounded is another function than the product itself.
    rounded = LinearForm(domain, [one(domain, a=Weights([a]), b=Weights([b])).blocks[0].written()])
    assert rounded.identity != one(domain, a=Weights([a]), b=Weights([b])).identity


def test_the_order_of_functions_and_the_universe_count():
    domain = Domain(Integer("a", 0, 2), Integer("b", 0, 2))
    forward = one(domain, a=Identity(3))
    backward = LinearForm(domain, [forward.row(i).blocks[0] for i in (2, 1, 0)])
    assert forward.identity != backward.identity
    assert set(forward.row_identities()) == set(backward.row_identities())
    for other in (
        Domain(Integer("b", 0, 2), Integer("a", 0, 2)),
        Domain(Integer("a", 0, 2)),
        Domain(Integer("a", 0, 2), Integer("b", 0, 3)),
    ):
        assert one(other, a=Identity(3)).identity != forward.identity
    labels = Domain(Categorical("a", ["x", "y", "z"]), Integer("b", 5, 7))
    assert one(labels, a=Identity(3)).identity == forward.identity


def test_a_row_that_changes_a_name_into_another_is_another():
    # What is written has lengths in it: names cannot run into each other.
    one_way = Domain(Integer("a", 0, 1), Integer("b2;1:c", 0, 1))
    other = Domain(Integer("a2;1:b", 0, 1), Integer("c", 0, 1))
    assert one(one_way).identity != one(other).identity


def test_membership_in_a_workload_is_told_by_rows():
    workload = Workload([Marginal("age", "sex"), Threshold("age", 18)]).lower(SMALL)
    known = frozenset(workload.row_identities())
    inside = [Count({"age": 17, "sex": "f"}), Conjunction({"age": Not(19)}), Marginal("sex", "age")]
    outside = [Count(), Threshold("age", 17), Linear([1.0, 0.0], attributes=["sex"])]
    assert all(known.issuperset(query.lower(SMALL).row_identities()) for query in inside)
    assert not any(known.issuperset(query.lower(SMALL).row_identities()) for query in outside)


def test_structure_is_never_written_out():
    domain = Domain(*(Integer(f"a{i}", 0, 2**200) for i in range(50)))
    size = 2**200 + 1
    form = one(domain, a3=Range(size, 0, 2**199), a40=Range(size, 7, size))
    assert form.identity == one(domain, a40=Range(size, 7, size), a3=Range(size, 0, 2**199),
                                a5=Range(size, 0, size)).identity  # fmt: skip


def test_gaps_are_told_by_their_form_their_numbers_and_their_kind():
    form = Threshold("age", 18).lower(SMALL)
    same = Conjunction({"age": {17, 18}}).lower(SMALL)
    base = GapForm(form, [0.5], [0.0])
    assert base.identity == GapForm(same, [0.5], [-0.0]).identity
    others = [
        GapForm(form, [0.25], [0.0]), GapForm(form, [0.5], [1.0]), GapForm(form, [0.0], [0.5]),
        GapForm(form, [0.5], [0.0], absolute=False), GapForm(form, [0.5], [0.0], numeric=True),
        GapForm(Threshold("age", 17).lower(SMALL), [0.5], [0.0]),
    ]  # fmt: skip
    assert len({gap.identity for gap in [base, *others]}) == len(others) + 1
    above, numeric = Above(Count(), 0.5).lower(SMALL), NumericAbove(Count(), 0.5).lower(SMALL)
    assert above.identity != numeric.identity
    assert above.identity == Above(Threshold("age", 99), 0.5).lower(SMALL).identity
    count = GapForm(LinearForm(Domain(Boolean("a")), [Kronecker((), ())]), [0.5], [0.0])
    assert count.identity.hex().startswith("300f5fcd314e773b4aa47515addf6c0c")


WRITTEN = "082f3b5c1ef564f7aa438cf46454ee77335cf89c559abec1d181871e0d4a85d2"

SCRIPT = """
from dpsdk import Domain, Integer
from dpsdk.forms import *
from dpsdk.queries import *
d = Domain(Integer("age", 17, 90), Integer("höhe", 0, 9))
form = Workload([Threshold("age", 40), Sum("age"), Marginal("höhe"),
                 Linear(lambda r: (r["age"] * r["höhe"] % 7) / 10)]).lower(d)
print(form.identity.hex())
"""


@pytest.mark.thorough
def test_it_is_the_same_in_every_process_and_stays_what_it_was():
    with redirect_stdout(io.StringIO()) as here:
        exec(SCRIPT, {})  # noqa: S102
    # Hashes of strings begin here with one number, and there with another.
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    there = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True,
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "PYTHONUTF8": "1"},
    ).stdout  # fmt: skip
    assert {here.getvalue().strip(), there.strip()} == {WRITTEN}


def test_the_bytes_are_those_that_the_documentation_tells():
    domain = Domain(Integer("a", 0, 3), Integer("b", 0, 1))
    universe = hashlib.sha256(b"dpsdk linear function 1\x001:a4;1:b2;").digest()
    text = b"3,-1;i0,1,3;l1;2,11;" + np.array([0, 1], "<i8").tobytes() + b"8" + (
        np.array([1, 5], "<i8").tobytes()
    )  # fmt: skip
    row = hashlib.sha256(universe + text).digest()
    form = one(domain, 0.5, a=Range(4, 1, 3), b=Weights([[3.0, 15.0]]))
    assert list(form.row_identities()) == [row]
    assert form.identity == hashlib.sha256(b"dpsdk linear form 1\0" + row).digest()


def test_foreign_classes_are_told_by_what_they_weigh_and_not_asked():
    domain = Domain(Integer("a", 0, 3))

    class Liar(Weights):
        def matrix(self):
            raise AssertionError

    class Other(Kronecker):
        def texts(self, axes):
            raise AssertionError

    class Asked(Form):
        pass

    wanted = LinearForm(domain, [Kronecker(("a",), (Identity(4),))]).identity
    for block in (Kronecker(("a",), (Liar(np.eye(4)),)), Other(("a",), (Identity(4),))):
        assert LinearForm(domain, [block]).identity == wanted
    assert Asked().identity is None


@pytest.mark.parametrize(
    "block",
    [
        Kronecker(("a",), (Identity(3),)),
        Kronecker(("a", "a"), (Identity(4), Identity(4))),
        Kronecker(("a",), (Identity(4),), math.nan),
        Kronecker(("a",), (Identity(4),), math.inf),
        Dense(("a",), (2,), [[1.0, 2.0]]),
    ],
)
def test_blocks_that_do_not_fit_have_no_identity(block):
    with pytest.raises(InvalidArgument, match="blocks"):
        _ = LinearForm(Domain(Integer("a", 0, 3)), [block]).identity


# Whether functions are among those of a form, against all their weights written out.


PLANE = Domain(Integer("x", 0, 3), Integer("y", 0, 2))


def form(*blocks):
    return LinearForm(PLANE, list(blocks))


def block(**factors):
    return Kronecker.of(PLANE, factors)


BLOCKS = {
    "prefixes": block(x=Prefix(4)),
    "cells": block(x=Identity(4)),
    "table": block(x=Identity(4), y=Identity(3)),
    "prefixes of cells": block(x=Prefix(4), y=Identity(3)),
    "pairs": block(x=Groups(4, 2)),
    "ranges": block(x=Ranges(4, [1, 0, 1], [3, 4, 4])),
    "range": block(x=Range(4, 1, 3)),
    "range and cells": block(x=Range(4, 0, 2), y=Identity(3)),
    "everything": block(),
    "nothing": block(x=Range(4, 2, 2)),
    "written out": block(x=Weights([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0]])),
    "weights": block(x=Weights([[0.5, 0.5, 0, 0], [2, 2, 0, 0]])),
    "halves": Kronecker(("x",), (Prefix(4),), 0.5),
    "dense": Dense(("x", "y"), (4, 3), np.array([np.eye(12)[3], np.repeat([1.0, 1, 0, 0], 3)])),
}


def by_weights(workload, asked):
    rows = {tuple(row) for row in weights(workload)}
    return [tuple(row) in rows for row in weights(asked)]


@pytest.mark.parametrize(("one", "other"), crossed(BLOCKS, BLOCKS, 3))
def test_functions_are_told_by_what_they_weigh(one, other):
    workload, asked = form(BLOCKS[one]), form(BLOCKS[other])
    assert Members.of(workload).covers(asked).tolist() == by_weights(workload, asked)


@pytest.mark.parametrize(("one", "other"), crossed(BLOCKS, BLOCKS, 3))
def test_blocks_that_are_not_listed_never_have_too_much(one, other, monkeypatch):
    monkeypatch.setattr(members_module, "_LISTED", 0)
    workload, asked = form(BLOCKS[one]), form(BLOCKS[other])
    found, right = Members.of(workload).covers(asked), by_weights(workload, asked)
    assert not (found & ~np.array(right)).any()
    ranges = set(BLOCKS) - {"everything", "nothing", "written out", "weights", "halves", "dense"}
    if {one, other} <= ranges:
        assert found.tolist() == right


def test_very_long_blocks_are_looked_for_as_a_whole(monkeypatch):
    monkeypatch.setattr(members_module, "_ASKED", 3)
    members = Members.of(form(BLOCKS["prefixes"]))
    assert members.covers(form(BLOCKS["prefixes"])).all()
    assert not members.covers(form(BLOCKS["table"])).any()
    assert members.covers(form(block(x=Range(4, 0, 2)))).all()


def test_several_blocks_are_one_set():
    members = Members.of(form(BLOCKS["prefixes"], BLOCKS["range"]))
    asked = form(BLOCKS["range"], BLOCKS["cells"], BLOCKS["everything"])
    assert members.covers(asked).tolist() == [True, True, False, False, False, True]


def test_functions_over_another_universe_are_no_members():
    other = Domain(Integer("x", 0, 3), Integer("y", 0, 1))
    asked = LinearForm(other, [Kronecker.of(other, {"x": Prefix(4)})])
    assert not Members.of(form(BLOCKS["prefixes"])).covers(asked).any()
