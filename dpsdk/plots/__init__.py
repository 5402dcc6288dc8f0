"""Pictures of what was released, planned, spent and found, for people.

Each is one call that gives a `matplotlib.figure.Figure`; the extra `plots` installs matplotlib.
`pyplot` has no part in it, so that nothing has to be closed and threads do not meet. With `ax=`,
axes of a figure of your own, a picture is drawn into these, and their figure is given.

Pictures are made of what is public already. They show numbers as they were released, also those
below nought, and say on what their bars rest, what was paid, and if seeded noise was used. They
follow the style in use, such as `matplotlib.style.context("dark_background")`, and colours differ
in lightness. Labels are drawn letter by letter: nothing in them is read as a formula.
`alternative` gives a picture in words, and notebooks show it with that text.

Every call raises `InvalidArgument` if an argument is something else than it says, and
`MissingExtra` if matplotlib is missing.
"""

from dpsdk.plots._inputs import alternative
from dpsdk.plots.accounts import budget
from dpsdk.plots.audits import audit
from dpsdk.plots.curves import cdf, stream
from dpsdk.plots.models import coefficients
from dpsdk.plots.plans import plan
from dpsdk.plots.tables import heatmap, marginal

__all__ = [
    "alternative",
    "audit",
    "budget",
    "cdf",
    "coefficients",
    "heatmap",
    "marginal",
    "plan",
    "stream",
]
