"""The pictures of report.md, drawn by the page's own code: ``python docs/tutorial/pictures.py``.

It runs the page, and draws each of its figures twice, for readers in the light and in the dark.
Noise is that of the operating system, so that each run draws another report.
"""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib import rc_context, style
from matplotlib.figure import Figure

from dpsdk import plots

HERE = Path(__file__).parent
BLOCK = re.compile(
    r"^```(?:python|\{image\} (\S+)-light\.svg)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
STYLES = {"light": "default", "dark": "dark_background"}
SAVED = {"svg.fonttype": "none"}
"""Letters as letters, not as curves."""


def main() -> None:
    """Run the page, and write its pictures beside it."""
    names: dict[str, object] = {}
    code = ""
    for found in BLOCK.finditer((HERE / "report.md").read_text(encoding="utf-8")):
        picture, text = found.groups()
        if picture is None:
            code = text
            exec(code, names)  # noqa: S102  # it is the page's own
            continue
        for suffix, look in STYLES.items():
            with style.context(look), rc_context(SAVED | {"svg.hashsalt": picture}):
                exec(code, names)  # noqa: S102
                figure = names["figure"]
                if not isinstance(figure, Figure):
                    raise TypeError(picture)
                told = {"Description": plots.alternative(figure), "Date": None, "Creator": None}
                figure.savefig(HERE / f"{picture}-{suffix}.svg", transparent=True, metadata=told)


if __name__ == "__main__":
    main()
