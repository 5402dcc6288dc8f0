"""Find privacy bugs: exact enumeration, record and replay, and statistical tests.

An audit runs production code. It takes a *program*, a function of a private table and a source of
noise that returns something hashable, and compares what it does on neighbouring tables:

- `enumerate_law` branches over every draw, so it knows the exact law of the outcome on a tiny
  table; `audit` takes the worst case over all neighbours and holds it against a guarantee.
- `record` and `replay` run a program on a neighbour with the same noise and compare what it
  drew, charged, logged and raised.
- `sample` draws outcomes and tests the guarantee's own trade-off curve with exact confidence
  bounds, for programs that are too large to enumerate.

`program` makes one from a mechanism and a query. None of these can prove a guarantee: they look
for a counterexample, exactly where they enumerate, with a stated confidence where they sample.
"""

from dpsdk.testing.audit.enumeration import (
    BranchingNoise,
    Law,
    enumerate_law,
)
from dpsdk.testing.audit.neighbours import neighbours, tables
from dpsdk.testing.audit.programs import Program, program
from dpsdk.testing.audit.replay import Difference, Trace, record, replay
from dpsdk.testing.audit.sampling import Batch, SamplingReport, sample, sample_batches
from dpsdk.testing.audit.worst_case import WorstCase, audit, delta_at, worst_epsilon

__all__ = [
    "Batch",
    "BranchingNoise",
    "Difference",
    "Law",
    "Program",
    "WorstCase",
    "SamplingReport",
    "Trace",
    "audit",
    "delta_at",
    "enumerate_law",
    "neighbours",
    "program",
    "record",
    "replay",
    "sample",
    "sample_batches",
    "tables",
    "worst_epsilon",
]
