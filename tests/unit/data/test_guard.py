"""Loading that fails, however it fails, takes no value along in the frames of its traceback."""

import gc
import gzip
import sys
import types
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tables_loaded import cells

import dpsdk
from dpsdk import Binned, Boolean, Categorical, Domain, Integer, Neighbors, PrivateData
from dpsdk.data.guard import attempt
from dpsdk.errors import DataError, InvalidArgument, TooLarge

PACKAGE = str(Path(dpsdk.__file__).parent)
WORD, NUMBER = "marzipan-zebra", 271828182
DOMAIN = Domain(
    Integer("age", 17, 20), Categorical("sex", ["F", "M", "rest"], other="rest"),
    Binned("hours", [0, 10]), Boolean("flag"),
)  # fmt: skip
COLUMNS = {
    "age": [NUMBER, 17, 18], "sex": [WORD, "F", "M"], "hours": [float(NUMBER)] * 3,
    "flag": [WORD, True, "1"],
}  # fmt: skip
FILE = f'age,sex,hours,flag\n{NUMBER},{WORD},{NUMBER},{WORD}\n17,"{WORD}",{NUMBER},1\n'


def frames_of(error):
    """All frames of this package in the tracebacks of an error and of those that it came from."""
    found, seen, queue = [], set(), [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        queue += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
        trace = one.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
                found.append(trace.tb_frame)
            trace = trace.tb_next
    return found


PRIVATE = {"ndarray", "Array", "ChunkedArray", "DataFrame", "Series", "Histogram", "Column"}
UNWALKED = (types.ModuleType, types.FunctionType, types.MethodType, type, types.FrameType, property)


def reached(start):
    """Everything that objects hold, without what the interpreter shares."""
    seen, queue = {}, list(start)
    while queue:
        one = queue.pop()
        if id(one) in seen or isinstance(one, UNWALKED) or len(seen) > 50_000:
            continue
        seen[id(one)] = one
        queue += gc.get_referents(one)
        queue += [one.base] if isinstance(one, np.ndarray) and one.base is not None else []
    return list(seen.values())


def secrets_in(error):
    """What an error leads to that only the table may hold: its values, and arrays of any kind."""
    start = [value for frame in frames_of(error) for value in frame.f_locals.values()]
    start += [error.args, getattr(error, "__notes__", ()), str(error), repr(error)]
    hits = []
    for one in reached(start):
        if isinstance(one, str | bytes):
            text = one if isinstance(one, str) else one.decode("latin-1")
            hits += [text for secret in (WORD, str(NUMBER)) if secret in text]
        elif isinstance(one, int | float) and one == NUMBER:
            hits.append(one)
        elif type(one).__name__ in PRIVATE:
            hits.append(type(one))
    return hits


def failure(load):
    try:
        load()
    except BaseException as error:
        return error
    raise AssertionError("it did not fail")


class HostileInt(int):
    """A number that shouts whatever it is asked."""

    def _shout(self, *_):
        raise RuntimeError(f"{WORD} {NUMBER}")

    __add__ = __radd__ = __lt__ = __gt__ = __ge__ = __le__ = __eq__ = __hash__ = __index__ = _shout
    __int__ = __float__ = __bool__ = __str__ = __repr__ = __format__ = _shout


class HostileText(str):
    """A text that shouts whatever it is asked."""

    __slots__ = ()

    def _shout(self, *_):
        raise RuntimeError(f"{WORD} {NUMBER}")

    __eq__ = __hash__ = __str__ = __repr__ = __format__ = strip = lower = encode = isascii = _shout
    __len__ = __getitem__ = __contains__ = __iter__ = _shout


class Interrupting(Mapping):
    """Columns that interrupt whoever asks for one, with a secret."""

    def __init__(self, kind):
        self.kind = kind

    def __getitem__(self, name):
        raise self.kind(WORD) from ValueError(WORD)

    def __iter__(self):
        return iter(DOMAIN.names)

    def __len__(self):
        return 4


def frame():
    return pl.DataFrame({"age": COLUMNS["age"], "sex": COLUMNS["sex"], "hours": COLUMNS["hours"],
                         "flag": [True, None, False]})  # fmt: skip


ONE = Domain(Integer("age", 17, 20))

FAILING = {
    "bad outside": lambda: PrivateData.from_columns(COLUMNS, DOMAIN, outside="x"),
    "bad domain": lambda: PrivateData.from_columns(COLUMNS, "x"),
    "bad name": lambda: PrivateData.from_columns(COLUMNS, DOMAIN, name=""),
    "bad neighbors": lambda: PrivateData.from_columns(COLUMNS, DOMAIN, neighbors=1),
    "bad max_rows": lambda: PrivateData.from_columns(COLUMNS, DOMAIN, max_rows="x"),
    "too wide": lambda: PrivateData.from_columns(COLUMNS, Domain(Integer("age", 0, 10**30))),
    "missing column": lambda: PrivateData.from_columns({"age": COLUMNS["age"]}, DOMAIN),
    "lengths": lambda: PrivateData.from_columns({**COLUMNS, "hours": [NUMBER]}, DOMAIN),
    "nested": lambda: PrivateData.from_columns(
        {**COLUMNS, "age": [[NUMBER], [1]]}, DOMAIN, outside="raise"
    ),
    "scalar": lambda: PrivateData.from_columns({**COLUMNS, "age": NUMBER}, DOMAIN),
    "bytes": lambda: PrivateData.from_columns(
        {"sex": np.array([WORD.encode()])}, Domain(DOMAIN["sex"])
    ),
    "frame domain": lambda: PrivateData.from_frame(frame(), None),
    "frame name": lambda: PrivateData.from_frame(frame(), DOMAIN, name=4),
    "frame columns": lambda: PrivateData.from_frame(frame().drop("hours"), DOMAIN),
    "frame twice": lambda: PrivateData.from_frame(
        pd.concat([frame().to_pandas()] * 2, axis=1), DOMAIN
    ),
    "no frame": lambda: PrivateData.from_frame(COLUMNS, DOMAIN),
    "counts shape": lambda: PrivateData.from_counts([NUMBER], DOMAIN),
    "counts ragged": lambda: PrivateData.from_counts([[NUMBER], [1, 2]], DOMAIN),
    "counts text": lambda: PrivateData.from_counts([WORD] * 4, ONE),
    "counts name": lambda: PrivateData.from_counts([NUMBER] * 4, ONE, name=""),
    "counts outside": lambda: PrivateData.from_counts([1] * 4, ONE, outside_rows=NUMBER + 0.5),
    "counts limit": lambda: PrivateData.from_counts([NUMBER, 0, 0, 0], ONE, max_rows=7),
    "counts sum": lambda: PrivateData.from_counts([NUMBER * 10**8] * 4, ONE),
    "outside_rows too large": lambda: PrivateData.from_counts(
        [NUMBER] * 4, ONE, outside_rows=10**400
    ),
    "outside_rows that shouts": lambda: PrivateData.from_counts(
        [NUMBER] * 4, ONE, outside_rows=HostileInt(-NUMBER)
    ),
    "counts that shout": lambda: PrivateData.from_counts([HostileInt(NUMBER)] * 4, ONE),
    "many counts": lambda: PrivateData.from_counts([2**52, 2**52, 0, 0], ONE, outside_rows=NUMBER),
    "max_rows": lambda: PrivateData.from_columns(COLUMNS, DOMAIN, max_rows=1),
    "raise": lambda: PrivateData.from_columns(COLUMNS, DOMAIN, outside="raise"),
    "types": lambda: PrivateData.from_columns({**COLUMNS, "flag": np.array([b"x"])}, DOMAIN),
    "an interrupt": lambda: PrivateData.from_columns(Interrupting(KeyboardInterrupt), DOMAIN),
    "no memory": lambda: PrivateData.from_columns(Interrupting(MemoryError), DOMAIN),
    "an error of this package": lambda: PrivateData.from_columns(
        Interrupting(lambda text: DataError(text, text)), DOMAIN
    ),
    "no name": lambda: PrivateData.from_frame(frame(), DOMAIN, name=""),
    "frame raise": lambda: PrivateData.from_frame(frame(), DOMAIN, outside="raise"),
    "frame max_rows": lambda: PrivateData.from_frame(
        frame(), DOMAIN, neighbors=Neighbors.ADD_REMOVE, max_rows=1
    ),
    "lazy": lambda: PrivateData.from_frame(
        frame().lazy().with_columns(pl.col("sex").cast(pl.Int64)), DOMAIN
    ),
    "arrow": lambda: PrivateData.from_frame(
        pa.table({**COLUMNS, "flag": pa.array([[NUMBER]] * 3)}), DOMAIN
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_a_failure_of_any_kind_leads_to_no_value(name):
    error = failure(FAILING[name])
    assert isinstance(error, DataError | InvalidArgument | TooLarge | KeyboardInterrupt)
    assert secrets_in(error) == []
    assert error.__context__ is None
    assert error.__cause__ is None


def test_values_that_shout_are_read_as_what_they_extend():
    columns = {
        "age": [HostileInt(17), HostileInt(99)], "sex": [HostileText("F"), HostileText("x")],
        "hours": [HostileInt(5), HostileInt(-5)], "flag": [HostileInt(1), HostileText("False")],
    }  # fmt: skip
    for name, expected in {"age": [17], "sex": ["F", "rest"], "hours": [5], "flag": [1, 0]}.items():
        domain = Domain(DOMAIN[name])
        array = np.empty(2, dtype=object)
        array[:] = columns[name]
        for given in (columns[name], tuple(columns[name]), array):
            found = PrivateData.from_columns({name: given}, domain)
            wanted = PrivateData.from_columns(
                {name: expected + [None] * (2 - len(expected))}, domain
            )
            assert found.facts == wanted.facts
            assert cells(found) == cells(wanted)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, TimeoutError])
def test_an_interrupt_keeps_its_kind(kind):
    error = failure(lambda: attempt("x", lambda: (_ for _ in ()).throw(kind)).missing)
    assert isinstance(error, AttributeError)
    result = attempt("x", lambda: (_ for _ in ()).throw(kind))
    assert type(result) is (DataError if issubclass(kind, Exception) else kind)
    assert result.__traceback__ is None


def interrupted(load, at):
    """Run a call and interrupt it at the `at`-th line that is run below the data package."""
    count = 0
    inside = str(Path(PACKAGE, "data"))

    def trace(frame, event, _):
        nonlocal count
        if not frame.f_code.co_filename.startswith(inside):
            return None
        if event == "line" and frame.f_code.co_name not in OWN:
            count += 1
            if count == at:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        load()
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.settrace(before)
    return None


OWN = {"from_columns", "from_frame", "from_counts", "_made", "attempt"}
"""Frames whose arguments are what the caller handed over, and still holds."""


def doors(tmp_path):
    (tmp_path / "t.csv").write_text(FILE)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(FILE.encode()))
    return {
        "columns": lambda: PrivateData.from_columns(COLUMNS, DOMAIN),
        "arrays": lambda: PrivateData.from_columns(
            {"age": np.array(COLUMNS["age"]), "sex": np.array(COLUMNS["sex"]),
             "hours": np.array(COLUMNS["hours"]), "flag": np.array([True, False, True])}, DOMAIN),
        "frame": lambda: PrivateData.from_frame(frame(), DOMAIN),
        "file": lambda: PrivateData.from_csv(tmp_path / "t.csv", DOMAIN, name="t"),
        "zipped": lambda: PrivateData.from_csv(tmp_path / "t.csv.gz", DOMAIN, name="t", strip=True),
        "counts": lambda: PrivateData.from_counts([NUMBER, 0, 0, 1], ONE),
    }  # fmt: skip


# The line that leaves a `with` can be interrupted, too; its file is then closed a little later.
@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("door", "step"),
    [
        ("columns", 1),
        ("arrays", 2),
        ("counts", 1),
        # Where there are many lines, a quick run interrupts some of them only.
        ("frame", 9),
        ("file", 5),
        ("zipped", 7),
        *(pytest.param(door, 1, marks=pytest.mark.audit) for door in ("frame", "file", "zipped")),
    ],
)
def test_an_interrupt_at_any_line_leads_to_no_value(door, step, tmp_path, monkeypatch):
    if door == "file":
        # As if it were a long one, that pyarrow reads.
        monkeypatch.setattr("dpsdk.data.delimited._LONG", 0)
    load = doors(tmp_path)[door]
    at = 1
    while (error := interrupted(load, at)) is not None:
        assert type(error) is KeyboardInterrupt
        assert secrets_in(error) == [], at
        at += step
    assert at > 100


def test_a_panic_of_a_library_quotes_nothing():
    # Which is no Exception, where libraries in Rust raise one.
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})

    def load():
        raise panic(f"called unwrap() on {WORD}")

    error = attempt("t.parquet", load)
    assert type(error) is DataError
    assert WORD not in str(error)
