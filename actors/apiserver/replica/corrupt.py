"""Objects that cannot be read: kept apart, so that one bad value in the store hides none of its neighbours."""

import logging
from collections.abc import Container

from actors.apiserver.api.objects.stored import Stored, corruption
from protocols.messages.objects import fingerprint

LOGGED = 100
"""Lines about them in the life of a process, for each resource: a store may be full of them."""


class Corrupt:
    """Why what cannot be read is left out of lists and watches. As large as the store has such keys."""

    def __init__(self, prefix: str, custom: bool) -> None:
        self._prefix, self._custom = prefix, custom
        self._why: dict[str, str] = {}
        self._fingerprints: dict[str, int] = {}
        self._logged = 0

    def sift(self, stored: Stored) -> Stored | None:
        """Return the object if it can be read, else note why it cannot."""
        why = corruption(stored.raw, self._custom)
        if not why:
            self.forget(stored.key)
            return stored
        if stored.key not in self._why and self._logged < LOGGED:
            self._logged += 1
            log = logging.getLogger("apiserver")
            log.error("stored object is left out key=%s%s reason=%s", self._prefix, stored.key, why)
        self._why[stored.key] = why
        self._fingerprints[stored.key] = fingerprint(stored.key, stored.rv, stored.raw)
        return None

    def forget(self, key: str) -> None:
        if self._why.pop(key, None) is not None:
            del self._fingerprints[key]

    def keep(self, keys: Container[str]) -> None:
        """Forget all others."""
        for key in [key for key in self._why if key not in keys]:
            self.forget(key)

    def __contains__(self, key: object) -> bool:
        return key in self._why

    def digest(self) -> int:
        """Return the share that these have in the digest of all objects."""
        return sum(self._fingerprints.values())

    def why(self, key: str) -> str:
        return self._why.get(key, "")

    def below(self, prefix: str) -> list[str]:
        """Return the full keys of those whose key begins with `prefix`."""
        return sorted(f"{self._prefix}{key}" for key in self._why if key.startswith(prefix))
