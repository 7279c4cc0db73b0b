"""Results about each node for pods with the same requests. Pure.

It holds as long as the node's version is the same: after a pod was placed, only its node is filtered and scored anew.
"""

from collections import OrderedDict

import msgspec

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
        self._by_shape: OrderedDict[tuple[bytes, frozenset[str]], NodeMemo] = OrderedDict()

    def of(self, shape: bytes, backed: frozenset[str]) -> NodeMemo:
        key = (shape, backed)
        memo = self._by_shape.setdefault(key, NodeMemo())
        self._by_shape.move_to_end(key)
        if len(self._by_shape) > MAX_SHAPES:
            self._by_shape.popitem(last=False)
        return memo
