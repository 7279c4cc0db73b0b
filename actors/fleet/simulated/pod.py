"""State of one pod of a simulated node between two steps, and how it is taken up. Pure.

It is its packed object and little else: a fleet has ten thousand pods.
"""

import zlib
from typing import cast

import msgspec

from actors.fleet.simulated.containers import Containers, runtime_of
from actors.fleet.simulated.node import Node
from actors.fleet.simulated.probes import ProbeBook
from protocols.kinds import views
from protocols.kube.jsons import read_json_object
from protocols.kube.meta import Object
from protocols.kube.pods import FINISHED
from protocols.lifecycle.pods.resources import Sizes, desired_amounts, shown_sizes
from protocols.lifecycle.pods.types import INIT, BackoffEntry, PodStage, Waiting, read_pod
from protocols.lifecycle.restarts import backoff
from protocols.messages.devices import PodClaim
from protocols.messages.health import PodResourceStatus

FAST = 1
"""Level of compression: 15 us a pod, and 9 us to read it."""


class Pod:
    """State of one pod uid between two steps."""

    __slots__ = (
        "accepted", "admitted", "announced", "backoffs", "claims", "containers", "ended_early", "health_rejected",
        "name", "namespace", "node", "packed", "phase", "probes", "rejected", "released", "replaced", "resources",
        "retry_ns", "sizes", "stage", "start_ns", "uid", "version",
    )  # fmt: skip

    def __init__(self, uid: str, namespace: str, name: str, node: Node) -> None:
        self.uid = uid
        self.namespace = namespace
        self.name = name
        self.node = node
        self.packed = b""
        """The object as the API showed it last."""
        self.version = 0
        """Its resourceVersion."""
        self.phase = ""
        """As its status shows it."""
        self.stage = PodStage.SYNCING
        self.containers: Containers | None = None
        self.backoffs: dict[str, BackoffEntry] = {}
        self.sizes: Sizes | None = None
        self.probes: ProbeBook | None = None
        self.admitted = self.released = False
        self.rejected: Waiting | None = None
        self.ended_early: Waiting | None = None
        self.resources: PodResourceStatus | None = None
        self.claims: tuple[PodClaim, ...] = ()
        self.replaced: set[str] = set()
        """Ids of containers that were ended to be started again."""
        self.announced: set[str] = set()
        """Ids of ended containers whose back-off was announced."""
        self.start_ns = self.retry_ns = 0
        """Until then no container starts; until then a failed admission or preparation is not tried again."""
        self.accepted = (0, 0)
        """Fingerprint of the patch that the API took last, and the resourceVersion of its answer."""
        self.health_rejected = False
        """The API rejects statuses that show the health of devices."""


def take_over(pod: Pod) -> None:
    """Take up a pod that is new to this process, as its status shows it. Raises PodInvalid.

    All pods of a node are taken over before the first of them is stepped, so that each keeps what it has.
    """
    spec = read_pod(unpacked(pod.packed))
    shown = spec.raw.get("status") or {}
    status = runtime_of(spec, shown)
    pod.containers = Containers(status, frozenset(init.name for init in spec.inits if init.kind == INIT))
    if not status.containers or shown.get("phase") in FINISHED:
        return
    pod.backoffs = backoff.recover_all(status)
    pod.admitted = True
    pod.sizes = Sizes(allocated={**desired_amounts(spec), **shown_sizes(shown)})
    pod.node.take_back(spec, shown, pod.sizes.allocated or {})


def packed(pod: views.Pod) -> bytes:
    """Return a pod in a third of its JSON, without the record of who wrote which field."""
    metadata = {name: value for name, value in (pod.get("metadata") or {}).items() if name != "managedFields"}
    return zlib.compress(msgspec.json.encode({**pod, "metadata": metadata}), FAST)


def fingerprint(body: Object) -> int:
    """Return a number for the content of a patch."""
    return zlib.crc32(msgspec.json.encode(body))


def unpacked(content: bytes) -> views.Pod:
    """Return the object of packed content."""
    return cast("views.Pod", read_json_object(zlib.decompress(content)))
