"""frontdoor: serve the pod resources API with watches, and the pods API, to node agents.

A process of its own, so that clients, however many or slow, never delay the device manager. Owns nothing: its state is
a replica of the device manager's streams. On kill -9 clients' streams end with UNAVAILABLE; they connect again and
resume at their position, since positions are the ledger's and missed events are fetched from its owner.
"""

import asyncio
import contextlib
import time
from pathlib import Path

from actors.frontdoor.feeds.allocatable_feed import AllocatableFeed, MachineSink
from actors.frontdoor.feeds.broadcast import Journal, Watchers
from actors.frontdoor.feeds.pod_feed import PodFeed
from actors.frontdoor.pod_resources_api import Feed, PodResources, UnaryMethods, Watch
from actors.frontdoor.pods_api import NodePodFeed, PodsMethods
from actors.frontdoor.serving.endpoint import Endpoint, FairLimiter
from actors.frontdoor.serving.listener import ConnectionLimits, SocketOptions
from actors.frontdoor.serving.metrics import FrontDoorMetrics
from actors.frontdoor.serving.quota import WatchQuota
from actors.frontdoor.serving.server import FrontdoorServer
from protocols.actor import Context, run_actor
from protocols.bus import BusError, Replica, Unavailable
from protocols.messages import adopt, devices
from protocols.messages import podworker as pod_messages
from protocols.messages.adopt import AdoptState
from protocols.messages.devices import Device, Empty, LedgerHistory, Machine, PodAllocation, first_mark
from protocols.messages.podworker import NodePod
from protocols.process.settings import Settings
from protocols.wire.methods import Service

WATCH_GATE = "KubeletPodResourcesWatch"
ACTIVE_PODS_GATE = "KubeletPodResourcesListUseActivePods"
PODS_API_GATE = "PodsAPI"

JOURNAL_EVENTS = 4096
"""Events retained for clients that resume."""
WATCH_QUEUE_EVENTS = 1024
"""Events that a watch may be behind."""
PODS_WATCH_QUEUE_EVENTS = 100
"""Events that a watch of the pods API may be behind."""
DRAIN_TIMEOUT_S = 5.0
"""Time for a client that was too slow to read what is queued, before its stream ends."""
HISTORY_TIMEOUT_S = 2.0
HISTORY_RETRY_S = 0.05
SYNC_TIMEOUT_S = 5.0
STOP_GRACE_S = 1.0


class FrontDoor:
    """Joins the replicas of streams with the public sockets."""

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self._owner = adopt.OWNER if settings.adopt else devices.OWNER
        self._metrics = FrontDoorMetrics(context.registry)
        quota = WatchQuota(settings.pod_resources.watchers, settings.pod_resources.watchers_per_client)
        self._pods = PodFeed(
            Journal(JOURNAL_EVENTS),
            Watchers(WATCH_QUEUE_EVENTS, quota),
            self._on_pods_synced,
            settings.init_container_devices,
        )
        self._allocatable = AllocatableFeed(Journal(JOURNAL_EVENTS), Watchers(WATCH_QUEUE_EVENTS, quota))
        self._allocatable.journal.begin(first_mark(time.time_ns()))
        self._node_pods = NodePodFeed(Watchers(PODS_WATCH_QUEUE_EVENTS, quota), self._on_node_pods_synced)

        self._socket = _pod_resources_socket(settings)
        endpoint, pods_endpoint = self._endpoint(self._socket), self._endpoint(_pods_api_socket(settings))
        services = self._pod_resources(endpoint).services()
        self._server = FrontdoorServer(endpoint, services, settings.pod_resources.health_address)
        self._pods_server = FrontdoorServer(pods_endpoint, (self._pods_service(pods_endpoint),))
        self._pods_api_enabled = settings.gate(PODS_API_GATE) and settings.adopt is None

        self._metrics.connections.set_function(lambda: len(endpoint.listener) + len(pods_endpoint.listener))
        self._metrics.lag.labels("list_and_watch").set_function(lambda: self._pods.watchers.lag)
        kind = "list_and_watch_allocatable_resources"
        self._metrics.lag.labels(kind).set_function(lambda: self._allocatable.watchers.lag)
        self._synced, self._kubelet_current = False, settings.adopt is None

    async def start(self) -> None:
        follow = self._context.bus.follow
        if self._context.settings.adopt:
            state = Replica[AdoptState](
                lambda op, key, new, old: self._set_serving(self._synced, bool(new and new.current))
            )
            follow(owner=adopt.OWNER, stream=adopt.STATE, sink=state, type=AdoptState)
        else:
            follow(owner=pod_messages.OWNER, stream=pod_messages.NODE_PODS, sink=self._node_pods, type=NodePod)
        if self._pods_api_enabled:
            self._pods_server.set_serving(False)
            await self._pods_server.start()
        self._context.spawn(self._sync_and_serve(), "first sync")

    async def stop(self) -> None:
        self._pods.watchers.end_all()
        self._allocatable.watchers.end_all()
        self._node_pods.watchers.end_all()
        await asyncio.gather(self._server.stop(STOP_GRACE_S), self._pods_server.stop(STOP_GRACE_S))

    async def _sync_and_serve(self) -> None:
        """Listen only once every stream is synced: an empty list from a fresh server would be wrong."""
        follow, owner = self._context.bus.follow, self._owner
        pods = follow(owner=owner, stream=devices.ALLOCATIONS, sink=self._pods, type=PodAllocation)
        allocatable = follow(owner=owner, stream=devices.ALLOCATABLE, sink=self._allocatable, type=Device)
        sink = MachineSink(self._allocatable)
        machine = follow(owner=owner, stream=devices.MACHINE, sink=sink, type=Machine)
        while not (pods.synced and allocatable.synced and machine.synced):
            with contextlib.suppress(Unavailable):
                for following in (pods, allocatable, machine):
                    await following.wait_synced(SYNC_TIMEOUT_S)
                break
            self._context.note(f"waiting for {self._owner}")
        await self._fetch_history()
        await self._server.start()
        self._context.ready(f"listening on {self._socket.public}")

    async def _fetch_history(self) -> None:
        """Fetch the events from before this process started, without which clients could not resume."""
        while True:
            with contextlib.suppress(BusError):
                history = await self._context.bus.call(
                    self._owner, devices.HISTORY, Empty(), LedgerHistory, timeout=HISTORY_TIMEOUT_S, idempotent=True
                )
                return self._pods.prepend_history(history)
            self._context.note(f"waiting for the history of {self._owner}")
            await asyncio.sleep(HISTORY_RETRY_S)

    # health of the services

    def _on_pods_synced(self, synced: bool) -> None:
        self._set_serving(synced, self._kubelet_current)

    def _on_node_pods_synced(self, synced: bool) -> None:
        self._pods_server.set_serving(synced)

    def _set_serving(self, synced: bool, kubelet_current: bool) -> None:
        """Report SERVING while the streams are synced and, with an adopted kubelet, show its current state."""
        self._synced, self._kubelet_current = synced, kubelet_current
        self._server.set_serving(synced and kubelet_current)

    # construction

    def _endpoint(self, socket: SocketOptions) -> Endpoint:
        """Return an endpoint with a rate limit of its own, as each socket of kubelet has."""
        settings = self._context.settings.pod_resources
        limiter = FairLimiter(float(settings.qps), settings.burst)
        # All watches may come back at once after a restart; a client that opens one after the other is limited.
        watch_limiter = FairLimiter(float(settings.qps), settings.watchers_per_client, settings.watchers)
        limits = ConnectionLimits(per_client=max(ConnectionLimits().per_client, 2 * settings.watchers_per_client))
        return Endpoint(socket, (limiter, watch_limiter), self._metrics, self._context.log, limits)

    def _pod_resources(self, endpoint: Endpoint) -> PodResources:
        active_only = self._context.settings.gate(ACTIVE_PODS_GATE)
        without = self._pods_without_resources
        return PodResources(
            UnaryMethods(self._pods, self._allocatable, self._metrics, endpoint, without, active_only),
            self._watch("list_and_watch", "ListAndWatch", self._pods, endpoint),
            self._watch(
                "list_and_watch_allocatable_resources", "ListAndWatchAllocatableResources", self._allocatable, endpoint
            ),
        )

    def _watch(self, kind: str, method: str, feed: Feed, endpoint: Endpoint) -> Watch:
        enabled = self._context.settings.gate(WATCH_GATE)
        return Watch(kind, method, feed, self._metrics, endpoint, enabled, DRAIN_TIMEOUT_S)

    def _pods_service(self, endpoint: Endpoint) -> Service:
        return PodsMethods(self._node_pods, endpoint, self._metrics.pods_dropped, DRAIN_TIMEOUT_S).service()

    def _pods_without_resources(self) -> list[NodePod]:
        return [pod for uid, pod in sorted(self._node_pods.pods.items()) if uid not in self._pods.pods]


def _pod_resources_socket(settings: Settings) -> SocketOptions:
    layout, options = settings.layout, settings.pod_resources
    public = Path(settings.adopt.socket) if settings.adopt else layout.pod_resources_socket
    return SocketOptions(public, layout.grpc_socket("frontdoor"), options.socket_mode, _group_id(options.socket_group))


def _pods_api_socket(settings: Settings) -> SocketOptions:
    layout, options = settings.layout, settings.pod_resources
    private = layout.grpc_socket("pods-api")
    return SocketOptions(layout.pods_api_socket, private, options.socket_mode, _group_id(options.socket_group))


def _group_id(number: str) -> int:
    return int(number) if number else -1


def main(argv: list[str] | None = None) -> None:
    run_actor("frontdoor", FrontDoor, argv)


if __name__ == "__main__":
    main()
