"""Objects below `/registry/<group>/<plural>/` that no definition claims: they wait here for one. Pure.

Between definition and first object there is no gap in the store's order, so this is empty but for what somebody left
behind: deleting a definition deletes its objects first.
"""

from collections.abc import Mapping

from actors.watchcache.cache import Stored

ROOT = "/registry/"


class Orphans:
    def __init__(self) -> None:
        self._below: dict[str, dict[str, Stored]] = {}

    def put(self, key: bytes, stored: Stored) -> None:
        found = _split(key)
        if found:
            self._below.setdefault(found[0], {})[found[1]] = stored

    def remove(self, key: bytes) -> None:
        found = _split(key)
        if found and found[0] in self._below:
            self._below[found[0]].pop(found[1], None)

    def claim(self, prefix: str) -> dict[str, Stored]:
        return self._below.pop(prefix, {})

    def leave(self, prefix: str, objects: Mapping[str, Stored]) -> None:
        if objects:
            self._below.setdefault(prefix, {}).update(objects)

    def clear(self) -> None:
        self._below.clear()


def _split(key: bytes) -> tuple[str, str] | None:
    """(prefix, rest) of a custom resource's key: its group, unlike the first part of any other, has a dot."""
    parts = key.decode(errors="replace").removeprefix(ROOT).split("/", 2)
    return (f"{ROOT}{parts[0]}/{parts[1]}/", parts[2]) if len(parts) == 3 and "." in parts[0] else None
