"""Nodes that fit pods of one kind, with their scores, kept from pod to pod. Pure.

After a pod was placed, only the nodes that changed since are filtered, searched and scored; the best is the maximum of
the table. A table serves pods that ask the same of nodes and devices and prefer no node; others look at all nodes.
"""

import msgspec

from actors.scheduler.model.claim_demand import Fit
from protocols.bounded import BoundedMap

MAX_TABLES = 64
Revision = tuple[int, int]
"""Revision of the devices' catalog, and number of changes of classes."""
FIT_WEIGHT = 1_000_000
"""Devices that the claims list first count more than any score of nodes."""


class NodeTable(msgspec.Struct):
    """Scores and device fits of the nodes for one kind of pods; nodes that do not fit are absent."""

    position: int
    """Position in Cache.changes up to which the table is right."""
    revision: Revision
    """Revision of devices and classes before the nodes were searched."""
    scores: dict[str, int] = msgspec.field(default_factory=dict)
    fits: dict[str, Fit] = msgspec.field(default_factory=dict)

    def put(self, node: str, score: int, fit: Fit) -> None:
        self.scores[node] = fit.score * FIT_WEIGHT + score
        self.fits[node] = fit

    def drop(self, node: str) -> None:
        self.scores.pop(node, None)
        self.fits.pop(node, None)

    def best(self) -> list[str]:
        """Return the nodes with the highest score."""
        most = max(self.scores.values())
        return [node for node, score in self.scores.items() if score == most]


Kind = tuple[bytes, bytes]
"""Requests of pods: of nodes, and of devices."""


class NodeTables:
    """Tables by kind; the MAX_TABLES used last are retained, and none of older devices or classes counts."""

    def __init__(self) -> None:
        self._tables = BoundedMap[Kind, NodeTable](MAX_TABLES)

    def get(self, kind: Kind, revision: Revision) -> NodeTable | None:
        table = self._tables.get(kind)
        if table is None or table.revision != revision:
            return None
        self._tables.move_to_end(kind)
        return table

    def put(self, kind: Kind, table: NodeTable) -> None:
        self._tables[kind] = table

    def drop(self, kind: Kind) -> None:
        self._tables.pop(kind, None)
