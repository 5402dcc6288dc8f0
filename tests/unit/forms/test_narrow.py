"""Attributes of one cell play no part, whatever form is written on them."""

import numpy as np
import pytest

from dpsdk import Domain, Integer
from dpsdk.forms import (
    Boxes,
    Dense,
    Groups,
    Identity,
    Kronecker,
    LinearForm,
    Prefix,
    Range,
    Residual,
    Toeplitz,
    Weights,
)  # fmt: skip
from dpsdk.forms.linear import narrowed

DOMAIN = Domain(Integer("a", 0, 0), Integer("b", 0, 2), Integer("c", 0, 0))
SINGLE = [Identity(1), Prefix(1), Range(1, 0, 1), Range(1, 0, 0), Groups(1, 1), Residual(1),
          Weights([[-2.5]]), Toeplitz([3.0]), Weights([[1.0], [0.0], [4.0]])]  # fmt: skip
BLOCKS = [
    *(Kronecker(("a", "b"), (factor, Identity(3)), 2.0) for factor in SINGLE),
    *(Kronecker(("b", "c"), (Prefix(3), factor), -1.0) for factor in SINGLE),
    *(Kronecker(("a", "c"), (Identity(1), factor)) for factor in SINGLE),
    Dense(("a", "b"), (1, 3), np.arange(6.0).reshape(2, 3)),
    Dense(("a", "c"), (1, 1), np.array([[2.0], [0.0]])),
    Boxes(("a", "b"), (1, 3), [[0, 0, 1], [0, 1, 0]], [[1, 0, 1], [2, 3, 3]], [1.0, 2.0, 3.0]),
    Boxes(("a", "b"), (1, 3), [[0], [0]], [[1], [3]], [5.0], (np.zeros(1), np.array([1, 0, 1.0]))),
    Boxes(("a", "c"), (1, 1), [[0, 0], [0, 0]], [[1, 1], [1, 0]], [1.0, 3.0]),
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_the_functions_stay_and_the_attributes_go(block):
    form = LinearForm(DOMAIN, [block, Kronecker(("b",), (Identity(3),))])
    found = narrowed(form)
    assert found.identity == form.identity
    assert found.names == ("b",)
    assert not any(1 in block.shape for block in found.blocks)


def test_a_form_without_such_attributes_is_left_alone():
    form = LinearForm(DOMAIN, [Kronecker(("b",), (Identity(3),)), Kronecker((), ())])
    assert narrowed(form) is form
