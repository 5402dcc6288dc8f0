"""Cells of tables: many numbers and labels at once are spelled as each of them is."""

import itertools
import math

import numpy as np
import pytest

from dpsdk import Binned, Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.domain.columns import label_columns
from dpsdk.mechanisms import Laplace
from dpsdk.publication import guarded, spelled
from dpsdk.publication.files import label_cells, quoted, spellings
from dpsdk.queries import Marginal
from dpsdk.testing import seeded

DOMAIN = Domain(
    Integer("below", -2, 1),
    Integer("above", 8, 11),
    Categorical("=text", ["=1+1", 'a"b', "-3", ""]),
    Binned("bin", [0, 0.5, 2]),
)


def test_many_numbers_are_spelled_as_each_is():
    odd = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, 1e300, 0.1, -0.1, 2.0**53]
    numbers = np.array([*odd, *reversed(odd), *odd])
    assert spellings(numbers) == [spelled(one) for one in numbers.tolist()]
    assert spellings(numbers, repr) == list(map(repr, numbers.tolist()))
    assert spellings(np.zeros(0)) == []


def test_labels_of_all_cells_are_spelled_as_each_is():
    cells = list(label_cells(DOMAIN.attributes))
    texts = [[one.text(place) for place in range(one.size)] for one in DOMAIN]
    assert cells == [
        ",".join(quoted(guarded(text)) for text in row) for row in itertools.product(*texts)
    ]
    columns = label_columns(DOMAIN.attributes)
    assert list(columns) == list(DOMAIN.names)
    assert list(zip(*(columns[name].values for name in DOMAIN.names), strict=True)) == list(
        itertools.product(range(-2, 2), range(8, 12), texts[2], texts[3])
    )
    assert [column.kind for column in columns.values()] == ["integer", "integer", "text", "text"]


@pytest.mark.parametrize("normalized", [False, True])
def test_a_file_has_cell_by_cell_what_the_release_has(normalized):
    neighbors = Neighbors.REPLACE_ONE if normalized else Neighbors.ADD_REMOVE
    rows = {name: [one.label(0)] * 7 for name, one in zip(DOMAIN.names, DOMAIN, strict=True)}
    data = PrivateData.from_columns(rows, DOMAIN, neighbors=neighbors)
    session = Session(data, Budget(9), noise=seeded(2))
    query = Marginal("=text", "below", "bin", normalized=normalized)
    release = session.release(query, using=Laplace(1)).nonnegative()
    low, high = release.interval(0.05)
    numbers = zip(release.value.values.flat, low.values.flat, high.values.flat, strict=True)
    end = ["0.05", "true", spelled(release.moved)]
    lines = ['"\'=text","below","bin","value","low","high","beta","joint","moved"']
    texts = [[one.text(place) for place in range(one.size)] for one in release.value.attributes]
    for labels, three in zip(itertools.product(*texts), numbers, strict=True):
        spelt = [quoted(guarded(label)) for label in labels]
        lines.append(",".join([*spelt, *(spelled(float(one)) for one in three), *end]))
    assert release.metadata().tables[0].to_csv() == "\n".join([*lines, ""])
