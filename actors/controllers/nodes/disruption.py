"""Limit how fast lost nodes are tainted NoExecute, so that a fault of the network does not empty a cluster. Pure.

Nodes are grouped by zone, from their topology labels. While every zone has lost all of its nodes, none is tainted: then
the control plane is more likely to be cut off than they are. A plane with one node therefore never evicts its pods.

| state of the zone | nodes tainted a second |
|---|---|
| normal, or every node lost | EVICTION_RATE |
| more than 2 and at least 55 % of the nodes lost | a tenth of that above 50 nodes, else none |

Source: pkg/controller/nodelifecycle of Kubernetes 1.36.
"""

import enum

import msgspec

from protocols.kinds import views
from protocols.kube.meta import labels_of
from protocols.process.rates import TokenBucket

REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"
EXCLUDED_LABEL = "node.kubernetes.io/exclude-disruption"
"""Label of nodes that come and go, whose loss says nothing of the network."""
EVICTION_RATE = 0.1
"""Lost nodes that are tainted a second in each zone."""
UNHEALTHY_SHARE = 0.55
LARGE_ZONE = 50


class _ZoneState(enum.Enum):
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_of(node: views.Node) -> str:
    """Return the name of a node's zone, from its labels; nodes without any share one."""
    labels = labels_of(node)
    return f"{labels.get(REGION_LABEL, '')}:{labels.get(ZONE_LABEL, '')}"


class _Zone(msgspec.Struct):
    ready: set[str] = msgspec.field(default_factory=set)
    lost: set[str] = msgspec.field(default_factory=set)
    excluded: set[str] = msgspec.field(default_factory=set)
    bucket: TokenBucket = msgspec.field(default_factory=lambda: TokenBucket(1.0, 1.0, 1.0, 0.0))

    @property
    def members(self) -> tuple[set[str], ...]:
        return self.ready, self.lost, self.excluded

    @property
    def state(self) -> _ZoneState:
        lost, total = len(self.lost), len(self.lost) + len(self.ready)
        if lost and lost == total:
            return _ZoneState.FULL
        return _ZoneState.PARTIAL if lost > 2 and lost >= UNHEALTHY_SHARE * total else _ZoneState.NORMAL

    def rate(self) -> float:
        if self.state is not _ZoneState.PARTIAL:
            return EVICTION_RATE
        return EVICTION_RATE / 10 if len(self.lost) + len(self.ready) > LARGE_ZONE else 0.0


class NodeDisruption:
    """Ready and lost nodes by zone."""

    def __init__(self) -> None:
        self._zones: dict[str, _Zone] = {}
        self._zone_of: dict[str, str] = {}

    def observe(self, node: str, zone: str, ready: bool, *, excluded: bool = False) -> None:
        """Record a node; an `excluded` one is tainted at its zone's rate, but does not count in its state."""
        if self._zone_of.get(node, zone) != zone:
            self.forget(node)
        self._zone_of[node] = zone
        known = self._zones.setdefault(zone, _Zone())
        for members in known.members:
            members.discard(node)
        (known.excluded if excluded else known.ready if ready else known.lost).add(node)

    def forget(self, node: str) -> None:
        zone = self._zone_of.pop(node, None)
        if zone is None:
            return
        for members in self._zones[zone].members:
            members.discard(node)
        if not any(self._zones[zone].members):
            del self._zones[zone]

    @property
    def suspended(self) -> bool:
        """True while no zone has a ready node that counts: no NoExecute taint may exist."""
        counted = (zone for zone in self._zones.values() if zone.ready or zone.lost)
        return bool(self._zones) and all(zone.state is _ZoneState.FULL for zone in counted)

    def take(self, node: str, now: float) -> bool:
        """Return True if this lost node may be tainted now, which counts against its zone's rate."""
        zone = self._zones.get(self._zone_of.get(node, ""))
        if zone is None or self.suspended or not (rate := zone.rate()):
            return False
        zone.bucket.rate = rate
        if zone.bucket.ready(now) > now:
            return False
        zone.bucket.take(now)
        return True
