"""Connections that have not proven who they are: bounded in all and for each address. Pure.

One that proves itself leaves; from then on only descriptors bound it. Where there is no room, the connection that waits
longest is the one to go: an attacker's idle connections cost clients that speak nothing.
"""

from typing import Generic, TypeVar

import msgspec

Slot = TypeVar("Slot")


class UnauthenticatedLimits(msgspec.Struct, frozen=True):
    """Most connections that have not authenticated."""

    in_all: int = 2048
    per_address: int = 512
    """Clients on this machine share one address, so it is no smaller."""


class UnauthenticatedConnections(Generic[Slot]):
    """Connections that have not authenticated, oldest first."""

    def __init__(self, limits: UnauthenticatedLimits) -> None:
        self._limits = limits
        self._slots: dict[Slot, str] = {}
        """Oldest first, with their addresses."""
        self._by_address: dict[str, dict[Slot, None]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def enter(self, slot: Slot, address: str) -> None:
        self._slots[slot] = address
        self._by_address.setdefault(address, {})[slot] = None

    def leave(self, slot: Slot) -> None:
        """Remove a connection that has authenticated or ended; it may be gone already."""
        address = self._slots.pop(slot, None)
        if address is not None:
            same = self._by_address[address]
            del same[slot]
            if not same:
                del self._by_address[address]

    def excess(self, address: str) -> Slot | None:
        """Return the one that has to go before one more of `address` may enter; None when there is room."""
        same = self._by_address.get(address, {})
        if len(same) >= self._limits.per_address:
            return next(iter(same))
        return self.oldest() if len(self._slots) >= self._limits.in_all else None

    def oldest(self) -> Slot | None:
        return next(iter(self._slots), None)
