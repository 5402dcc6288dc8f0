"""Reasons: the codes that plans are given for, with the sentence of each."""

from __future__ import annotations

import math
from types import MappingProxyType

from dpsdk.release.release import Reason

__all__ = ["SENTENCES", "number", "ratio", "reason"]

SENTENCES = MappingProxyType({
    "cheapest": "nothing else that keeps within the error takes less of what is left",
    "least-error": "nothing else for this cost has a smaller error, by all that is known",
    "dearer": "takes {times} as much of what is left as the cheapest",
    "less-exact": "its error is {times} that of the best, by all that is known",
    "promise-only-expected": "expected to be off by {error} at most, which nothing promises",
    "assumed-only": "the error is a bound only if {words}",
    "too-dear": "for all that may be spent, off by up to {error}",
    "too-coarse": "for all that may be spent, off by up to {error}, of which {bins} is the width of"
    " bins; finer bins, or a Number, have less",
    "nothing-left": "no amount of it fits into what may be spent",
    "vacuous": "for all that may be spent, off by up to {error}, and no two answers differ by more"
    " than {span}",
    "needs-assumption": "a bound beforehand depends on the table: say what you believe of it by"
    " assume={{{keys}}}",
    "only-ranks": "off by at most {rows} rows in rank; a bound of the value itself depends on the"
    " table: say what you believe of it by assume={{{keys}}}",
    "ask-otherwise": "{advice}",
    "loose-alpha": "no two answers differ by more than {span}, so that a guess would do",
    "no-bound": "{why}",
    "refused": "{why}",
    "all-of-time": "it would spend every period at once: ask session.between(first, last)",
    "needs-public-rows": "it needs a public number of rows",
    "needs-delta": "it needs a delta above 0",
    "too-slow": "would take {seconds} seconds, and the limit is {limit}",
    "too-large": "would take {bytes} bytes, and the limit is {limit}",
    "too-much-planning": "planning it would take {steps} steps, and {limit} are allowed for all of"
    " this; limits= allows more",
    "extrapolated": "the forecast is for a question unlike those that it was calibrated with",
    "answers-more": "afterwards free: {frees}",
    "slow-to-open": "takes about {seconds} seconds",
    "too-dear-together": "for all that may be spent, some error is up to {times} times what it may"
    " be",
    "vacuous-together": "for all that may be spent, it says no more of some goal than a guess",
    "not-together": "each fits by itself, and all of them together do not",
    "one-for-all": "one measurement answers all goals",
    "one-for-each": "each goal is measured by itself, with beta/{count} for each",
})  # fmt: skip
"""The sentence of each code, with fields to fill in. A code stays what it is; sentences may change.
"""


def reason(code: str, **given: object) -> Reason:
    """The reason of a code."""
    return Reason(code, SENTENCES[code].format(**given))


def ratio(size: float) -> str:
    """How many times a size is another, in as many digits as tell that from once."""
    text = f"{size:.3g}"
    if text == "1":
        text = f"{size:.6g}"
    return "just" if text == "1" else f"{text} times"


def number(value: float) -> str:
    """A number in a sentence."""
    return "anything" if math.isinf(value) else f"{value:.4g}"
