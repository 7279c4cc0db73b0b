"""Results about each node for pods with the same requests. Pure.

It holds as long as the node's version is the same: after a pod was placed, only its node is filtered and scored anew.
"""

import msgspec

from protocols.bounded import BoundedMap

MAX_SHAPES = 64
"""Different pods that are remembered."""
Versioned = dict[str, tuple[int, int]]
"""Version of the node and score, by node."""


class NodeMemo(msgspec.Struct):
    """Results of one shape of pods, by node."""

    reasons: dict[str, tuple[int, list[str]]] = msgspec.field(default_factory=dict)
    scores: Versioned = msgspec.field(default_factory=dict)

    def trim(self, nodes: int) -> None:
        """Forget everything once nodes that are gone outnumber those that are left."""
        if max(len(self.reasons), len(self.scores)) > 2 * nodes + MAX_SHAPES:
            self.reasons.clear()
            self.scores.clear()


class NodeMemos:
    """Memos by the shape of requests; the MAX_SHAPES used last are retained."""

    def __init__(self) -> None:
        self._by_shape = BoundedMap[tuple[bytes, frozenset[str]], NodeMemo](MAX_SHAPES)

    def of(self, shape: bytes, backed: frozenset[str]) -> NodeMemo:
        return self._by_shape.get_or_make((shape, backed), NodeMemo)
