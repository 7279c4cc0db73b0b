"""health: tells each pod, in its status and by events, how the devices it holds are.

Why a process: what a broken device sets off must not delay admissions (devices) nor pod syncs (podworker).
Owns the stream `resource-status`; nothing durable. On kill -9: it is rebuilt from the device manager's streams, and a
first look is no change, so no event is repeated for what is healthy.
"""

import asyncio
import time

from actors.health.board import Board
from actors.health.teller import Notice, Subject, Teller
from protocols.actor import Context, run_actor
from protocols.bus import BusError, Following, Op, Replica, StateSource, Stream
from protocols.kube.client import ApiClient, ClientOptions
from protocols.kube.events import EventRecorder, RecorderOptions
from protocols.messages import devices, health

USER = "health"
GATE = "ResourceHealthStatus"
WAIT_S = 60.0


class Health:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._allocations = Replica[devices.PodAllocation](self._on_allocation)
        self._health = Replica[devices.DeviceHealth](self._on_health)
        self._board = Board(self._allocations.items, self._health.items)
        self._teller = Teller()
        self._stream: Stream | None = None
        self._client = ApiClient(self._client_options())
        options = RecorderOptions(component="kubelet", host=context.settings.node_name)
        self._events = EventRecorder(self._client, options)
        self._settling = False
        self._wake = asyncio.Event()

    async def start(self) -> None:
        if not self._context.settings.gate(GATE):
            self._context.ready(f"feature gate {GATE} is off: publishes nothing")
            return
        await self._client.start()
        follow = self._context.bus.follow
        kind = devices.DeviceHealth
        healths = follow(owner=devices.OWNER, stream=devices.HEALTH, sink=self._health, type=kind)
        given = follow(
            owner=devices.OWNER, stream=devices.ALLOCATIONS, sink=self._allocations, type=devices.PodAllocation
        )
        self._context.spawn(self._events.run(), "events")
        self._context.spawn(self._tell(), "telling")
        self._context.spawn(self._begin(healths, given), "first sync")

    async def _begin(self, healths: Following[devices.DeviceHealth], given: Following[devices.PodAllocation]) -> None:
        """The stream is owned only once it can tell all: a follower of an earlier life sees no gap in between."""
        while not (healths.synced and given.synced):
            try:
                await healths.wait_synced(WAIT_S)
                await given.wait_synced(WAIT_S)
            except BusError as error:
                self._context.note(str(error))
        changes = self._board.settle()
        self._stream = self._context.bus.own(health.RESOURCE_STATUS, StateSource(self._board.published))
        self._take(changes)
        self._context.ready("follows devices")

    async def stop(self) -> None:
        await self._client.close()

    def _client_options(self) -> ClientOptions:
        layout = self._context.layout
        certificate, key = layout.client_cert(USER)
        server = self._context.settings.api_url
        return ClientOptions(server=server, ca=layout.ca_cert, cert=certificate, key=key, user_agent=USER)

    # what devices says

    def _on_allocation(
        self, op: Op, uid: str, new: devices.PodAllocation | None, old: devices.PodAllocation | None
    ) -> None:
        self._board.allocation_changed(uid, new)
        self._soon()

    def _on_health(self, op: Op, key: str, new: devices.DeviceHealth | None, old: devices.DeviceHealth | None) -> None:
        self._board.health_changed(key)
        self._soon()

    def _soon(self) -> None:
        """Changes that arrive together are published together; nothing before both streams were heard."""
        if self._stream is not None and not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self._settle)

    # what others hear

    def _settle(self) -> None:
        self._settling = False
        changes = self._board.settle()
        for uid, status in changes.items():
            self._publish(uid, status)
        self._take(changes)

    def _publish(self, uid: str, status: health.PodResourceStatus | None) -> None:
        if self._stream is not None:
            op = Op.DELETE if status is None else Op.UPSERT
            self._stream.publish(op, uid, status or health.PodResourceStatus(uid=uid, containers={}))

    def _take(self, changes: dict[str, health.PodResourceStatus | None]) -> None:
        now = time.monotonic()
        for uid, status in changes.items():
            if status is None:
                self._teller.forget(uid)
            else:
                self._observe(status, now)
        self._wake.set()

    def _observe(self, status: health.PodResourceStatus, now: float) -> None:
        seen: set[Subject] = set()
        for container, entries in status.containers.items():
            for entry in entries:
                for device in entry.resources:
                    subject = Subject(status.uid, container, entry.name, device.resourceID)
                    seen.add(subject)
                    self._teller.observe(subject, device.health, device.message, now)
        self._teller.forget(status.uid, frozenset(seen))

    async def _tell(self) -> None:
        while True:
            now = time.monotonic()
            for notice in self._teller.due(now):
                self._event(notice)
            due = self._teller.next_due(now)
            self._wake.clear()
            try:
                async with asyncio.timeout(None if due is None else max(0.01, due - now)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _event(self, notice: Notice) -> None:
        allocation = self._allocations.items.get(notice.subject.uid)
        if allocation is not None:
            path = field_path(allocation, notice.subject.container)
            self._events.event(reference(allocation), notice.type, notice.reason, notice.message, path)


def reference(allocation: devices.PodAllocation) -> dict[str, object]:
    metadata = {"namespace": allocation.namespace, "name": allocation.name, "uid": allocation.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def field_path(allocation: devices.PodAllocation, container: str) -> str:
    kind = next((c.kind for c in allocation.containers if c.name == container), "app")
    return f"spec.{'containers' if kind == 'app' else 'initContainers'}{{{container}}}"


def main(argv: list[str] | None = None) -> None:
    run_actor("health", Health, argv)


if __name__ == "__main__":
    main()
