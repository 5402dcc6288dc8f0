"""The plugins that cheat, what a session does with each, and the check of the kits that finds it.

The page "Plugins that cheat" of the documentation has these as a table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import cheats_ask as ask
import cheats_keep as keep
import cheats_pay as pay
import cheats_say as say
import cheats_tell as tell
from attrs import field, frozen
from cheats_base import Honest

from dpsdk.mechanisms import Mechanism
from dpsdk.queries import Query
from dpsdk.wire import Catalogue

__all__ = ["CATALOGUE", "MECHANISMS", "QUERIES", "TWINS", "Cheat", "table"]

Plugin: TypeAlias = "Mechanism[Any] | Query[Any, Any]"

CATALOGUE = Catalogue.shipped().plus(*say.KINDS).plus(*ask.KINDS)
"""With the kinds of those that have a written form."""


@frozen
class Cheat:
    """A plugin that cheats.

    Parameters
    ----------
    make
        Makes one.
    check
        The check that is named for it.
    session
        What a session does with it.
    twin
        Makes one that does the same in an honest way.
    walls
        Whether the walls of a session hold it: nothing private is reached that was not paid for.
    slow
        Whether its check takes long to find it.
    name
        What tells it from the others.
    """

    make: Callable[[], Plugin]
    check: str
    session: str
    twin: Callable[[], Plugin] = Honest
    walls: bool = True
    slow: bool = field(default=False, kw_only=True)
    name: str = field(default="", kw_only=True)

    @property
    def called(self) -> str:
        """Its name: that of its class, if it has none."""
        return self.name or type(self.make()).__name__

    @property
    def deed(self) -> str:
        """What it does, in a sentence."""
        return (inspect.getdoc(type(self.make())) or "").partition("\n")[0]


_PAID = "Charges every run, and shows it in the receipt."
_OVER = "Refuses it: a kernel whose question is over is closed (`Closed`)."
_REFUSED = "Has charged nothing for the answer, and reads nothing for it."
_TOLD = "Charges and adds noise as ever. It cannot know what the plugin says of that."
_UNFIT = "Charges it, and refuses what does not fit its question (`MeasurementRefused`)."
_WALK = "**Cannot hold it**: code in the same process can walk memory and frames."
_PATCH = "**Cannot hold it**: code in the same process can change what runs in it."
_SHARED = "Charges what is measured. What a class keeps between sessions it cannot see."
_FREE = "Has charged for what was measured. What is made of that later is free."

MECHANISMS: tuple[Cheat, ...] = (
    Cheat(pay.Gratis, "quote-covers", _PAID),
    Cheat(pay.Admission, "quote-covers", _PAID, lambda: pay.Admission(told=True)),
    Cheat(pay.Reentrant, "quote-covers", "Charges both questions, each in its own receipt."),
    Cheat(tell.Inside, "pays-first", _WALK, walls=False),
    Cheat(pay.Swallowing, "refusal-changes-nothing", _REFUSED),
    Cheat(pay.Recalling, "refusal-changes-nothing", _REFUSED),
    Cheat(pay.HalfPaid, "refused-whole", "Names in the error what was charged.", pay.Both),
    Cheat(tell.Failing, "replays", _WALK, walls=False),
    Cheat(tell.Assured, "audit", _WALK, walls=False),
    Cheat(keep.Confusing, "threads", _TOLD),
    Cheat(pay.Insisting, "interrupts", _PAID),
    Cheat(pay.Deaf, "interrupts", _PAID),
    Cheat(keep.Stashing, "keeps-no-kernel", _OVER),
    Cheat(keep.Borrowing, "takes-in", _TOLD, keep.Weighing),
    Cheat(keep.Scribbling, "takes-in", "Hands it a form of its own, which nobody else is asked."),
    Cheat(keep.Pooling, "keeps-nothing", _SHARED),
    Cheat(tell.Expensive, "randomness", _PAID),
    Cheat(tell.Library, "randomness", _PAID),
    Cheat(keep.Counting, "frozen", _TOLD),
    Cheat(keep.Thawed, "quotes-alike", _PAID),
    Cheat(keep.Averaging, "bounds-cover", _FREE, keep.Repeating, slow=True),
    Cheat(say.Boasting, "bounds-cover", _TOLD),
    *(
        Cheat(
            lambda way=way: say.Shaped(way=way),
            "types-and-shapes",
            _TOLD if way == "no numbers" else _UNFIT,
            say.Shaped,
            name=f"Shaped, {way}",
        )
        for way in say.SHAPES
        if way != "plain"
    ),
    Cheat(say.Bare, "types-and-shapes", _UNFIT),
    Cheat(say.Rounded, "written-form", _TOLD, say.Written),
    Cheat(say.Nameless, "metadata", _TOLD),
    Cheat(say.Crashing, "typed-refusals", _TOLD, say.Choosy),
)

_PUBLIC = "Hands it numbers that were paid for, and public facts."

QUERIES: tuple[Cheat, ...] = (
    Cheat(ask.Wavering, "lowers-alike", "Prices and reads one copy of each form.", ask.Slope),
    Cheat(ask.closing, "reads-nothing", "Charges whatever it asks.", ask.Slope),
    Cheat(ask.Loose, "takes-in", "Prices and reads one copy of each form.", ask.Slope),
    Cheat(ask.Clinging, "takes-in", _PUBLIC, ask.Slope),
    Cheat(ask.Scrawling, "lifts", _PUBLIC, ask.Slope),
    Cheat(ask.Changeling, "lifts", _PUBLIC, ask.Slope),
    Cheat(ask.Squared, "spreads", _PUBLIC, ask.Slope),
    Cheat(lambda: ask.Coarse(weights=ask.OTHER), "written-form", _PUBLIC, ask.fine),
    Cheat(ask.Rough, "typed-refusals", "Has charged nothing yet.", ask.Slope),
    Cheat(ask.Loud, "described", "Shows its text as it is, up to 1,000 characters.", ask.Slope),
)

TWINS: dict[str, Callable[[], Plugin]] = {
    type(cheat.twin()).__name__: cheat.twin for cheat in (*MECHANISMS, *QUERIES)
}
"""The honest ones, by the names of their classes."""


def table(cheats: tuple[Cheat, ...]) -> str:
    """The cheats as the page of the documentation has them."""
    head = ["| cheat | what a session does | found by |", "|---|---|---|"]
    rows = [f"| `{one.called}`: {one.deed} | {one.session} | `{one.check}` |" for one in cheats]
    return "\n".join([*head, *rows])
