"""What all streams over a moving hypothesis hold: a public distribution behind a watch."""

from __future__ import annotations

from dpsdk._locks import ExclusiveLock
from dpsdk.hypothesis import Hypothesis
from dpsdk.kernel import Allowance, Kernel, Watching

__all__ = ["Stream"]


class Stream:
    """A public hypothesis, and the kernel's watch that finds where a table disagrees with it.

    Calls take turns. Runs of the watch come out of `allowance` first, if one is given.
    """

    def __init__(
        self,
        kernel: Kernel,
        watching: Watching,
        hypothesis: Hypothesis,
        allowance: Allowance | None = None,
    ) -> None:
        self._facts = kernel.facts
        self._hypothesis = hypothesis
        self._allowance = allowance
        self._watch = kernel.watch(watching, allowance=allowance)
        self._spent = False
        self._lock = ExclusiveLock("an online hypothesis")

    @property
    def distribution(self) -> Hypothesis:
        """The same as `hypothesis`."""
        return self.hypothesis

    @property
    def hypothesis(self) -> Hypothesis:
        """The public distribution as it stands; a copy, which later answers do not change."""
        return self._lock.run(self._hypothesis.copy)

    @property
    def updates(self) -> int:
        """How many answers the hypothesis has learnt from so far."""
        return self._watch.tops
