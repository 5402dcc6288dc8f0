"""A kernel whose charges, reads and draws are written down in order."""

import dpsdk.kernel.access as access
from dpsdk import Budget
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.kernel import Kernel
from dpsdk.noise import NoiseSource
from dpsdk.testing.noise import seeded


class Diary(NoiseSource):
    """Writes its draws down, and fails at the draw whose turn it is told."""

    private = False

    def __init__(self, happened):
        self.happened = happened
        self.source = seeded(4)
        self.fails_at = None
        self.raises = ValueError

    def _bits(self, count):
        return self.source._bits(count)

    def draw(self, law, size):
        if self.fails_at is not None:
            self.fails_at -= 1
            if self.fails_at < 0:
                self.fails_at = None
                raise self.raises("the count of row 7 is 271828")
        self.happened.append(("draw", law, size))
        return self.source.draw(law, size)


class World:
    """A kernel over one table, and what happened to it."""

    def __init__(self, monkeypatch, data, epsilon, observer=None):
        self.happened, self.data = [], data
        self.odometer = Odometer(Budget(epsilon), BasicComposition())
        charge = self.noted("charge", self.odometer.charge_all)
        monkeypatch.setattr(self.odometer, "charge_all", charge)
        real = getattr(access.open_histogram, "real", access.open_histogram)
        opening = self.noted("open", real)
        opening.real = real
        monkeypatch.setattr(access, "open_histogram", opening)
        self.noise = Diary(self.happened)
        self.kernel = Kernel(data, self.odometer, self.noise, "test", observer)

    def noted(self, what, call):
        def wrapper(*given, **named):
            result = call(*given, **named)
            self.happened.append((what,))
            return result

        return wrapper

    def did(self):
        """The kinds of what happened since the last time."""
        done = [step[0] for step in self.happened]
        self.happened.clear()
        return done

    @property
    def books(self):
        return self.odometer.spent, self.odometer.state, self.odometer.charges
