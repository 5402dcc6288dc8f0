"""No `repr` raises, not even of the half-made object that a refusing constructor leaves."""

import importlib
import inspect
import pkgutil
import traceback

import pytest

import dpsdk
from dpsdk import Budget, Categorical, Count, Domain, Laplace, PrivateData, Session
from dpsdk.accounting import PureGuarantee


def public_classes():
    found = set()
    for module in pkgutil.walk_packages(dpsdk.__path__, "dpsdk."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            place = importlib.import_module(module.name)
            values = [getattr(place, name) for name in getattr(place, "__all__", ())]
            found.update(value for value in values if inspect.isclass(value))
    return found


def test_the_repr_of_no_public_class_raises_before_its_attributes_are_there():
    shown = 0
    for cls in public_classes():
        try:
            bare = cls.__new__(cls)
        except TypeError:
            continue  # abstract, or made of what it is given
        assert repr(bare), cls
        shown += 1
    assert shown > 400


@pytest.mark.parametrize(
    "refused",
    [
        lambda: Budget(-1),
        lambda: PureGuarantee("no number"),
        lambda: Laplace(epsilon=0),
        lambda: Categorical("a", ()),
        lambda: Domain(1),
        lambda: Session(PrivateData.from_columns({}, Domain(Categorical("a", "xy"))), Budget(1)),
        lambda: Count(where=1),
    ],
)
def test_a_traceback_with_locals_of_a_refusal_is_told(refused):
    with pytest.raises(Exception) as told:
        refused()
    lines = traceback.TracebackException.from_exception(told.value, capture_locals=True).format()
    assert type(told.value).__name__ in "".join(lines)
