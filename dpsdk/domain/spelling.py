"""How texts of a declaration are spelt: writable, and different to the eye."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from dpsdk.errors import InvalidArgument

__all__ = ["normal", "printed", "require_different", "to_text"]


def normal(text: str) -> str:
    """A text in Unicode's normal form NFC, in which texts are compared."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def to_text(parameter: str, value: str, expected: str) -> str:
    """A text of no other class; refused where no file could hold it, as half a surrogate pair."""
    text = str.__str__(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(parameter, expected, ascii(text[:60])) from None
    return text


def printed(text: str) -> str:
    """The text as a reader sees it: texts that agree in this look alike on a page."""
    text = normal(text)
    if not text.isprintable():
        text = normal("".join(filter(_is_seen, text)))
    return " ".join(text.split())


def _is_seen(character: str) -> bool:
    # The two joiners of scripts change how the letters beside them look.
    seen = character.isspace() or character in "\u200c\u200d"
    return seen or unicodedata.category(character) not in {"Cc", "Cf"}


def require_different(parameter: str, texts: Iterable[str]) -> None:
    """Refuse texts of which two look alike."""
    known: dict[str, str] = {}
    for text in texts:
        look = printed(text)
        if look in known:
            both = f"{known[look][:40]!a} and {text[:40]!a}"
            raise InvalidArgument(parameter, "texts that also look different", both)
        known[look] = text
