"""What an opening that was ended early leaves behind."""

from __future__ import annotations

from attrs import define

from dpsdk.errors import DpsdkError
from dpsdk.mechanisms.base import WhyStopped
from dpsdk.release import Cost
from dpsdk.session.channel import DistributionChannel

__all__ = ["Stopped"]


@define(str=False, eq=False)
class Stopped(DpsdkError):
    """An opening ended before its work was done. What was paid is not lost.

    Parameters
    ----------
    channel
        Open, and answers from what was learnt so far; close it, or use it in a `with`.
    paid
        What the opening was charged so far, which stays charged.
    why
        What ended it: "stop", "interrupt" or "budget".
    """

    channel: DistributionChannel
    paid: Cost
    why: WhyStopped

    def __str__(self) -> str:
        return f"{self.channel!r} was ended early ({self.why}) at a cost of {self.paid}"
