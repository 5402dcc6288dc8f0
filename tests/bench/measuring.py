"""What benchmarks share: command lines, times, memory, coded tables and pictures."""

import argparse
import csv
import gzip
import resource
import statistics
import time
from pathlib import Path

import numpy as np

from dpsdk import Domain, Integer

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def arguments(doc, *places, **options):
    """The command line: paths in their order, and options, whose defaults say their types.

    A class stands for an option that has no default, a list for several values, a tuple for some of
    these, and False for a flag.
    """
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=layout)
    for name in places:
        parser.add_argument(name, type=Path)
    for name, default in options.items():
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(flag, type=default)
        elif isinstance(default, tuple):
            parser.add_argument(flag, nargs="+", choices=default, default=default)
        elif isinstance(default, list):
            kind = type(default[0]) if default else str
            parser.add_argument(flag, nargs="*", type=kind, default=default)
        else:
            parser.add_argument(flag, type=type(default), default=default)
    return parser.parse_args()


def title(text):
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def timed(call, clock=time.perf_counter):
    """Seconds of one call."""
    start = clock()
    call()
    return clock() - start


def medians(rounds, *calls, clock=time.perf_counter):
    """Seconds of each call: medians over rounds, in which the calls take turns."""
    times = [[timed(call, clock) for call in calls] for _ in range(rounds)]
    return [statistics.median(each) for each in zip(*times, strict=True)]


def peak():
    """The most memory that this process has taken so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def coded(path):
    """The columns of a text file with a header and one row of codes a record, by name."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, np.array(rows, dtype=np.int64).T, strict=True))


def example():
    """The columns of docs/examples/adult.csv.gz as texts, by name."""
    with gzip.open(EXAMPLES / "adult.csv.gz", "rt", newline="") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, zip(*rows, strict=True), strict=True))


def integers(sizes):
    """A domain of codes, of so many for each name."""
    return Domain(*(Integer(name, 0, int(size) - 1) for name, size in sizes.items()))


def histograms(folder):
    """The arrays of counts in a folder such as dpbench-1d, with their names."""
    for path in sorted(folder.glob("*.npy")):
        yield path.stem, np.load(path, allow_pickle=False).astype(np.int64).reshape(-1)


def pyplot():
    """Matplotlib without a screen, in which equal pictures are equal files."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "dpsdk", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    return plt


def draw(panels, along, path, styles):
    """Largest and mean errors, a row of pictures for each panel."""
    plt = pyplot()
    height = 2.7 * len(panels) + 0.6
    figure, axes = plt.subplots(len(panels), 2, figsize=(8, height), squeeze=False, sharex=True)
    for row, (name, curves) in zip(axes, panels.items(), strict=True):
        for axis, measure in zip(row, ("largest", "mean"), strict=True):
            for rival, points in curves.items():
                places, errors = zip(
                    *[(k, getattr(one, measure)) for k, one in points], strict=True
                )
                colour, line = styles[rival]
                axis.loglog(places, errors, color=colour, ls=line, label=rival, marker=".")
            axis.set_title(f"{measure} error, {name}", fontsize=9)
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel(along)
    save(figure, path, axes[0][0], columns=4, room=0.65 / height)
    plt.close(figure)


def save(figure, path, axis=None, columns=1, room=0.0):
    """Write a picture, with one legend for all of it below in so much room."""
    if axis is not None:
        handles, labels = axis.get_legend_handles_labels()
        given = {"ncols": columns, "frameon": False, "fontsize": 8}
        figure.legend(handles, labels, loc="lower center", **given)
    figure.tight_layout(rect=(0, room, 1, 1))
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    print(f"\nwrote {path}")
