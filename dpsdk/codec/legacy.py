"""Records of dpsdk 0.1, which ledgers held, as the written forms of today. Frozen.

A record was a dict of texts, lists and records with a `tag` such as "budget.1". `_TAGS` has the
fields of each and a letter for what they hold: t text, n natural number in digits, z digits that
stay a text, f yes or no, x float in hexadecimal, r record, s record or text, p lists of texts, l a
law of noise, c a combination of noises, j pairs of an accuracy and a number; `?` marks what may be
missing (a list of one item or none), `*` a list, `>` another name today. A first word without a
letter is another name of the kind. What a tag means never changes, and no tag is added here.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import cast

from dpsdk._checks import shown
from dpsdk.codec.fields import MEASURED
from dpsdk.codec.kinds import Codebook
from dpsdk.codec.text import DEEPEST, JSON, Plain
from dpsdk.errors import WireError

__all__ = ["is_record", "renewed"]

_CHARGE = "number:n label:t guarantee:r mechanism:t question:n session:n payer:r request_id:t"

_TAGS = {
    "budget.1": "epsilon:z delta:z",
    "anytime.1": "delta:z around:z",
    "guarantee.pure.1": "epsilon:z",
    "guarantee.discrete-laplace.1": "scale:z shift:n",
    "guarantee.discrete-gaussian.1": "variance:z shift_squared:n shift_max:n claim:?*z",
    "guarantee.bounded-range.1": "eta:z",
    "guarantee.approximate.1": "epsilon:z delta:z",
    "composition.basic.1": "",
    "composition.advanced.1": "leak_share:z",
    "composition.zcdp.1": "leak_share:z",
    "composition.envelope.1": "leak_share:z",
    "composition.mixed.1": "leak_share:z",
    "composition.renyi.1": "order:z leak_share:z",
    "composition.any-of.1": "members:*r weights:?*z leak_share:z",
    "state.1": "spent:*z limit:*z parts:*s reach:z",
    "line.1": "state:r epsilon:?z rho:z",
    "payer.1": "accounts:*n generation:n part:?n",
    "charge.1": _CHARGE,
    "charge.2": f"{_CHARGE} scope:t at:?t",
    "dataset.2": "name:t neighbors:t unit_rows:n person:t",
    "binding.1": "dataset:r budget:r composition:r start:r anytime:?r",
    "account.1": "name:t start:r outer:*n line:r runs:n reserve:f closed:f",
    "numbered.1": "number:n account:r",
    "division.1": "generation:n parts:n moves:f places:*n bundles:**r kinds:p",
    "books.1": "binding:?r lines:*r division:?r accounts:*r runs:n sessions:n",
    "answer.1": "stored question:t numbers:p source:t accuracy:r",
    "accuracy.noise.1": "law:l entries:n step:x bias:x",
    "accuracy.promised.1": "error:x beta:x entries:n kind>rests_on:t",
    "accuracy.none.1": "kind>rests_on:t advice:t",
    "accuracy.constrained.1": "before:r constraint:t moves:p chains:p",
    "accuracy.joint.1": "parts:j",
    "accuracy.combined.1": "law:l step:x combination:c",
    "accuracy.consistent.1": "law:l step:x cells:n exactly:f combination:c signed:p",
    "accuracy.projected.1": "accuracy.moved projection:r before:r distances:p",
    "accuracy.moved.1": "unbiased>before:r distances:p",
    "accuracy.projection.1": "noise:r reach:x cells:n gap:x distances:?p counted:f entries:n",
    "accuracy.certified.1": "errors:p beta:x variation:x",
    "accuracy.promised-excess.1": "alpha:x beta:x span:x",
}

_NATURAL = re.compile(r"0|[1-9][0-9]{0,307}")
_DIGITS = re.compile(r"[0-9a-fx]+(?:/[0-9a-fx]+)?")


def is_record(plain: object) -> bool:
    """True if plain data is such a record."""
    return type(plain) is dict and "tag" in plain


def renewed(record: object, path: str = "$") -> JSON:
    """The written form of today, as plain data, of a record and of those in it.

    Raises
    ------
    WireError
        If it is no record with exactly the fields of its tag. Numbers and texts are checked by
        the reader of the result.
    """
    if path.count(".") + path.count("[") > DEEPEST:
        raise WireError(path[:200], f"records at most {DEEPEST} deep", "one that is deeper")
    if type(record) is not dict:
        raise WireError(path, "a record", type(record).__name__)
    fields = cast("dict[str, object]", record)
    tag = fields.get("tag")
    if type(tag) is not str or tag not in _TAGS:
        raise WireError(f"{path}.tag", "the tag of a record", shown(tag))
    kind, rules = _rules(tag)
    if len(fields) != len(rules) + 1 or not all(name in fields for name, _, _ in rules):
        raise WireError(path, f"exactly the fields of {tag}", "others")
    renewed: JSON = {"kind": kind}
    for name, today, rule in rules:
        renewed[today] = _field(rule, fields[name], f"{path}.{name}")
    return renewed


@cache
def _rules(tag: str) -> tuple[str, list[tuple[str, str, str]]]:
    """The kind that a tag is today, and for each field its name then, its name now and its rule."""
    kind, rules = tag.rpartition(".")[0], list[tuple[str, str, str]]()
    for word in _TAGS[tag].split():
        names, colon, rule = word.partition(":")
        name, _, today = names.partition(">")
        if colon:
            rules.append((name, today or name, rule))
        else:
            kind = name
    return kind, rules


def _field(rule: str, plain: object, path: str) -> Plain:
    if rule[0] in "?*pjc":
        if type(plain) is not list:
            raise WireError(path, "a list", type(plain).__name__)
        items = cast("list[object]", plain)
        if rule == "p":
            return [_field("t" if isinstance(one, str) else "p", one, path) for one in items]
        if rule == "j":
            return [_joint(one, path) for one in items]
        if rule == "c":
            *ways, places = [_field("p", one, path) for one in items] or [[]]
            return {"ways": ways, "places": places}
        if rule[0] == "?" and len(items) > 1:
            raise WireError(path, "one item or none", f"{len(items):,} items")
        read = [_field(rule[1:], one, f"{path}[{place}]") for place, one in enumerate(items)]
        return read if rule[0] == "*" else read[0] if read else None
    if rule == "r" or (rule == "s" and type(plain) is not str):
        return renewed(plain, path)
    if type(plain) is not str:
        raise WireError(path, "a text", type(plain).__name__)
    return _text(rule, plain, path)


def _text(rule: str, text: str, path: str) -> Plain:
    if rule == "n" and _NATURAL.fullmatch(text):
        return int(text)
    if rule == "f" and text in {"yes", "no"}:
        return text == "yes"
    if rule == "l":
        law, _, size = text.partition(" ")
        name = {"gaussian": "variance", "laplace": "scale"}.get(law, "")
        return {"kind": f"law.{law}", name: _text("z", size, path)}
    if rule == "x" and (number := _float(text)) is not None:
        return MEASURED.write(number, path, Codebook())
    if rule in "ts" or (rule == "z" and _DIGITS.fullmatch(text)):
        return text
    raise WireError(path, "a number or flag as records have it", shown(text))


def _float(text: str) -> float | None:
    try:
        number = float.fromhex(text)
    except (ValueError, OverflowError):
        return None
    return number if number.hex() == text or math.isnan(number) else None


def _joint(plain: object, path: str) -> Plain:
    if type(plain) is not list or len(cast("list[object]", plain)) != 2:
        raise WireError(path, "an accuracy and a number", "others")
    accuracy, rows = cast("list[object]", plain)
    return {"accuracy": renewed(accuracy, path), "rows": _field("n", rows, path)}
