"""The parameters of mechanisms: which of them may answer through a channel that is open already."""

from __future__ import annotations

from fractions import Fraction

from attrs import fields, has

from dpsdk.mechanisms.independent_noise import Gaussian, Laplace

__all__ = ["alike", "key_of"]


def key_of(using: object) -> tuple[object, ...] | None:
    """The parameters of a built-in mechanism in plain integers; None for other mechanisms.

    A mechanism of another author may call itself equal to any, and a frozen value may be
    initialised again; what these answer is looked at anew each time, and of others nothing is kept.
    """
    if type(using) is Laplace:
        amount: object = using.epsilon
        if type(amount) is Fraction:
            return Laplace, int(amount.numerator), int(amount.denominator)
    elif type(using) is Gaussian:
        rho, epsilon, delta = _plain(using.rho), _plain(using.epsilon), _plain(using.delta)
        if rho is not None and epsilon is not None and delta is not None:
            return Gaussian, rho, epsilon, delta
    return None


def _plain(number: object) -> tuple[int, ...] | None:
    """The integers of a fraction, none of a parameter that was left out; None for all else."""
    if number is None:
        return ()
    if type(number) is Fraction:
        return int(number.numerator), int(number.denominator)
    return None


def alike(one: object, other: object) -> bool:
    """Whether two mechanisms were made of the same: descriptions need not tell, as of workloads."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other) or str(one) != str(other):
        return False
    try:
        if not has(kind):
            return bool(one == other)
        given = [part.name for part in fields(kind) if part.init]
        return all(bool(getattr(one, name) == getattr(other, name)) for name in given)
    except Exception:  # noqa: BLE001  # a class of another author may raise what it likes
        return False
