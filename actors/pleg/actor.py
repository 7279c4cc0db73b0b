"""pleg: publish each pod's status in the runtime, and lifecycle events of its containers (KEP-3386).

A process of its own, so that relists delay neither runtime calls nor pod workers. Owns the pod status cache (derived)
and the streams `pod-lifecycle`, `pod-status` and `pleg-state`. On kill -9 one relist rebuilds the cache; followers see
the transitions of the gap as changed statuses.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec
from google.protobuf.message import DecodeError

from actors.pleg.shell.metrics import MetricsOptions, PlegMetrics
from actors.pleg.shell.mode_selector import ModeSelector, ModeSelectorOptions
from actors.pleg.shell.publisher import NotNewer, PodPublisher, Waiters
from actors.pleg.shell.relister import Relister, RelisterOptions
from actors.pleg.shell.runtime_client import RuntimeClient
from actors.pleg.state_machine.lifecycle_events import OOM_RECHECK_S, Source, may_become_oom_killed
from actors.pleg.state_machine.missed_events import GRACE_NS, QUEUE_DROP, LostEvents, MissedEvents
from actors.pleg.state_machine.mode import Mode
from actors.pleg.state_machine.status_merger import StatusChange, StatusMerger
from protocols.actor import Context, run_actor
from protocols.bus import Call, EdgeSource, Event, Op, Replica, StateSource, StreamSink
from protocols.messages import cri as cri_messages
from protocols.messages import pleg as messages
from protocols.messages.trace import PASSED_ON, POD_EVENT, RUNTIME_EVENT
from protocols.trace import clock, from_wall, record
from protocols.wire import cri_pb2
from protocols.wire.event_numbers import number_of

KEY = "pleg"
FAILING_WAIT_S = 2.0
"""Longest wait of GetNewerThan while inspections fail."""
ANSWER_MARGIN_S = 0.1
"""GetNewerThan answers this long before its caller's deadline, so that the caller learns the reason."""
ARRIVAL_S = 1.0
"""Time in which an event arrives that the runtime had emitted when it reported its number."""
LONGEST_ID = 1024
"""Characters of the ids of a container and a pod in an event: those of 10,000 events are retained."""
EVENT_TYPES = {number: name for name, number in cri_pb2.ContainerEventType.items()}
"""Names of the known types: a runtime may send others."""


class PlegActor(StreamSink[cri_messages.ContainerEvent]):
    """Joins relists, events and the cache, and publishes what changed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._merger = StatusMerger()
        self._missed = MissedEvents()
        self._lost = LostEvents()
        self._waiters = Waiters()
        self._synced = False
        """True while the event stream from cri is connected."""
        self._undecodable_logged = False
        self._gap_at = 0.0
        """Monotonic time of the last gap in the event stream. Events are merged only after a full relist that began
        later."""
        self._published_states: dict[str, messages.PlegState] = {}
        published: dict[str, messages.PodStatus] = {}
        statuses = context.bus.own(messages.POD_STATUS, StateSource(published))
        self._states = context.bus.own(messages.PLEG_STATE, StateSource(self._published_states))
        self._publisher = PodPublisher(published, statuses, context.bus.own(messages.POD_LIFECYCLE, EdgeSource()))
        self._mode_selector = ModeSelector(self._selector_options())
        self._metrics = PlegMetrics(self._metrics_options())
        self._relister = Relister(self._relister_options())
        self._mode_selector.on_period = self._relister.period_changed

    def _selector_options(self) -> ModeSelectorOptions:
        settings = self._context.settings
        gate = settings.gate("EventedPLEG")
        return ModeSelectorOptions(settings.pleg_mode, gate, self._merger, self._publish_state)

    def _metrics_options(self) -> MetricsOptions:
        gate = self._context.settings.gate("EventedPLEG")
        return MetricsOptions(self._context.registry, self._merger, self._mode_selector, self._missed, self._lost, gate)

    def _relister_options(self) -> RelisterOptions:
        return RelisterOptions(
            merger=self._merger,
            runtime=RuntimeClient(self._context.bus),
            mode=self._mode_selector,
            on_change=self._on_found,
            on_relist=self._on_relist,
            on_inspected=self._metrics.inspected,
            on_failure=self._note,
        )

    async def start(self) -> None:
        bus = self._context.bus
        bus.serve(messages.GET_NEWER_THAN, messages.GetNewerThan, self._get_newer_than)
        bus.serve(messages.RELIST_POD, messages.RelistPod, self._relist_pod)
        states = Replica[cri_messages.RuntimeState](self._on_state)
        cri, state, events = cri_messages.OWNER, cri_messages.RUNTIME_STATE, cri_messages.CONTAINER_EVENTS
        bus.follow(owner=cri, stream=state, sink=states, type=cri_messages.RuntimeState)
        bus.follow(owner=cri, stream=events, sink=self, type=cri_messages.ContainerEvent)
        self._mode_selector.publish()
        self._context.spawn(self._relister.run(), "relist")
        self._context.spawn(self._mode_selector.watch_health(), "health")

    async def stop(self) -> None:
        self._waiters.wake_all()

    # the edge stream of container events

    def on_snapshot(self, items: list[tuple[str, cri_messages.ContainerEvent]], mark: int) -> None:
        """Handle a gap: events may be lost, so a relist must precede further merging."""
        if self._missed.up_since:
            self._missed.stream_opened(time.time_ns(), QUEUE_DROP)
        self._require_relist()

    def on_event(self, event: Event[cri_messages.ContainerEvent]) -> None:
        if event.value is None:
            return
        try:
            response = cri_pb2.ContainerEventResponse.FromString(event.value.payload)
        except DecodeError:
            self._undecodable(event.value.payload)
            return
        if max(len(response.container_id), len(response.pod_sandbox_status.metadata.uid)) > LONGEST_ID:
            self._undecodable(event.value.payload)
        else:
            if self._lost.received(number_of(response)):
                self._relister.request_relist()
            self._metrics.received(response.created_at, event.value.received_ns)
            self._missed.event(response.container_id, response.container_event_type)
            self._record_event(response, event.value.received_ns)
            self._merge_event(response)

    def _undecodable(self, payload: bytes) -> None:
        if not self._undecodable_logged:
            self._undecodable_logged = True
            self._context.log.warning(
                "runtime event undecodable bytes=%d: only the first is logged, "
                "nodeplane_pleg_undecodable_events_total counts all; check the runtime's CRI version",
                len(payload),
            )
        self._metrics.undecodable.inc()
        self._require_relist()

    def on_synced(self, synced: bool) -> None:
        self._synced = synced
        if synced:
            self._relister.request_relist()
        else:
            self._merger.trusted = False
            self._mode_selector.publish()

    def _record_event(self, response: "cri_pb2.ContainerEventResponse", received_ns: int) -> None:
        """Record the way of an event: here it is decoded, cri passes it on unread."""
        if not (uid := response.pod_sandbox_status.metadata.uid):
            return
        arrived = from_wall(received_ns)
        kind = EVENT_TYPES.get(response.container_event_type, str(response.container_event_type))
        began = from_wall(response.created_at) if response.created_at > 0 else arrived
        record(uid, RUNTIME_EVENT, began, arrived, "cri", type=kind, id=response.container_id)
        record(uid, PASSED_ON, arrived, type=kind, id=response.container_id)

    def _merge_event(self, response: "cri_pb2.ContainerEventResponse") -> None:
        if self._mode_selector.plan.mode is Mode.GENERIC:
            return  # only counted: a relist each second finds every change
        uid = response.pod_sandbox_status.metadata.uid or self._merger.owner_of(response.container_id)
        if not uid:
            self._relister.request_relist()
        elif not (self._merger.trusted and self._mode_selector.merges):
            self._relister.request_inspection(uid)
        else:
            now_ns = time.time_ns()
            self._obey_clock(now_ns)
            result = self._merger.event(response, now_ns)
            if result.inspect:
                self._relister.request_inspection(uid)
            if result.change is not None:
                self._publish(result.change, Source.EVENT)

    def _obey_clock(self, now_ns: int) -> None:
        if self._merger.cache.at(now_ns):
            self._context.log.warning("the clock went back, all pods are inspected again")
            self._relister.request_relist()

    def _require_relist(self) -> None:
        self._merger.trusted = False
        self._gap_at = time.monotonic()
        self._mode_selector.publish()
        self._relister.request_relist()

    # the runtime's state

    def _on_state(
        self, op: Op, key: str, new: cri_messages.RuntimeState | None, old: cri_messages.RuntimeState | None
    ) -> None:
        before, now = self._mode_selector.runtime, new or cri_messages.RuntimeState()
        if now.streaming and not before.streaming:
            self._missed.stream_opened(time.time_ns())
        elif not now.streaming:
            self._missed.stream_closed()
        self._mode_selector.on_runtime(now)
        newest = now.newest_event
        if newest is not None and newest != before.newest_event:
            asyncio.get_running_loop().call_later(ARRIVAL_S, self._check_arrival, newest)
        if now.streaming != before.streaming or (now.connected and not before.connected):
            self._require_relist()

    def _check_arrival(self, newest: cri_messages.EventNumber) -> None:
        """Relist if the newest events of the runtime did not arrive: no later event shows the gap."""
        runtime = self._mode_selector.runtime
        current = runtime.newest_event
        if current is None or current.incarnation != newest.incarnation:
            return
        if self._lost.missing(newest) and runtime.streaming:
            self._relister.request_relist()

    # mode and health

    def _publish_state(self, state: messages.PlegState) -> None:
        self._published_states[KEY] = state
        self._states.publish(Op.UPSERT, KEY, state)
        self._note()

    def _note(self) -> None:
        state = self._published_states.get(KEY, messages.PlegState())
        wrong = "; ".join(filter(None, (state.message, self._relister.failure)))
        self._context.note(f"{state.mode}: {state.why}" + (f"; {wrong}" if wrong else ""))

    # what the relister found

    def _on_relist(self, seconds: float) -> None:
        streaming = self._mode_selector.runtime.streaming and self._synced
        self._merger.trusted = streaming and self._mode_selector.last_started > self._gap_at
        self._metrics.relisted(seconds)
        self._publisher.flush()  # before the state says that all pods are listed
        self._waiters.wake_all()
        self._mode_selector.on_relist()
        self._context.ready()

    def _on_found(self, change: StatusChange, source: Source) -> None:
        """Publish a change found by inspection, and check later if its event was missed."""
        if self._missed.inspected(change.old, change.new, change.since, time.time_ns()):
            asyncio.get_running_loop().call_later(GRACE_NS / 1e9 + 0.1, self._settle)
        self._publish(change, source)

    def _settle(self) -> None:
        if self._missed.settle(time.time_ns()):
            self._mode_selector.on_missed_events()

    def _publish(self, change: StatusChange, source: Source) -> None:
        if may_become_oom_killed(change.old, change.status):
            asyncio.get_running_loop().call_later(OOM_RECHECK_S, self._relister.request_inspection, change.uid)
        mode = self._mode_selector.plan.mode
        self._publisher.put(change, source, mode)
        for event in change.events:
            record(change.uid, POD_EVENT, clock(), type=event.type, id=event.id, mode=mode.value)
        self._waiters.wake(change.uid)

    # what others ask

    async def _get_newer_than(self, request: messages.GetNewerThan, call: Call) -> messages.PodStatus:
        # Inspect at once instead of waiting for an event that may never come.
        cache, uid = self._merger.cache, request.uid
        self._obey_clock(time.time_ns())
        if not cache.newer_than(uid, request.min_ns):
            self._relister.inspect(uid).add_done_callback(lambda _: self._waiters.wake(uid))
            if not await self._wait_until(lambda: cache.newer_than(uid, request.min_ns), uid, call):
                raise NotNewer(f"nothing newer became known of pod {uid}: {self._relister.failure or 'runtime slow'}")
        status = cache.get(uid) or messages.PodStatus(uid=uid)
        return msgspec.structs.replace(status, timestamp_ns=max(status.timestamp_ns, cache.known_until(uid)))

    async def _wait_until(self, newer: Callable[[], bool], uid: str, call: Call) -> bool:
        """Wait until `newer()`, at most to the deadline, and only FAILING_WAIT_S while inspections fail."""
        left = max(0.0, call.deadline - ANSWER_MARGIN_S - asyncio.get_running_loop().time())
        if await self._waiters.until(uid, newer, min(left, FAILING_WAIT_S)):
            return True
        return not self._relister.failure and await self._waiters.until(uid, newer, max(0.0, left - FAILING_WAIT_S))

    async def _relist_pod(self, request: messages.RelistPod, call: Call) -> messages.Empty:
        self._relister.inspect(request.uid)
        return messages.Empty()


def main(argv: list[str] | None = None) -> None:
    run_actor("pleg", PlegActor, argv)


if __name__ == "__main__":
    main()
