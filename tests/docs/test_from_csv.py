"""The way from a CSV to a report: its commands and examples run, one after the other, as shown."""

import io
import re
import shlex
from contextlib import redirect_stdout

import pytest
from test_examples import DOCS, blocks

from dpsdk.__main__ import main

pytestmark = pytest.mark.thorough

PAGE = DOCS / "how-to" / "from-csv-to-report.md"
NUMBER = re.compile(r"\d[\d.,]*%?")


def shape(text):
    """What is printed, but for numbers and the width of columns."""
    lines = NUMBER.sub("#", text).splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


def test_the_page_leads_from_a_csv_to_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    printed, previous, compared = "", "", 0
    for kind, body, line, adjacent in blocks(PAGE):
        with redirect_stdout(io.StringIO()) as out:
            if kind == "python":
                exec(compile("\n" * line + body, str(PAGE), "exec"), namespace)  # noqa: S102
            for command in body.splitlines() if kind == "sh" else ():
                assert command.startswith("dpsdk ")
                assert main(shlex.split(command)[1:]) == 0
        if kind == "text" and adjacent:
            if previous == "sh":
                assert shape(printed) == shape(body)
            else:
                assert printed.rstrip() == body.rstrip()
            compared += 1
        printed, previous = out.getvalue(), kind
    assert compared == 7
    assert (tmp_path / "tables" / "report.txt").is_file()
