"""Stretches: which of several questions a workload of them asks where."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import islice
from typing import TypeAlias

from dpsdk.errors import QueryError
from dpsdk.forms import LinearForm

__all__ = ["stretches"]

Word: TypeAlias = tuple[bytes, ...]
"""What tells the blocks of a form apart, in order."""


def stretches(form: LinearForm, asked: Sequence[LinearForm]) -> list[tuple[int, LinearForm]]:
    """The questions that a form is made of, each once: the place of each among them, and its part.

    Equal questions are met in the order that they are given in.
    """
    words = [_word(one) for one in asked]
    left: dict[Word, list[int]] = {}
    for place, word in enumerate(words):
        left.setdefault(word, []).append(place)
    if not _told_apart(list(left)):
        raise QueryError("", "Parts cannot tell questions apart that are made of one another")
    found: list[tuple[int, LinearForm]] = []
    start = 0
    for word in _read(_word(form), list(left)):
        if not left[word]:
            raise _others()
        stop = start + len(word)
        found.append((left[word].pop(0), LinearForm(form.domain, form.blocks[start:stop])))
        start = stop
    if start < len(form.blocks) or any(left.values()):
        raise _others()
    return found


def _others() -> QueryError:
    return QueryError("", "Parts answers a workload of just its own questions, in any order")


def _word(form: LinearForm) -> Word:
    rows = form.row_identities()
    return tuple([sha256(b"".join(islice(rows, block.rows))).digest() for block in form.blocks])


def _begins(word: Word, start: int, other: Word) -> bool:
    """Whether a word goes on with another from a place on."""
    stop = start + len(other)
    return stop <= len(word) and word[start] == other[0] and word[start:stop] == other


def _read(text: Word, words: Sequence[Word]) -> Sequence[Word]:
    """The words that a text is made of; none if it is made of others.

    No beginning of it is read in two ways, so that there is one way to each place at the most.
    """
    came: dict[int, Word] = {}
    waiting = [0]
    while waiting:
        start = waiting.pop()
        for word in words:
            if start < len(text) and _begins(text, start, word):
                came[start + len(word)] = word
                waiting.append(start + len(word))
    read: list[Word] = []
    place = len(text)
    while place in came:
        read.append(came[place])
        place -= len(came[place])
    return read[::-1]


def _told_apart(words: Sequence[Word]) -> bool:
    """Whether every text of these words, all different, is read in one way.

    Sardinas and Patterson (1953): so it is where no word is what one reading of some text is ahead
    of another by.
    """
    seen: set[tuple[int, int]] = set()
    ahead = [
        (place, len(word))
        for place, longer in enumerate(words)
        for word in words
        if word is not longer and _begins(longer, 0, word)
    ]
    while ahead:
        one = ahead.pop()
        if one in seen:
            continue
        seen.add(one)
        place, start = one
        rest = words[place][start:]
        for other, word in enumerate(words):
            if word == rest:
                return False
            if _begins(rest, 0, word):
                ahead.append((place, start + len(word)))
            elif _begins(word, 0, rest):
                ahead.append((other, len(rest)))
    return True
