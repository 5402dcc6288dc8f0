"""Which rows of a person are kept: at most so many, by a rule that looks at that person alone.

Every row of a person gets a key, made of whose it is, its cell in the full domain, and which of the
person's rows in that cell it is. The rows of the smallest keys are kept. Keys are integers of
arithmetic modulo a prime that every engine does exactly (`dpsdk.data.engine.bounded`), so that the
same rows are kept wherever they are.

A key is (x + 1 + s + t)^5 modulo P = 2^31 - 1, where x comes from the cell, s from the identifier
and t from the repetition. Fifth powers permute the residues, since 5 does not divide P - 1; and s
makes the order of two cells another for each person, so that no cell is kept more often than
another over many persons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpsdk.data.unit import PrivacyUnit
from dpsdk.typing import Bools, Ints

__all__ = [
    "ALPHABET",
    "BITS",
    "CELL_FACTOR",
    "FIRST",
    "LAST",
    "LENGTHS",
    "PERSON_FACTOR",
    "PRIME",
    "REPEAT_FACTOR",
    "kept",
    "salts_of",
]

PRIME = 2**31 - 1
"""Products of two residues stay below 2^62, so that no engine's integers overflow."""

CELL_FACTOR = 1_583_458_089
PERSON_FACTOR = 784_588_716
REPEAT_FACTOR = 950_706_376
"""Public multipliers, of no meaning but to spread what is small over all residues."""

FIRST, LAST = 8, 4
"""So many characters at the ends of an identifier enter the order of that person's rows."""

BITS = 3
"""So many bits of the code of each of these."""

ALPHABET = "".join(map(chr, range(0x21, 0x7F)))
"""The characters whose codes enter; all others count as 0."""

LENGTHS = 64
"""The length of an identifier enters modulo this."""


def salts_of(written: Sequence[str]) -> Ints:
    """The numbers of identifiers, which decide in which order the rows of each are taken.

    Several may share a number: it need not tell them apart, only differ for most.
    """
    numbers = np.array([len(text) % LENGTHS for text in written], dtype=np.int64)
    ends = [text[:FIRST].ljust(FIRST, "\0") + text[-LAST:].rjust(LAST, "\0") for text in written]
    codes = np.array(ends, dtype=f"U{FIRST + LAST}").view(np.uint32).reshape(len(ends), -1)
    known = (codes >= ord(ALPHABET[0])) & (codes <= ord(ALPHABET[-1]))
    for digits in np.where(known, codes & (2**BITS - 1), 0).T:
        numbers = numbers << BITS | digits
    return numbers % PRIME


def kept(
    persons: Ints, written: Callable[[], Sequence[str]], codes: Sequence[Ints], unit: PrivacyUnit
) -> Bools:
    """Which rows stay, of a table whose persons and cells are known.

    Parameters
    ----------
    persons
        The number of each row's person, from 0 on; -1 for rows of nobody, which do not stay.
    written
        Gives the identifiers of all persons, in order of their numbers.
    codes
        The cell of each row along each attribute; all of them -1 where it lies outside.
    unit
        How many rows, and whether cells count once.
    """
    stays = persons >= 0
    if not stays.any():
        return stays
    counts = np.bincount(persons[stays])
    # Nobody with so few rows can lose one, so there is nothing to choose.
    many = counts > (1 if unit.distinct else unit.max_rows)
    rows = np.flatnonzero(stays)
    rows = rows[many[persons[rows]]]
    if len(rows):
        names = written()
        salts = np.zeros(len(many), dtype=np.int64)
        salts[many] = salts_of([names[person] for person in np.flatnonzero(many).tolist()])
        stays[rows] = False
        stays[rows[_first(persons[rows], salts, [code[rows] for code in codes], unit)]] = True
    return stays


def _first(persons: Ints, salts: Ints, codes: Sequence[Ints], unit: PrivacyUnit) -> Ints:
    """Places of the rows with the smallest keys of each person."""
    order = _order([persons, *codes])
    repeat = _place_in_run([persons[order], *(code[order] for code in codes)])
    if unit.distinct:
        order, repeat = order[repeat == 1], repeat[repeat == 1]
    key = _keys(salts[persons[order]], [code[order] for code in codes], repeat)
    # Keys that are alike, which are few, go by the cell.
    order = order[_order([persons[order], key, *(code[order] for code in codes), repeat])]
    return order[_place_in_run([persons[order]]) <= unit.max_rows]


def _order(columns: Sequence[Ints]) -> Ints:
    """What sorts rows by the columns, the first one first. Values are -1 or more."""
    # The fewest columns that hold the same: one sort is much faster than several.
    packed: list[Ints] = []
    room = 0
    for column in columns:
        size = int(column.max()) + 2
        if room * size < 2**63 and packed:
            packed[-1], room = packed[-1] * size + (column + 1), room * size
        else:
            packed.append(column + 1)
            room = size
    return np.argsort(packed[0]) if len(packed) == 1 else np.lexsort(packed[::-1])


def _place_in_run(columns: Sequence[Ints]) -> Ints:
    """The place of each row among the adjacent rows that are equal to it, from 1 on."""
    places = np.arange(len(columns[0]), dtype=np.int64)
    begins = np.ones(len(places), dtype=bool)
    begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return places - np.maximum.accumulate(np.where(begins, places, 0)) + 1


def _keys(salts: Ints, codes: Sequence[Ints], repeat: Ints) -> Ints:
    key = np.ones(len(repeat), dtype=np.int64)
    for code in codes:
        key = (key * CELL_FACTOR + (code + 1) % PRIME) % PRIME
    key = (key + salts * PERSON_FACTOR % PRIME + repeat * REPEAT_FACTOR % PRIME) % PRIME
    square = key * key % PRIME
    return square * square % PRIME * key % PRIME
