"""The pod resources API of a node, as a monitoring agent uses it: lists, and a watch with deadlines."""

import queue
import threading
from collections.abc import Callable
from pathlib import Path

import grpc

from protocols.errors import NodeplaneError
from protocols.messages.devices import PodAllocation
from protocols.podresources import PodEvent
from protocols.podresources.blocking import BlockingPodResources
from protocols.podresources.types import Allocatable
from pytest_nodeplane.plane import Plane
from pytest_nodeplane.waiting import TIMEOUT_S, NotReached
from supervisor.base.errors import UsageError

METHODS = ("list", "get", "get_allocatable", "list_and_watch", "list_and_watch_allocatable_resources")
"""As the metrics of kubelet name them."""
MAX_EVENTS = 10_000
"""Events of a watch that the test has not read; then the watch ends with an error."""
MAX_SHOWN = 20
"""Events that an error names, the last ones."""


class Watch:
    """An open ListAndWatch that resumes by itself after restarts; use it with `with`."""

    def __init__(self, socket: Path) -> None:
        self._client = BlockingPodResources(socket)
        self._events: queue.Queue[PodEvent] = queue.Queue(MAX_EVENTS)
        self._error: BaseException | None = None
        self.seen: list[PodEvent] = []
        """Events that `next` has passed, the oldest first."""
        self._thread = threading.Thread(target=self._follow, name="pod resources watch", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._thread.join(TIMEOUT_S)

    def next(self, where: Callable[[PodEvent], bool] = lambda event: True, timeout: float = TIMEOUT_S) -> PodEvent:
        """Return the next event that `where` accepts and drop those before it. Raises NotReached."""
        while True:
            try:
                event = self._events.get(timeout=timeout)
            except queue.Empty:
                raise NotReached(f"such an event of the watch: not in {timeout:g} s. {self._seen()}") from None
            self.seen.append(event)
            if where(event):
                return event

    def _seen(self) -> str:
        """Return the events that were passed, and the error that ended the watch."""
        last = [f"{event.action.name} {event.pod.namespace}/{event.pod.name}" for event in self.seen[-MAX_SHOWN:]]
        ended = [f"The watch has ended: {self._error!r}"] if self._error else []
        return ". ".join([*ended, f"Seen: {', '.join(last) or 'no event'}"])

    def _follow(self) -> None:
        try:
            for event in self._client.watch():
                self._events.put_nowait(event)
        except (NodeplaneError, grpc.RpcError, queue.Full, ValueError) as error:
            self._error = error  # ValueError: gRPC's word for a channel that was closed


class PodResources:
    """The API of the node of a plane."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self.socket = plane.layout.pod_resources_socket

    def list(self) -> list[PodAllocation]:
        with BlockingPodResources(self.socket) as client:
            return client.list()

    def allocatable(self) -> Allocatable:
        with BlockingPodResources(self.socket) as client:
            return client.allocatable()

    def watch(self) -> Watch:
        """Open a watch: the first events are what there is already."""
        return Watch(self.socket)

    def requests(self, method: str) -> int:
        """Return the calls of a method that all clients have made since the front door started.

        Raises UsageError unless `method` is one of METHODS.
        """
        if method not in METHODS:
            raise UsageError(f"no method is called {method!r}; there are {', '.join(METHODS)}")
        return int(self._plane.metric(f"kubelet_pod_resources_endpoint_requests_{method}"))
