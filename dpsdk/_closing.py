"""What has an end: closed by hand, or by leaving its `with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Closing"]


class Closing(ABC):
    """Something to close, for use in a `with`."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Answer nothing more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
