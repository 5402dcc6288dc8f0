"""Releases to draw, with whatever accuracy is wanted, and what is found in a picture."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from dpsdk import Budget, Categorical, Domain, Integer, PrivateData, Session
from dpsdk.queries import Threshold, Workload
from dpsdk.release import Cost, HalfWidths, Measurement, Release, Standing
from dpsdk.testing import seeded

PEOPLE = Domain(Integer("age", 20, 25), Categorical("sex", ["F", "M"]))


def session_of(domain: Domain = PEOPLE, *, private: bool = True) -> Session:
    """A session over a table of ten rows, all in the first cell."""
    columns = {one.name: [one.label(0)] * 10 for one in map(domain.__getitem__, domain.names)}
    data = PrivateData.from_columns(columns, domain, name="people")
    return Session(data, Budget(10, "1e-6"), noise=None if private else seeded(1))


@frozen
class Widths(HalfWidths):
    """Half-widths that a test wants, in rows: all at once, and each by itself."""

    joint: tuple[float, ...]
    each: tuple[float, ...] = ()
    standing: Standing = "proven"
    kind: str = field(default="a test", init=False)

    def radii(self, beta, *, joint):
        return np.array(self.joint if joint else self.each or self.joint)


def made(query, raw, accuracy, domain=PEOPLE, *, private=True, cost=None) -> Release:
    """A release of raw numbers that a test wants."""
    session = session_of(domain)
    values = np.array(raw, dtype=np.float64)
    return Release(
        query.lift(values, session.facts),
        str(query),
        "Test()",
        Cost() if cost is None else cost,
        "measured",
        private,
        Measurement(values, accuracy),
        query,
        session.facts,
        query,
    )


def ages(*thresholds: float) -> Workload[float]:
    """All thresholds of the ages, or some."""
    return Workload(Threshold("age", t) for t in thresholds or range(20, 26))


def artists(figure, label):
    """All that a picture has under a label."""
    found = [one for axes in figure.axes for one in axes.get_children()]
    return [one for one in found if one.get_label() == label]


def segments(figure):
    """The ends of all bars, at their places: place, low, high."""
    [lines] = artists(figure, "interval")
    found = np.array(lines.get_segments())
    fixed = 0 if np.ptp(found[:, :, 0], axis=1).max() == 0 else 1
    return found[:, 0, fixed], found[:, 0, 1 - fixed], found[:, 1, 1 - fixed]


def values(figure, axis):
    """The released numbers along an axis."""
    [marks] = artists(figure, "value")
    return np.asarray(marks.get_xdata() if axis == "x" else marks.get_ydata(), dtype=float)


def drawn(figure):
    """Draw it, with all warnings errors; the pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def texts(figure):
    """All texts that are shown."""
    return [one.get_text() for one in figure.findobj(Text) if one.get_text()]
