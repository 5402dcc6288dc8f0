"""Public tables: those whose errors the planner expects, and others that it is held against.

A folder of data has one folder a dataset: adult, pums-ca, titanic, transfusion, mammographic-mass,
hlm12-tables, wine-quality-white, dpbench-1d and dpbench-2d, with their files as published.
"""

import csv
import json
from pathlib import Path

import numpy as np
from attrs import frozen

from dpsdk import Domain, Integer, PrivateData
from dpsdk.hypothesis import SyntheticData


@frozen
class PublicTable:
    """A table that everybody may know, whose records are measured without protection."""

    records: SyntheticData
    name: str

    @property
    def domain(self):
        return self.records.domain

    @property
    def rows(self):
        return self.records.rows

    def projected(self, *names):
        """Some of its columns, in this order."""
        places = [self.domain.position(name) for name in names]
        codes = self.records.codes[:, places]
        records = SyntheticData(self.domain.project(names), codes, self.records.multiplicities)
        return PublicTable(records, f"{self.name}: {', '.join(names)}")

    def as_if_private(self, neighbors):
        counts = self.records.counts(*self.domain.names)
        return PrivateData.from_counts(
            counts, self.domain, name="public", neighbors=neighbors, max_rows=2**30
        )

    def answers(self, form):
        """The true numbers of a form, in rows."""
        return self.records.answers(form) * self.rows


def coded(name, columns):
    """A table of codes, each column with its number of cells; codes beyond are moved inside."""
    domain = Domain(*(Integer(title, 0, size - 1) for title, (_, size) in columns.items()))
    codes = [np.clip(column, 0, size - 1) for column, size in columns.values()]
    return PublicTable(SyntheticData(domain, np.stack(codes, axis=1)), name)


def counted(name, counts, shape):
    """A table of counts."""
    domain = Domain(*(Integer(f"x{place}", 0, size - 1) for place, size in enumerate(shape)))
    return PublicTable(SyntheticData.from_counts(domain, counts.reshape(-1)), name)


@frozen
class Data:
    """A folder of public data."""

    folder: Path

    def adult(self):
        sizes = json.loads((self.folder / "adult/adult-domain.json").read_text())
        return self._listed("adult/adult.csv", sizes, "adult")

    def titanic(self):
        sizes = json.loads((self.folder / "titanic/titanic-domain.json").read_text())
        return self._listed("titanic/titanic.csv", sizes, "titanic")

    def _listed(self, path, sizes, name):
        with (self.folder / path).open() as file:
            titles = file.readline().strip().split(",")
            rows = np.loadtxt(file, delimiter=",").astype(np.int64)
        columns = {title: (rows[:, at], int(sizes[title])) for at, title in enumerate(titles)}
        return coded(name, columns)

    def pums(self):
        with (self.folder / "pums-ca/pums10k.csv").open() as file:
            rows = list(csv.reader(file))
        numbers = np.array([[float(one) for one in row[:10]] for row in rows])
        whole, income = numbers.astype(np.int64), np.clip(numbers[:, 5], 0, 199_999)
        return coded(
            "pums10k",
            {
                "sex": (whole[:, 2], 2),
                "age": (whole[:, 3], 100),
                "educ": (whole[:, 4] - 1, 16),
                "income": ((income / 2000).astype(np.int64), 100),
                "latino": (whole[:, 6], 2),
                "black": (whole[:, 7], 2),
                "asian": (whole[:, 8], 2),
                "married": (whole[:, 9], 2),
            },
        )

    def small_pums(self):
        with (self.folder / "pums-ca/pums1000.csv").open() as file:
            rows = list(csv.DictReader(file))
        found = {title: np.array([float(row[title]) for row in rows]) for title in rows[0]}
        whole = {title: column.astype(np.int64) for title, column in found.items()}
        income = (np.clip(found["income"], 0, 199_999) / 4000).astype(np.int64)
        return coded(
            "pums1k",
            {
                "age": (whole["age"], 101),
                "sex": (whole["sex"], 2),
                "educ": (whole["educ"] - 1, 16),
                "race": (whole["race"] - 1, 6),
                "income": (income, 50),
                "married": (whole["married"], 2),
            },
        )

    def transfusion(self):
        text = (self.folder / "transfusion/transfusion.csv").read_text(encoding="utf-8-sig")
        rows = np.array([line.split(",") for line in text.splitlines()[1:] if line.strip()])
        whole = rows.astype(np.float64).astype(np.int64)
        return coded(
            "transfusion",
            {
                "recency": (whole[:, 0], 75),
                "frequency": (whole[:, 1] - 1, 50),
                "time": (whole[:, 3] - 2, 97),
                "donated": (whole[:, 4], 2),
            },
        )

    def mammographic(self):
        text = (self.folder / "mammographic-mass/mammographic_masses.data").read_text()
        rows = [line.split(",") for line in text.splitlines() if line.strip() and "?" not in line]
        whole = np.array(rows).astype(np.float64).astype(np.int64)
        return coded(
            "mammographic",
            {
                "birads": (whole[:, 0], 7),
                "age": (whole[:, 1] - 18, 79),
                "shape": (whole[:, 2] - 1, 4),
                "margin": (whole[:, 3] - 1, 5),
                "density": (whole[:, 4] - 1, 4),
                "severity": (whole[:, 5], 2),
            },
        )

    def wine(self):
        rows = np.loadtxt(self.folder / "wine-quality-white/winequality-white.csv", delimiter=",")
        columns = {}
        for place, size in enumerate((10, 16, 32, 8, 12, 64, 10, 20, 6, 12, 9)):
            low, high = rows[:, place].min(), np.quantile(rows[:, place], 0.995)
            scaled = (rows[:, place] - low) / (high - low) * size
            columns[f"w{place}"] = (scaled.astype(np.int64), size)
        columns["quality"] = (rows[:, 11].astype(np.int64) - 3, 7)
        return coded("wine", columns)

    def binary(self, name):
        counts = np.loadtxt(self.folder / f"hlm12-tables/{name}.txt").astype(np.int64)
        return counted(name, counts, (2,) * (counts.size.bit_length() - 1))

    def line(self, name, cells=4096):
        counts = np.load(self.folder / f"dpbench-1d/{name}.npy", allow_pickle=False)
        merged = counts.astype(np.int64).reshape(cells, -1).sum(axis=1)
        return counted(f"{name}/{cells}", merged, (cells,))

    def plane(self, name, side):
        counts = np.load(self.folder / f"dpbench-2d/{name}.npy", allow_pickle=False)
        parts = counts.astype(np.int64).reshape(side, 256 // side, side, 256 // side)
        return counted(f"{name}/{side}", parts.sum(axis=(1, 3)), (side, side))

    def calibrated(self):
        """What the shipped file is made of, the quickest first."""
        adult, pums, small = self.adult(), self.pums(), self.small_pums()
        return [
            clustered(5, (4, 4, 4, 4), 300),
            adult.projected("age"),
            independent(2, (2,) * 8, 500),
            self.line("MEDCOST", 256),
            pums.projected("age", "sex", "educ"),
            adult.projected("race", "sex", "income>50K", "relationship"),
            small.projected("educ", "race", "sex", "married"),
            self.line("ADULT", 1024),
            pums.projected("sex", "latino", "black", "asian", "married", "educ"),
            clustered(1, (8, 8, 8), 2000),
            pums.projected("income"),
            adult.projected("hours-per-week", "sex"),
            small.projected("age", "sex", "married"),
            independent(6, (64, 64), 3000),
            self.line("HEPTH", 512),
            adult.projected(
                "education-num", "marital-status", "relationship", "race", "sex", "income>50K"
            ),
            independent(4, (10, 12, 6, 4, 3), 20_000),
            self.line("PATENT", 1024),
            adult.projected("age", "education-num", "sex", "income>50K"),
            self.line("INCOME", 4096),
        ]

    def held_out(self):
        """Tables, and columns of those above, that the shipped file knows nothing of."""
        adult, pums = self.adult(), self.pums()
        return [
            self.binary("czech"),
            self.titanic().projected("Survived", "Pclass", "Sex", "SibSp", "Parch", "Embarked"),
            self.transfusion().projected("recency", "frequency"),
            self.wine().projected("w5"),
            self.mammographic().projected("shape", "margin", "density", "severity", "birads"),
            self.line("MDSALARY-FA", 2048),
            self.binary("mildew"),
            self.transfusion().projected("frequency", "time", "donated"),
            adult.projected("occupation", "native-country", "income>50K"),
            self.binary("rochdale"),
            self.mammographic().projected("age", "severity"),
            self.wine().projected("w0", "w1", "w3", "w8", "quality"),
            self.plane("STROKE-2D", 64),
            pums.projected("income", "married"),
            adult.projected("fnlwgt", "sex", "race"),
            self.plane("ADULT-2D", 64),
            adult.projected("capital-gain", "capital-loss"),
        ]


def clustered(seed, shape, rows):
    """A random table whose rows lie in few cells."""
    rng, cells = np.random.default_rng(seed), int(np.prod(shape))
    shares = rng.dirichlet(np.full(min(cells, 500), 0.1 if len(shape) == 3 else 0.2))
    places = rng.choice(cells, size=len(shares), replace=False)
    weights = rng.multinomial(rows, shares)
    counts = np.bincount(places, weights=weights, minlength=cells).astype(np.int64)
    return counted(f"random {seed}", counts, shape)


def independent(seed, shape, rows):
    """A random table of attributes that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(n, size=rows, p=rng.dirichlet(np.full(n, 0.5))) for n in shape]
    return coded(f"product {seed}", {f"q{at}": (c, shape[at]) for at, c in enumerate(drawn)})
