"""How values of this distribution are written: under its name."""

from __future__ import annotations

from acme_dp.median import Median
from acme_dp.records import NoisyRecords
from acme_dp.repeated import Repeated
from dpsdk.wire import AMOUNT, NAME, POSITIVE, Kind, Member

__all__ = ["MIDDLE", "NOISY_RECORDS", "REPEATED"]

MIDDLE = Kind(Median, "acme-dp:middle", {"attribute": NAME})
NOISY_RECORDS = Kind(NoisyRecords, "acme-dp:noisy-records", {"epsilon": AMOUNT})
REPEATED = Kind(Repeated, "acme-dp:repeated", {"epsilon": AMOUNT, "times": Member(POSITIVE, 3)})
