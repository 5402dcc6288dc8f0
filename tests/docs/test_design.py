"""The pictures of the layers show what the checker of imports holds."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def layers(lines):
    return [re.split(r" \| ", line) for line in lines]


def test_the_pictures_name_every_layer_in_its_place():
    page = (ROOT / "docs/explanation/design.md").read_text(encoding="utf-8")
    section = re.search(r"^## Layers$(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    pictures = re.findall(r"```text\n(.*?)```", section[1], re.DOTALL)
    shown = [
        layers(re.split(r"  +", line)[0] for line in picture.splitlines()) for picture in pictures
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [
        layers(contract["layers"])
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    assert shown == contracts
