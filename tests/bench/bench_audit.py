"""Print what the exact audit finds: every mechanism's worst case, and every canary's.

Run with: python tests/bench/bench_audit.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))

from canaries import TWINS
from registry import CASES

import dpsdk.kernel.lattice as lattice
from dpsdk import Neighbors
from dpsdk.testing.audit import audit, neighbours, replay

finest = lattice._FINEST


def mechanisms() -> None:
    print(f"{'mechanism':24} {'relation':12} {'claimed':>10} {'worst found':>12} {'ratio':>7} "
          f"{'pairs':>6} {'paths':>8} {'s':>6}")  # fmt: skip
    for case in CASES:
        for relation in Neighbors:
            if (
                case.name in ("Laplace, mean", "one round of PMW")
                and relation is Neighbors.ADD_REMOVE
            ):
                continue
            for parameter in case.parameters:
                bits = finest if case.lattice is None else case.lattice
                lattice._FINEST = bits
                pairs = neighbours(case.domain, case.rows, relation)
                report = audit(case.build(parameter), pairs, case.claim(parameter))
                claimed = f"{report.quantity} {report.allowed:g}"
                print(
                    f"{case.name:24} {relation.value:12} {claimed:>10} {report.figure:12.9f} "
                    f"{report.figure / report.allowed:7.4f} {report.pairs:6} {report.paths:8} "
                    f"{report.seconds:6.2f}{'' if report.passed else '  EXCEEDED'}"
                )
    lattice._FINEST = finest


def canaries() -> None:
    print(f"\n{'canary':74} {'claimed':>10} {'worst found':>12}  verdict")
    for twin in TWINS:
        programs = {"(correct)": twin.program, **twin.canaries}
        for name, broken in programs.items():
            label = f"{twin.name}: {name}"
            if twin.layer == "G":
                caught = any(replay(broken, one, other)[0] for one, other in twin.pairs())
                print(f"{label:74} {'trace':>10} {'':>12}  {'caught' if caught else 'passes'}")
                continue
            report = audit(broken, twin.pairs(), twin.claim)
            claimed = f"{report.quantity} {report.allowed:.4g}"
            verdict = "passes" if report.passed else "caught"
            print(f"{label:74} {claimed:>10} {report.figure:12.6f}  {verdict}")


if __name__ == "__main__":
    mechanisms()
    canaries()
