"""health: tells each pod, in its status and by events, how the devices it holds are.

Why a process: what a broken device sets off must not delay admissions (devices) nor pod syncs (podworker).
Owns the stream `resource-status`; nothing durable. On kill -9: it is rebuilt from the streams of devices and podworker,
and a first look is no change, so no event is repeated for what is healthy.
"""

import asyncio
import time

from actors.health.board import Board, Changes
from actors.health.meter import Meter
from actors.health.sources import Sources
from actors.health.teller import Notice, Subject, Teller
from protocols.actor import Context, run_actor
from protocols.bus import BusError, Op, StateSource, Stream
from protocols.kube.client import ApiClient, ClientOptions
from protocols.kube.events import EventRecorder, RecorderOptions
from protocols.messages import health
from protocols.messages.devices import UNKNOWN
from protocols.messages.health import PodResourceStatus

USER = "health"
GATE = "ResourceHealthStatus"
WAIT_S = 60.0
TOGETHER_S = 0.1
"""Pause between two looks at what is to be told: devices that change one after another share an event."""


class Health:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._sources = Sources(self._on_held, self._on_health)
        self._board = Board(self._sources.held, self._sources.health, context.settings.device_health_rate)
        self._teller = Teller()
        self._stream: Stream | None = None
        self._client = ApiClient(self._client_options())
        options = RecorderOptions(component="kubelet", host=context.settings.node_name)
        self._events = EventRecorder(self._client, options)
        self._meter = Meter(context.registry, self._board)
        self._settling = False
        self._timer: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()

    async def start(self) -> None:
        if not self._context.settings.gate(GATE):
            self._context.ready(f"feature gate {GATE} is off: publishes nothing")
            return
        await self._client.start()
        self._sources.follow(self._context.bus)
        self._context.spawn(self._events.run(), "events")
        self._context.spawn(self._tell(), "telling")
        self._context.spawn(self._begin(), "first sync")

    async def _begin(self) -> None:
        """The stream is owned only once it can tell all: a follower of an earlier life sees no gap in between."""
        while True:
            try:
                await self._sources.wait_synced(WAIT_S)
                break
            except BusError as error:
                self._context.note(str(error))
        changes = self._board.settle(time.monotonic())
        self._stream = self._context.bus.own(health.RESOURCE_STATUS, StateSource(self._board.published))
        self._take(changes)
        self._context.ready("follows devices")

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._client.close()

    def _client_options(self) -> ClientOptions:
        layout = self._context.layout
        certificate, key = layout.client_cert(USER)
        server = self._context.settings.api_url
        return ClientOptions(server=server, ca=layout.ca_cert, cert=certificate, key=key, user_agent=USER)

    # what others say

    def _on_held(self, uid: str) -> None:
        self._board.held_changed(uid)
        self._soon()

    def _on_health(self, key: str) -> None:
        self._board.health_changed(key)
        self._soon()

    def _soon(self) -> None:
        """Changes that arrive together are published together; nothing before all streams were heard."""
        if self._stream is not None and not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self._settle)

    # what others hear

    def _settle(self) -> None:
        self._settling = False
        now = time.monotonic()
        changes = self._board.settle(now)
        for uid, status in changes.items():
            self._publish(uid, status)
        self._take(changes)
        self._settle_later(now)

    def _settle_later(self, now: float) -> None:
        """When the first of the pods that changed too often may change again."""
        due = self._board.next_due()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if due is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due - now), self._settle)

    def _publish(self, uid: str, status: PodResourceStatus | None) -> None:
        if self._stream is not None:
            op = Op.DELETE if status is None else Op.UPSERT
            self._stream.publish(op, uid, status or PodResourceStatus(uid=uid, containers={}))

    def _take(self, changes: Changes) -> None:
        now = time.monotonic()
        for uid, status in changes.items():
            if status is None:
                self._teller.forget(uid)
            else:
                self._meter.published.inc()
                self._observe(status, now)
        if changes:
            self._wake.set()

    def _observe(self, status: PodResourceStatus, now: float) -> None:
        """That nobody knows of the devices of a pod that is over is no news."""
        seen, ended = set[Subject](), self._sources.ended(status.uid)
        for container, entries in (*status.containers.items(), ("", status.pod)):
            for entry in entries:
                for device in entry.resources:
                    subject = Subject(status.uid, container, entry.name, device.resourceID)
                    seen.add(subject)
                    if not (ended and device.health == UNKNOWN):
                        self._teller.observe(subject, device.health, device.message, now, ended)
        self._teller.forget(status.uid, frozenset(seen))

    async def _tell(self) -> None:
        while True:
            now = time.monotonic()
            for notice in self._teller.due(now):
                self._event(notice)
            due = self._teller.next_due(now)
            try:
                async with asyncio.timeout(None if due is None else max(0.01, due - now)):
                    await self._wake.wait()
                    self._wake.clear()
                    await asyncio.sleep(TOGETHER_S)
            except TimeoutError:
                continue

    def _event(self, notice: Notice) -> None:
        pod = self._sources.pod(notice.uid)
        if pod is not None:
            self._meter.events.labels(reason=notice.reason).inc()
            metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
            reference = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            path = self._sources.field_path(notice.uid, notice.container)
            self._events.event(reference, notice.type, notice.reason, notice.message, path)


def main(argv: list[str] | None = None) -> None:
    run_actor("health", Health, argv)


if __name__ == "__main__":
    main()
