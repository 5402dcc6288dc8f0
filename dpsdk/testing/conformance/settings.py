"""Settings: what the kits are told beside the plugin, checked before anything is tried."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import Request
from dpsdk.kernel.trust import Trust
from dpsdk.wire import Catalogue

__all__ = ["NOBODY", "NO_WAIVERS", "check_settings", "to_trust"]

NOBODY: Mapping[str, str] = MappingProxyType({})
"""The trust of a session that is told nothing."""

NO_WAIVERS: Mapping[str, str] = MappingProxyType({})

_CELLS = 2**16
"""Tables are made over all cells of a universe, of so many at the most."""


def check_settings(domain: Domain | None, catalogue: Catalogue | None, *, thorough: bool) -> None:
    """Refuse what the kits cannot work with.

    Raises
    ------
    InvalidArgument
        Says which is wrong.
    """
    if domain is not None and not isinstance(domain, Domain):
        raise InvalidArgument("domain", "a Domain", shown(domain))
    if domain is not None and domain.size > _CELLS:
        raise InvalidArgument("domain", f"of at most {_CELLS:,} cells", f"one of {domain.size:,}")
    if type(thorough) is not bool:
        raise InvalidArgument("thorough", "True or False", shown(thorough))
    if catalogue is not None and not isinstance(catalogue, Catalogue):
        raise InvalidArgument("catalogue", "a Catalogue", shown(catalogue))


def to_trust(trust: Mapping[str, str]) -> Mapping[str, str]:
    """The `trust=` of a session, in a mapping of the kit's own.

    Raises
    ------
    InvalidArgument
        If no session takes it.
    """
    if not isinstance(trust, Mapping):
        raise InvalidArgument("trust", "a mapping of dotted names to proofs", shown(trust))
    names = Trust.of(trust, Request).names
    return MappingProxyType({one.name: one.proof for one in names})
