"""The pictures of guides, made by running the pages themselves, for light and for dark.

``python docs/how-to/pictures.py`` draws them again, and writes their alternative texts into the
pages. It runs from the root of the repository.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import style
from matplotlib.figure import Figure

from dpsdk import plots

FOLDER = Path(__file__).parent
PAGES = (FOLDER / "pictures.md", FOLDER / "model-notebook.md")
STYLES = {"light": "default", "dark": "dark_background"}
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$|^```\{image\} pictures/(?P<name>\w+)-light\.svg$",
    re.MULTILINE | re.DOTALL,
)


def figures(page: str, mode: str) -> Iterator[tuple[str, Figure]]:
    """Run a page, and give each picture in it by name."""
    names: dict[str, Any] = {}
    for found in BLOCK.finditer(page):
        with style.context(STYLES[mode]):
            if found["code"] is not None:
                exec(found["code"], names)  # noqa: S102
            else:
                yield found["name"], names["figure"]


def save(figure: Figure, path: Path) -> None:
    """Write one picture, the same each time that the page is run."""
    with mpl.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        told = {"Description": plots.alternative(figure), "Date": None, "Creator": None}
        figure.savefig(path, format="svg", transparent=True, metadata=told)


def told(page: str, name: str, text: str) -> str:
    """The page with the alternative text of one picture, in both modes."""
    image = re.compile(
        rf"(^```\{{image\}} pictures/{name}-\w+\.svg\n:class: [\w-]+\n:alt: ).*$", re.MULTILINE
    )
    return image.sub(lambda found: found[1] + text, page)


def main() -> None:
    """Draw all, and tell the pages."""
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        for mode in STYLES:
            for name, figure in figures(page, mode):
                save(figure, FOLDER / "pictures" / f"{name}-{mode}.svg")
                page = told(page, name, plots.alternative(figure))
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
