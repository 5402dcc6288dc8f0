import copy
import inspect
import pickle
from fractions import Fraction

import attrs
import pytest

import dpsdk.errors as module
from dpsdk.errors import DpsdkError

SHORTAGE = module.Shortage("delta", "basic composition", Fraction(1, 9), Fraction(0), Fraction(1))
DECLINED = module.Declined("Laplace", "too-dear", "nothing is left")
PARTS = ("Shortage", "Declined")
"""What errors are made of, and no errors."""
CLASSES = [getattr(module, name) for name in module.__all__ if name not in PARTS]
FIELDED = [cls for cls in CLASSES if attrs.has(cls)]
BUILTIN = {
    "InvalidArgument": ValueError,
    "DomainError": ValueError,
    "UnknownAttribute": KeyError,
    "UnknownLabel": KeyError,
    "QueryError": ValueError,
    "DataError": ValueError,
    "TooLarge": MemoryError,
    "Redacted": TypeError,
    "NotCopyable": TypeError,
    "MissingExtra": ImportError,
    "Reentered": RuntimeError,
    "RecordError": ValueError,
    "WireError": ValueError,
    "UnknownName": KeyError,
    "UnknownQuery": KeyError,
}


def made(cls):
    """One error with telling fields."""
    values = {
        "int": 1234567,
        "float": 1234.5,
        "str": "telling",
        "tuple[str, ...]": ("first", "second"),
        "tuple[int, ...]": (1, 2),
        "tuple[Shortage, ...]": (SHORTAGE,),
        "tuple[Declined, ...]": (DECLINED,),
        "Fraction": Fraction(1, 7),
        "int | None": 12,
        "tuple[int, int] | None": (3, 9),
    }
    return cls(*(values[field.type] for field in attrs.fields(cls)))


def test_every_error_is_public_and_in_one_tree():
    defined = {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert defined == {cls.__name__ for cls in CLASSES}
    assert all(issubclass(cls, DpsdkError) for cls in CLASSES)
    assert all(cls.__doc__ for cls in CLASSES)
    for cls in CLASSES:
        assert f" {cls.__name__}" in module.__doc__ or cls is DpsdkError


@pytest.mark.parametrize("name", BUILTIN)
def test_errors_can_be_caught_as_the_builtin_that_they_are(name):
    assert issubclass(getattr(module, name), BUILTIN[name])


@pytest.mark.parametrize("cls", FIELDED, ids=lambda cls: cls.__name__)
def test_messages_say_every_field_and_errors_survive_a_pickle(cls):
    error = made(cls)
    silent = {
        "TooLarge": {"unit"},
        # In words they are in `why` and `remaining`.
        "BudgetExceeded": {
            "shortages",
            "epsilon",
            "rho",
            "charges",
            "period",
            "refusing",
            "passing",
        },
    }.get(cls.__name__, set())
    for field in attrs.fields(cls):
        value = getattr(error, field.name)
        if field.name not in silent:
            shown = f"{value:,}" if field.name in {"needed", "limit"} else value
            assert str(shown if not isinstance(value, tuple) else value[0]) in str(error)
    for clone in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301
        assert type(clone) is cls
        assert str(clone) == str(error)
        assert attrs.asdict(clone) == attrs.asdict(error)
        assert clone == error
        assert hash(clone) == hash(error)
        assert clone != ValueError()
    assert all(error != made(other) for other in FIELDED if other is not cls)


@pytest.mark.parametrize("cls", FIELDED, ids=lambda cls: cls.__name__)
def test_errors_can_be_raised_with_a_cause_and_notes(cls):
    with pytest.raises(cls) as caught:
        raise made(cls) from ValueError("cause")
    assert isinstance(caught.value.__cause__, ValueError)
    caught.value.add_note("note")
    assert caught.value.__notes__ == ["note"]
    clone = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert clone == caught.value == made(cls)
    assert clone.__notes__ == ["note"]


def test_what_is_added_to_a_refusal_later_survives_a_pickle():
    error = made(module.BudgetExceeded)
    error.charges = (7,)
    clone = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert clone == error != made(module.BudgetExceeded)
    assert clone.charges == (7,)


def test_long_lists_of_names_are_cut_short():
    error = module.UnknownAttribute("x", tuple(f"name{i}" for i in range(40)))
    assert "name11" in str(error)
    assert "name12" not in str(error)
    assert "40 in all" in str(error)
    assert "none" in str(module.UnknownAttribute("x", ()))


@pytest.mark.parametrize(
    ("name", "ending"),
    [("Age", "; did you mean 'age'?"), ("sexx", "; did you mean 'sex'?"), ("income", "age, sex")],
)
def test_an_unknown_attribute_is_told_with_the_name_near_it(name, ending):
    assert str(module.UnknownAttribute(name, ("age", "sex"))).endswith(ending)


def test_a_reason_that_several_mechanisms_were_declined_for_is_told_once():
    reasons = [module.Declined(name, "no-bound", "why") for name in ("a", "b", "a")]
    error = module.NoMechanism("Q", (*reasons, module.Declined("c", "refused", "why")))
    told = "a, b: why (no-bound); c: why (refused)"
    assert str(error) == f"Q: no mechanism can be taken. {told}"
