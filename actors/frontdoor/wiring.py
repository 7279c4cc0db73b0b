"""From settings to the parts of the front door."""

from pathlib import Path

from actors.frontdoor.allocatable import AllocatableFeed
from actors.frontdoor.entrance.reception import Reception, ReceptionOptions
from actors.frontdoor.entrance.types import EntranceLimits
from actors.frontdoor.journal import Journal
from actors.frontdoor.limiter import FairLimiter
from actors.frontdoor.lister import Lister, ListerOptions
from actors.frontdoor.metrics import FrontDoorMetrics
from actors.frontdoor.pods import PodFeed
from actors.frontdoor.pods_api.feed import NodePodFeed
from actors.frontdoor.pods_api.methods import PodsMethods, PodsOptions
from actors.frontdoor.server import PodResources
from actors.frontdoor.types import Limits, Place
from actors.frontdoor.watch import Feed, Watch, WatchOptions
from actors.frontdoor.watchers import Slots, Watchers
from protocols.actor import Context
from protocols.messages.pods import NodePod
from protocols.settings import Settings
from protocols.wire.methods import Service

GATE = "KubeletPodResourcesWatch"
ACTIVE_GATE = "KubeletPodResourcesListUseActivePods"
PODS_GATE = "PodsAPI"


class Parts:
    """The feeds and what is shared by everything that serves them."""

    def __init__(self, context: Context) -> None:
        wanted, self._limits = context.settings.pod_resources, Limits()
        self._context = context
        self._enabled = context.settings.gate(GATE)
        self._active_only = context.settings.gate(ACTIVE_GATE)
        slots = Slots(wanted.watchers, wanted.watchers_per_client)
        self.metrics = FrontDoorMetrics(context.registry)
        self.node_pods = NodePodFeed(Watchers(self._limits.pods_queue, slots))
        self.pods = PodFeed(Journal(self._limits.ring), Watchers(self._limits.queue, slots))
        self.allocatable = AllocatableFeed(Journal(self._limits.ring), Watchers(self._limits.queue, slots))
        self._count()

    def _count(self) -> None:
        self.metrics.lag.labels("list_and_watch").set_function(lambda: self.pods.watchers.lag)
        kind = "list_and_watch_allocatable_resources"
        self.metrics.lag.labels(kind).set_function(lambda: self.allocatable.watchers.lag)

    def reception(self, place: Place) -> Reception:
        """Each socket has a rate of its own, as kubelet's have."""
        wanted = self._context.settings.pod_resources
        limiter = FairLimiter(float(wanted.qps), wanted.burst)
        limits = EntranceLimits(per_client=max(EntranceLimits().per_client, 2 * wanted.watchers_per_client))
        return Reception(ReceptionOptions(place, limiter, self.metrics, self._context.log, limits))

    def pod_resources(self, reception: Reception) -> PodResources:
        return PodResources(
            Lister(
                ListerOptions(self.pods, self.allocatable, self.metrics, reception, self._others, self._active_only)
            ),
            self._watch("list_and_watch", "ListAndWatch", self.pods, reception),
            self._watch(
                "list_and_watch_allocatable_resources", "ListAndWatchAllocatableResources", self.allocatable, reception
            ),
        )

    def pods_api(self, reception: Reception) -> Service:
        last_words = self._limits.last_words
        return PodsMethods(PodsOptions(self.node_pods, reception, self.metrics.pods_dropped, last_words)).service()

    def _others(self) -> list[NodePod]:
        """Pods of the node that hold nothing (any more): v1alpha1 lists them too."""
        return [pod for uid, pod in sorted(self.node_pods.pods.items()) if uid not in self.pods.pods]

    def _watch(self, kind: str, method: str, feed: Feed, reception: Reception) -> Watch:
        return Watch(WatchOptions(kind, method, feed, self.metrics, reception, self._enabled, self._limits.last_words))


def pod_resources_place(settings: Settings) -> Place:
    layout, wanted = settings.layout, settings.pod_resources
    socket = Path(settings.adopt.socket) if settings.adopt else layout.pod_resources_socket
    return Place(socket, layout.door_socket("frontdoor"), wanted.socket_mode, group_id(wanted.socket_group))


def pods_api_place(settings: Settings) -> Place:
    layout, wanted = settings.layout, settings.pod_resources
    group = group_id(wanted.socket_group)
    return Place(layout.pods_api_socket, layout.door_socket("pods-api"), wanted.socket_mode, group)


def group_id(number: str) -> int:
    """-1 for none."""
    return int(number) if number else -1
