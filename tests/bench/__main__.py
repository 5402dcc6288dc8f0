"""All benchmarks by one command, with a file of what they printed and a page to read it on.

    python tests/bench [--full] [--only NAME ...] [--data FOLDER] [--peers FOLDER] [--to FOLDER]

By default each is run as small as it still tells something, all in about five minutes; --full takes
hours. NAME is that of a program, as `dashboard`. A FOLDER of data has the public tables, as
public_tables.py says: what needs one of them is left out without. A FOLDER of peers has, or is
given now by pip, an environment for each of the other packages; without it they are left out, and
so is each that cannot be installed. `results.json` and `page.md` are written to a FOLDER, by
default `bench-results`, after each program. Names and versions of all that took part are in both.
"""

import importlib.metadata
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
import venv
from datetime import UTC, datetime
from pathlib import Path

from attrs import asdict, field, frozen
from measuring import arguments

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

PACKAGES = ("dpsdk", "numpy", "scipy", "attrs", "opendp", "dp-accounting", "polars", "duckdb")
"""What may take part in the environment of a benchmark itself."""

PEERS = {
    "diffprivlib": (
        ["numpy==1.26.4", "scipy==1.12.0", "scikit-learn==1.4.2", "joblib"],
        ["--no-deps", "diffprivlib==0.6.6"],
    ),
    "smartnoise-synth": (["smartnoise-synth"],),
    "accounting": (["-e", str(ROOT), "dp-accounting>=0.4.4", "opendp"],),
}
"""What pip is told, one call after the other, for each environment beside this one."""


@frozen
class Benchmark:
    """One program: what it is given when it is to be quick, and when it may take its time.

    Words in braces are places: those of tables, and the Python of a peer's environment.
    """

    name: str
    quick: str = ""
    full: str = ""
    data: str = ""
    peer: str = ""
    python: str = ""

    def words(self, places, full):
        """The command line; None where what it needs is not there."""
        # Data first, since an option that takes several words would take these as well.
        told = [self.data, self.full if full else self.quick]
        if self.peer and any(key in self.peer and key in places for key in PEERS):
            told.append(self.peer)
        try:
            words = " ".join(told).format_map(places).split()
        except KeyError:
            return None
        return [
            places.get(self.python, sys.executable),
            str(HERE / f"bench_{self.name}.py"),
            *words,
        ]


BENCHMARKS = (
    Benchmark("session", "--queries 1000 --workload 5000"),
    Benchmark("accounting", "--charges 10000", python="accounting"),
    Benchmark("ledger", "--seconds 0.5 --charges 5000"),
    Benchmark("noise", "--size 100000 --rounds 3 --calls 5000"),
    Benchmark("loading", "--rows 200000"),
    Benchmark("running_sums", "--days 60 --nights 60 --seeds 1"),
    Benchmark("hypothesis", "--bits 16 20"),
    Benchmark("rectangles", "--quick --objects 200"),
    Benchmark("dashboard", "--questions 3000"),
    Benchmark("pmw", "--quick"),
    Benchmark("mwem", "--epsilon 1 --seeds 1", data="--adult {adult}",
              peer="--peer smartnoise-mst={smartnoise-synth}"),
    Benchmark("marginals", "--epsilon 1 --methods LocalMarginals --only adult-2 p17",
              data="--adult {adult} --domain {adult-domain}"),
    Benchmark("matrix", "--runs 2 --cells 1024"),
    Benchmark("smalldb", "--quick --errors"),
    Benchmark("thresholds", "--runs 3", data="{dpbench-1d}"),
    Benchmark("hlm", "--epsilon 1 --seeds 5", data="{hlm12-tables}"),
    Benchmark("convex", "--rounds 1 --largest 16000"),
    Benchmark("convex_pmw", "--seeds 1 --queries 10"),
    Benchmark("models", "--seeds 1 --epsilon 1",
              data="--adult {adult} --wine {wine} --ionosphere {ionosphere}",
              peer="--peer {diffprivlib}"),
    Benchmark("classes", "--seeds 1 --epsilon 1 --only titanic", data="{data}"),
    Benchmark("pure_models", "--seeds 1 --epsilon 1", data="{data}"),
    Benchmark("heldout", "--seeds 1 --epsilon 1 --only titanic wine", data="{data}",
              peer="--peer {diffprivlib}"),
    Benchmark("predictions", "--seeds 1 --epsilon 1 --only titanic rare", data="{data}"),
    Benchmark("many_models", "--models 1 10 100 --each 100", data="--adult {adult}"),
    Benchmark("wide_models", "--only titanic --epsilon 1 --seeds 1 --each 3 --models 1 5",
              data="{data}"),
    Benchmark("wide_queries", "--queries 20000 --table adult --kind rectangles", "--seeds 5",
              data="--adult {adult} --domain {adult-domain}"),
    Benchmark("crossovers", "--seeds 1 --only few"),
    Benchmark("planner", "--held-out --settings 1 --tables 6", data="{data}"),
)  # fmt: skip

TABLES = {
    "adult": "adult/adult.csv",
    "adult-domain": "adult/adult-domain.json",
    "wine": "wine-quality-white/winequality-white.csv",
    "ionosphere": "ionosphere/ionosphere.csv",
    "dpbench-1d": "dpbench-1d",
    "hlm12-tables": "hlm12-tables",
}


@frozen
class Result:
    """What one program printed, and what it took; times are of a machine that others may use."""

    name: str
    command: list[str]
    ended: int
    seconds: float
    cpu_seconds: float
    lines: list[str]
    error: list[str] = field(factory=list)

    @property
    def heading(self):
        """The first words of what the program is for."""
        text = (HERE / f"bench_{self.name}.py").read_text("utf-8")
        found = re.match(r'"""(.+?)(?:\n\n|""")', text, re.DOTALL)
        return " ".join(found.group(1).split()) if found else self.name


def run(name, command, limit):
    """Run one program to its end, or to the limit of its seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # An environment of peers may have been made from another checkout than this one.
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=limit, env=environment,
            cwd=ROOT,
        )  # fmt: skip
        ended, out, wrong = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        ended, wrong = 1, f"stopped after {limit} s"
        out = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = sum(getattr(after, key) - getattr(before, key) for key in ("ru_utime", "ru_stime"))
    shown = [word.replace(str(ROOT), ".") for word in command]
    seconds, lines = time.perf_counter() - start, out.rstrip().splitlines()
    error = wrong.strip().splitlines()[-3:] if ended else []
    return Result(name, shown, ended, round(seconds, 1), round(cpu, 1), lines, error)


def places_of(data, peers):
    """Where the tables and the Pythons of the peers are, as far as there are any."""
    places = {}
    if data is not None:
        found = {name: data / path for name, path in TABLES.items()} | {"data": data}
        places |= {name: str(path.resolve()) for name, path in found.items() if path.exists()}
    for name, calls in PEERS.items() if peers is not None else ():
        python = peers.resolve() / name / "bin" / "python"
        if not python.exists():
            venv.create(python.parents[1], with_pip=True, clear=True)
            try:
                for words in calls:
                    pip = [python, "-m", "pip", "install", "--quiet", *words]
                    subprocess.run(pip, check=True, capture_output=True, text=True)
            except subprocess.CalledProcessError as failed:
                print(f"without {name}: {failed.stderr.strip().splitlines()[-1]}", flush=True)
                python.unlink()
                continue
        places[name] = str(python)
    return places


def versions(places):
    """What took part: this machine, and the packages here and in the environments of peers."""
    told = {
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        try:
            told[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    for name in PEERS:
        if name in places:
            words = [places[name], "-m", "pip", "list", "--format", "freeze"]
            listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            of = {"accounting": ("dp-accounting", "opendp")}.get(name, (name, "numpy"))
            told[f"beside: {name}"] = ", ".join(
                line for line in listed.split() if line.split("==")[0] in of
            )
    return told


def page(told, results, left_out):
    """What was printed, program by program, to be read as a page."""
    lines = ["# Benchmarks", "", *(f"- {name}: {version}" for name, version in told.items()), ""]
    lines += ["| program | s | CPU s | ended |", "|---|---|---|---|"]
    lines += [
        f"| [{one.name}](#{one.name.replace('_', '-')}) | {one.seconds} | {one.cpu_seconds} "
        f"| {'well' if not one.ended else 'ill'} |"
        for one in results
    ]
    if left_out:
        lines += ["", f"Left out, as what they need is not there: {', '.join(left_out)}."]
    for one in results:
        command = " ".join(["python", *one.command[1:]])
        lines += ["", f"## {one.name.replace('_', '-')}", "", one.heading, "", f"`{command}`", ""]
        lines += ["```", *one.lines, *one.error, "```"]
    return "\n".join(lines) + "\n"


def main():
    given = arguments(
        __doc__, full=False, only=[], data=Path, peers=Path, to=Path("bench-results"), limit=0
    )
    known = [one.name for one in BENCHMARKS]
    if unknown := set(given.only) - set(known):
        raise SystemExit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    places = places_of(given.data, given.peers)
    told, results, left_out = versions(places), [], []
    given.to.mkdir(parents=True, exist_ok=True)
    for benchmark in BENCHMARKS:
        if given.only and benchmark.name not in given.only:
            continue
        command = benchmark.words(places, given.full)
        if command is None:
            left_out.append(benchmark.name)
            continue
        one = run(benchmark.name, command, given.limit or (None if given.full else 120))
        results.append(one)
        print(f"{one.name:14}{one.seconds:8.1f} s  {' '.join(one.error)}", flush=True)
        kept = {"versions": told, "left_out": left_out, "results": [asdict(r) for r in results]}
        (given.to / "results.json").write_text(json.dumps(kept, indent=1), "utf-8")
        (given.to / "page.md").write_text(page(told, results, left_out), "utf-8")
    for name in left_out:
        print(f"{name:14}left out: needs --data")
    print(f"\nwrote {given.to / 'page.md'} and {given.to / 'results.json'}")
    return any(one.ended for one in results)


if __name__ == "__main__":
    sys.exit(main())
