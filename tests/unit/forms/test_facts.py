"""Relations are told apart by value, and none is taken for another."""

from enum import Enum

import pytest

from dpsdk import Domain, Integer, Neighbors
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, Identity, Kronecker, LinearForm, sensitivity

DOMAIN = Domain(Integer("a", 0, 2))
FORM = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"a": Identity(3)})])


class Twin(Enum):
    """The same relations, of a class that was loaded twice."""

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"


class Other(Enum):
    SUBSTITUTE_TWO = "replace-two"


def of(neighbors):
    return Facts(DOMAIN, neighbors, 10, True, 10)


@pytest.mark.parametrize("kind", [Neighbors, Twin])
def test_a_relation_is_known_by_its_value(kind):
    assert of(kind.REPLACE_ONE).replaced
    assert not of(kind.ADD_REMOVE).replaced
    assert sensitivity(FORM, of(kind.REPLACE_ONE)).l1 == 2
    assert sensitivity(FORM, of(kind.ADD_REMOVE)).l1 == 1


@pytest.mark.parametrize("relation", [Other.SUBSTITUTE_TWO, None, "replace-one", 1])
def test_an_unknown_relation_is_refused_and_not_taken_for_the_cheaper(relation):
    with pytest.raises(InvalidArgument) as caught:
        of(relation)
    assert caught.value.parameter == "neighbors"
