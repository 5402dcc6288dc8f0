"""The plugins that err, what a session does with each, and the check of the kits that finds it.

The page "Plugins that err" of the documentation has these as a table.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import erring_costs as costs
import erring_queries as asked
import erring_values as values
from attrs import field, frozen
from erring_base import Honest

from dpsdk.mechanisms import Mechanism
from dpsdk.queries import Query
from dpsdk.wire import Catalogue

__all__ = ["CATALOGUE", "MECHANISMS", "QUERIES", "TWINS", "Mistake", "table"]

Plugin: TypeAlias = "Mechanism[Any] | Query[Any, Any]"

CATALOGUE = Catalogue.shipped().plus(*values.KINDS).plus(*asked.KINDS)
"""With the kinds of those that have a written form."""


@frozen
class Mistake:
    """A plugin that errs, and the check that is named for it."""

    make: Callable[[], Plugin]
    check: str
    session: str
    """What a session does with it."""
    twin: Callable[[], Plugin] = Honest
    """Makes one that does the same in a sound way."""
    walls: bool = True
    """Whether the walls of a session hold it: nothing private is reached that was not paid for."""
    slow: bool = field(default=False, kw_only=True)
    """Whether its check takes long to find it."""
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
_WALK = "**Cannot hold it**: code in the same process reaches what the package keeps to itself."
_SHARED = "Charges what is measured. What a class keeps between sessions it cannot see."
_FREE = "Has charged for what was measured. What is made of that later is free."

MECHANISMS: tuple[Mistake, ...] = (
    Mistake(costs.Gratis, "quote-covers", _PAID),
    Mistake(costs.Admission, "quote-covers", _PAID, lambda: costs.Admission(told=True)),
    Mistake(costs.Inside, "pays-first", _WALK, walls=False),
    Mistake(costs.Swallowing, "refusal-changes-nothing", _REFUSED),
    Mistake(costs.Recalling, "refusal-changes-nothing", _REFUSED),
    Mistake(costs.HalfPaid, "refused-whole", "Names in the error what was charged.", costs.Both),
    Mistake(costs.Failing, "replays", _WALK, walls=False),
    Mistake(costs.Assured, "audit", _WALK, walls=False),
    Mistake(values.Confusing, "threads", _TOLD),
    Mistake(costs.Insisting, "interrupts", _PAID),
    Mistake(costs.Deaf, "interrupts", _PAID),
    Mistake(values.Stashing, "keeps-no-kernel", _OVER),
    Mistake(values.Borrowing, "takes-in", _TOLD, values.Weighing),
    Mistake(values.Pooling, "keeps-nothing", _SHARED),
    Mistake(costs.Expensive, "randomness", _PAID),
    Mistake(costs.Library, "randomness", _PAID),
    Mistake(values.Counting, "frozen", _TOLD),
    Mistake(values.Thawed, "quotes-alike", _PAID),
    Mistake(values.Averaging, "bounds-cover", _FREE, values.Repeating, slow=True),
    Mistake(values.Boasting, "bounds-cover", _TOLD),
    *(
        Mistake(
            lambda way=way: values.Shaped(way=way),
            "types-and-shapes",
            _TOLD if way == "no numbers" else _UNFIT,
            values.Shaped,
            name=f"Shaped, {way}",
        )
        for way in values.SHAPES
        if way != "plain"
    ),
    Mistake(values.Bare, "types-and-shapes", _UNFIT),
    Mistake(values.Rounded, "written-form", _TOLD, values.Written),
    Mistake(values.Nameless, "metadata", _TOLD),
    Mistake(values.Crashing, "typed-refusals", _TOLD, values.Choosy),
)

_PUBLIC = "Hands it numbers that were paid for, and public facts."

QUERIES: tuple[Mistake, ...] = (
    Mistake(asked.Wavering, "lowers-alike", "Prices and reads one copy of each form.", asked.Slope),
    Mistake(asked.closing, "reads-nothing", "Charges whatever it asks.", asked.Slope),
    Mistake(asked.Loose, "takes-in", "Prices and reads one copy of each form.", asked.Slope),
    Mistake(asked.Clinging, "takes-in", _PUBLIC, asked.Slope),
    Mistake(asked.Scrawling, "lifts", _PUBLIC, asked.Slope),
    Mistake(asked.Changeling, "lifts", _PUBLIC, asked.Slope),
    Mistake(asked.Squared, "spreads", _PUBLIC, asked.Slope),
    Mistake(lambda: asked.Coarse(weights=asked.OTHER), "written-form", _PUBLIC, asked.fine),
    Mistake(asked.Rough, "typed-refusals", "Has charged nothing yet.", asked.Slope),
    Mistake(
        asked.Loud, "described", "Shows its text as it is, up to 1,000 characters.", asked.Slope
    ),
)

TWINS: dict[str, Callable[[], Plugin]] = {
    type(one.twin()).__name__: one.twin for one in (*MECHANISMS, *QUERIES)
}
"""The sound ones, by the names of their classes."""


def table(mistakes: tuple[Mistake, ...]) -> str:
    """The mistakes as the page of the documentation has them."""
    head = ["| plugin | what a session does | found by |", "|---|---|---|"]
    rows = [f"| `{one.called}`: {one.deed} | {one.session} | `{one.check}` |" for one in mistakes]
    return "\n".join([*head, *rows])
