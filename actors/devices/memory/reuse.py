"""Memory that init containers leave to the containers after them: only on just the same nodes."""

from collections.abc import Mapping

import msgspec

from actors.devices.memory.types import Blocks
from actors.devices.topology.types import mask_of


class Reuse:
    """Of one pod that is being admitted."""

    def __init__(self) -> None:
        self.inits: list[str] = []
        """Names of its init containers so far, sidecars apart."""
        self._left: dict[tuple[int, str], int] = {}

    def of(self, mask: int, kind: str) -> int:
        return self._left.get((mask, kind), 0)

    def took(self, container: str, kind: str, blocks: Blocks) -> None:
        """`kind`: init, sidecar or app."""
        if kind == "init":
            self.inits.append(container)
        for block in blocks:
            key = (mask_of(block.numa), block.type)
            left = self._left.get(key, 0)
            self._left[key] = max(left, block.size) if kind == "init" else max(0, left - block.size)


def shrink_inits(held: Mapping[str, Blocks], inits: list[str], taken: Blocks) -> dict[str, Blocks]:
    """What a later container takes over is no longer counted for the init containers that had it."""
    shrunk = dict(held)
    for block in taken:
        left = block.size
        for name in inits:
            fresh = []
            for old in shrunk.get(name, ()):
                same = (old.type, old.numa) == (block.type, block.numa)
                given = min(left, old.size) if same else 0
                left -= given
                fresh.append(msgspec.structs.replace(old, size=old.size - given))
            if name in shrunk:
                shrunk[name] = tuple(fresh)
    return shrunk
