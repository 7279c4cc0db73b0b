"""health: publish the health of allocated devices in pod status and as events (KEP-4680).

A process of its own, so that the consequences of a broken device delay neither admissions (devices) nor pod syncs
(podworker). Owns the stream `resource-status` and nothing durable. On kill -9 it is rebuilt from the streams of devices
and podworker; first observations are no transitions, so no event is repeated for healthy devices.
"""

import asyncio
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import Metric

from actors.health.input_streams import InputStreams
from protocols.actor import Context, run_actor
from protocols.actor.metrics import labelled, single
from protocols.bus import BusError, Op, StateSource, Stream
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.events import EventRecorder, RecorderOptions
from protocols.lifecycle.devices.event_limiter import AllocatedDevice, Health, HealthEvent, HealthEventLimiter
from protocols.lifecycle.devices.status_table import StatusChanges, StatusTable, held_devices
from protocols.messages import health
from protocols.messages.health import PodResourceStatus, health_text
from protocols.messages.trace import DEVICE_HEALTH
from protocols.process.families import CounterFamily, GaugeFamily
from protocols.trace import clock, from_wall, record

USER = "health"
GATE = "ResourceHealthStatus"
SYNC_TIMEOUT_S = 60.0
EVENT_BATCH_WINDOW_S = 0.1
"""Delay before events are built, so that devices that change one after another share an event."""
MIN_EVENT_WAIT_S = 0.01


class HealthActor:
    """The actor: reads devices and allocations, publishes `resource-status`, records events."""

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        by_request = settings.claim_health_names == "request"
        inputs = InputStreams(self._on_held_changed, self._on_health_changed, claims_by_request=by_request)
        self._inputs = inputs
        self._table = StatusTable(inputs.held, inputs.health, settings.device_health_rate, inputs.pod_finished)
        self._limiter = HealthEventLimiter()
        self._output: Stream | None = None
        self._client = ApiClient(self._client_options())
        options = RecorderOptions(component="kubelet", host=context.settings.node_name)
        self._recorder = EventRecorder(self._client, options)
        self._metrics = HealthMetrics(context.registry, self._table)
        self._refresh_scheduled = False
        self._refresh_timer: asyncio.TimerHandle | None = None
        self._statuses_changed = asyncio.Event()

    async def start(self) -> None:
        if not self._context.settings.gate(GATE):
            self._context.ready(f"feature gate {GATE} is off: publishes nothing")
            return
        await self._client.start()
        self._inputs.follow(self._context.bus)
        self._context.spawn(self._recorder.run(), "event recorder")
        self._context.spawn(self._record_due_events(), "event limiter")
        self._context.spawn(self._publish_first(), "first sync")

    async def stop(self) -> None:
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        await self._client.close()

    def _client_options(self) -> ClientOptions:
        layout = self._context.layout
        certificate, key = layout.client_cert(USER)
        server = self._context.settings.api_url
        return ClientOptions(server=server, ca=layout.ca_cert, cert=certificate, key=key, user_agent=USER)

    async def _publish_first(self) -> None:
        # Own the stream only once it is complete: a follower from before a restart must not see pods disappear.
        while True:
            try:
                await self._inputs.wait_synced(SYNC_TIMEOUT_S)
                break
            except BusError as error:
                self._context.note(str(error))
        now = time.monotonic()
        changes = self._table.refresh(now)
        self._output = self._context.bus.own(health.RESOURCE_STATUS, StateSource(self._table.published))
        self._observe(changes)
        self._reset_timer(now)
        self._context.ready("follows devices")

    # pod status

    def _on_held_changed(self, uid: str) -> None:
        self._table.held_changed(uid)
        self._schedule_refresh()

    def _on_health_changed(self, key: str) -> None:
        self._table.health_changed(key)
        self._schedule_refresh()

    def _schedule_refresh(self) -> None:
        """Refresh once for all changes that arrive in this iteration of the event loop."""
        if self._output is not None and not self._refresh_scheduled:
            self._refresh_scheduled = True
            asyncio.get_running_loop().call_soon(self._refresh)

    def _refresh(self) -> None:
        self._refresh_scheduled = False
        now = time.monotonic()
        changes = self._table.refresh(now)
        for uid, status in changes.items():
            self._publish(uid, status)
        self._observe(changes)
        self._reset_timer(now)

    def _reset_timer(self, now: float) -> None:
        due = self._table.next_due()
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        self._refresh_timer = None
        if due is not None:
            self._refresh_timer = asyncio.get_running_loop().call_later(max(0.0, due - now), self._refresh)

    def _publish(self, uid: str, status: PodResourceStatus | None) -> None:
        if self._output is not None:
            if status is not None and status.reported_ns:
                record(uid, DEVICE_HEALTH, from_wall(status.reported_ns), health=health_text(status))
            op = Op.DELETE if status is None else Op.UPSERT
            self._output.publish(op, uid, status or PodResourceStatus(uid=uid, containers={}))

    # events

    def _observe(self, changes: StatusChanges) -> None:
        now = time.monotonic()
        for uid, status in changes.items():
            if status is None:
                self._limiter.forget(uid)
            else:
                self._metrics.published.inc()
                self._observe_pod(status, now)
        if changes:
            self._statuses_changed.set()

    def _observe_pod(self, status: PodResourceStatus, now: float) -> None:
        observed, finished = set[AllocatedDevice](), self._inputs.pod_finished(status.uid)
        for container, entries in (*status.containers.items(), ("", status.pod)):
            for entry in entries:
                for resource in entry.resources:
                    device = AllocatedDevice(status.uid, container, entry.name, resource.resourceID)
                    state = Health(resource.health)
                    observed.add(device)
                    # A finished pod has released its devices, so their health becoming unknown is no news about it.
                    if not (finished and state == Health.UNKNOWN):
                        self._limiter.observe(device, state, resource.message, now, pod_finished=finished)
        self._limiter.forget(status.uid, kept=frozenset(observed))

    async def _record_due_events(self) -> None:
        while True:
            now = time.monotonic()
            for event in self._limiter.due(now):
                self._record(event)
            due = self._limiter.next_due(now)
            try:
                async with asyncio.timeout(None if due is None else max(MIN_EVENT_WAIT_S, due - now)):
                    await self._statuses_changed.wait()
                    self._statuses_changed.clear()
                    await asyncio.sleep(EVENT_BATCH_WINDOW_S)
            except TimeoutError:
                continue

    def _record(self, event: HealthEvent) -> None:
        pod = self._inputs.pod(event.uid)
        if pod is not None:
            self._metrics.events.labels(reason=event.reason).inc()
            metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
            reference = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            record(event.uid, "event", clock(), reason=event.reason, message=event.message)
            path = self._inputs.field_path(event.uid, event.container)
            self._recorder.event(reference, event.type, event.reason, event.message, path, limited=True)


PUBLISHED = CounterFamily("nodeplane_health_published_total", "Published changes of a pod's device health.")
EVENTS = CounterFamily("nodeplane_health_events_total", "Events about device health, by their reason.", ("reason",))
PUT_OFF = CounterFamily(
    "nodeplane_health_put_off_total", "Health changes of pods whose status was waiting for its rate limit."
)
PODS = GaugeFamily("nodeplane_health_pods", "Pods with published device health.")
DEVICES = GaugeFamily(
    "nodeplane_health_devices",
    "Devices that pods hold, by resource and health; those of all claims have the resource claim.",
    ("resource", "health"),
)


class HealthMetrics:
    """Counts published changes and events; the table is read when metrics are."""

    def __init__(self, registry: CollectorRegistry, table: StatusTable) -> None:
        self.published = Counter(*PUBLISHED, registry=registry)
        self.events = Counter(*EVENTS, registry=registry)
        registry.register(_TableCollector(table))


class _TableCollector:
    """Read the table's figures at scrape time."""

    def __init__(self, table: StatusTable) -> None:
        self._table = table

    def collect(self) -> Iterator[Metric]:
        yield single(PUT_OFF, self._table.suppressed)
        yield single(PODS, len(self._table.published))
        devices = labelled(DEVICES)
        for (resource, state), count in held_devices(self._table.published.values()).items():
            devices.add_metric([resource, state], count)
        yield devices


def main(argv: list[str] | None = None) -> None:
    run_actor("health", HealthActor, argv)


if __name__ == "__main__":
    main()
