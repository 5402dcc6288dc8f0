"""Answers as a ledger keeps them for requests that are tried again: released numbers, and no more.

The accuracy of an answer is kept where it has a written form; other accuracies are not, and a
repeated answer says so.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

from dpsdk._checks import cut, shown
from dpsdk._records import evolve, frozen
from dpsdk.accounting import Charge, Odometer
from dpsdk.accuracy import ACCURACY, Accuracy, NoAccuracy
from dpsdk.codec import (
    PACKED_FLOATS,
    TEXT,
    Choice,
    canonical,
    from_plain,
    is_record,
    parsed,
    renewed,
    to_plain,
    written,
)
from dpsdk.errors import DpsdkError, InvalidArgument, LedgerDamaged, WireError
from dpsdk.kernel.trust import named
from dpsdk.release import Cost, Measurement, Source
from dpsdk.typing import Floats

__all__ = ["Request"]

_SCALE = 1 << 7
"""Stored answers are longer than texts of strangers, by up to so many times."""

_LONGEST = 200
"""So many characters of a question are told where it is not the one that was asked before."""

_NOT_KEPT = NoAccuracy(
    "the answer is a stored one, and what it rests on was not stored with it",
    "keep the bound of the first release",
)


def _wrong(answer: StoredAnswer) -> str:
    alike = answer.accuracy.entries in (None, len(answer.numbers))
    return "" if alike else "an accuracy of as many numbers"


@written(
    "stored",
    {
        "question": TEXT,
        "numbers": PACKED_FLOATS,
        "source": Choice[Source](*get_args(Source)),
        "accuracy": ACCURACY,
    },
    wrong=_wrong,
    public=False,
)
@frozen(eq=False)
class StoredAnswer:
    """An answer as a ledger keeps it for a request."""

    question: str
    numbers: Floats
    source: Source
    accuracy: Accuracy


class Request(NamedTuple):
    """A question under a name, to be charged and answered once.

    Parameters
    ----------
    name
        Names it, for all sessions on a ledger.
    question
        Tells the question from others: by table, kind of noise, mechanism, query and the numbers
        of its form.
    payer
        Whose ledger keeps the answer.
    told
        The question in words: the query, and by which mechanism.
    """

    name: str
    question: str
    payer: Odometer
    told: str = ""

    def stored(self) -> Measurement | None:
        """The stored answer; None if there is none.

        Raises
        ------
        InvalidArgument
            If it is the answer to another question.
        LedgerDamaged
            If it is no answer.
        """
        found = self.payer.stored(self.name)
        if found is None:
            return None
        from dpsdk.mechanisms import BUILT_IN  # noqa: PLC0415  # all of them load

        del BUILT_IN  # whose accuracies can be read now
        try:
            plain = parsed(found, scale=_SCALE)
            old = is_record(plain)
            answer = from_plain(StoredAnswer, renewed(plain) if old else plain)
        except WireError as error:
            why = f"what is stored for request {self.name!r} is no answer"
            raise LedgerDamaged("of the session", why) from error
        # dpsdk 0.1 told questions apart by other digests; of its answers the words have to do.
        if answer.question != self.question and not (old and self._before() == self.told):
            expected = "the name of no other question, mechanism, table or kind of noise"
            raise InvalidArgument("request_id", expected, f"{shown(self.name)}, {self._differs()}")
        return Measurement(answer.numbers, answer.accuracy, answer.source)

    def kept(self, measurement: Measurement) -> Measurement:
        """Store an answer before anybody sees it; the one that was stored before, if one was.

        Raises as `stored` does, and if the ledger cannot keep it.
        """
        values, source = measurement.values, measurement.source
        try:
            # The first answer has the accuracy that later ones will have.
            given = evolve(measurement, accuracy=measurement.accuracy.computed())
            plain = to_plain(StoredAnswer(self.question, values, source, given.accuracy))
        except DpsdkError:
            given = measurement
            plain = to_plain(StoredAnswer(self.question, values, source, _NOT_KEPT))
        text = canonical(plain)
        try:
            self.payer.store(self.name, text)
        except InvalidArgument:
            # Free answers are charged to nobody, and so another may have been first.
            known = self.stored()
            if known is None:
                raise
            return known
        return given

    def _differs(self) -> str:
        """How the question differs from that of the stored answer, as far as the ledger knows."""
        charges, this = self.charges(), f"this asks for {cut(self.told, _LONGEST)}"
        if not charges:
            return f"which has an answer that was free; {this}"
        first = charges[0]
        before = self._before()
        cost = cut(str(Cost([one.guarantee for one in charges])), _LONGEST)
        scope = f" in scope {shown(first.scope)}" if first.scope else ""
        known = f"which has the answer to {cut(before, _LONGEST)}{scope}, for {cost}"
        if before == self.told:
            return f"{known}, of another table, another kind of noise or other numbers"
        return f"{known}; {this}"

    def _before(self) -> str:
        """The charges of the request, in words; empty if there were none."""
        first = next(iter(self.charges()), None)
        return "" if first is None else f"{first.label} by {named(first.mechanism)[0]}"

    def charges(self) -> tuple[Charge, ...]:
        """All that was charged for the question to which the stored answer belongs."""
        charges = self.payer.ledger_charges()
        first = next((one for one in charges if one.request_id == self.name), None)
        if first is None:
            return ()
        asked = first.session, first.question
        return tuple([one for one in charges if (one.session, one.question) == asked])
