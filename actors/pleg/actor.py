"""pleg: tells what happened to which pod in the runtime, and what each pod's status there is.

Why a process: relisting and diffing must neither delay runtime calls nor the pod workers.
Owns: the pod status cache (derived); the streams `pod-lifecycle` and `pod-status`.
On kill -9: the cache is rebuilt by one relist; transitions of the gap reach followers as changed statuses.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec
from google.protobuf.message import DecodeError

from actors.pleg.service.metrics import MetricsOptions, PlegMetrics
from actors.pleg.service.mode_selector import Stance, StanceOptions
from actors.pleg.service.publisher import NotNewer, Outbox, Waiters
from actors.pleg.service.relister import Relister, RelisterOptions
from actors.pleg.service.runtime_client import Runtime
from actors.pleg.state_machine.lifecycle_events import LATE_S, may_be_told_more
from actors.pleg.state_machine.missed_events import GRACE_NS, QUEUE_DROP, LostEvents, MissedEvents
from actors.pleg.state_machine.mode import Mode
from actors.pleg.state_machine.status_merger import Change, Ledger
from protocols.actor import Context, run_actor
from protocols.bus import Call, EdgeSource, Event, Op, Replica, StateSource
from protocols.messages import cri as cri_messages
from protocols.messages import pleg as messages
from protocols.wire import cri_pb2
from protocols.wire.event_numbers import number_of

KEY = "pleg"
FAILING_S = 2.0
"""GetNewerThan waits so long while inspections fail."""
ANSWER_S = 0.1
"""GetNewerThan gives up this long before its caller does, so that the reason still reaches him."""


class Pleg:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._ledger = Ledger()
        self._missed = MissedEvents()
        self._lost = LostEvents()
        self._waiters = Waiters()
        self._hearing = False
        """Events of the runtime reach us."""
        self._distrusted_ns = 0
        """A full relist must begin later than this before events may be merged again."""
        self._told: dict[str, messages.PlegState] = {}
        published: dict[str, messages.PodStatus] = {}
        statuses = context.bus.own(messages.POD_STATUS, StateSource(published))
        self._states = context.bus.own(messages.PLEG_STATE, StateSource(self._told))
        self._outbox = Outbox(published, statuses, context.bus.own(messages.POD_LIFECYCLE, EdgeSource()))
        self._relister = Relister(self._relister_options())
        self._stance = Stance(self._stance_options())
        gate = context.settings.gate("EventedPLEG")
        options = MetricsOptions(context.registry, self._ledger, self._relister, self._missed, self._lost, gate)
        self._metrics = PlegMetrics(options)

    def _stance_options(self) -> StanceOptions:
        settings = self._context.settings
        return StanceOptions(
            mode=settings.pleg_mode,
            gate=settings.gate("EventedPLEG"),
            last_started=lambda: self._relister.last_started,
            on_period=lambda: self._relister.rearm(),
            on_state=self._tell_state,
            believes=lambda: self._ledger.trusted,
        )

    def _relister_options(self) -> RelisterOptions:
        return RelisterOptions(
            ledger=self._ledger,
            runtime=Runtime(self._context.bus),
            on_change=self._on_found,
            on_relist=self._on_relist,
            on_stamps=lambda stamps: self._stance.on_stamps(stamps),
            on_failure=self._note,
            on_inspected=lambda seconds: self._metrics.inspected(seconds),
            period=lambda: self._stance.plan.period_s,
        )

    async def start(self) -> None:
        bus = self._context.bus
        bus.serve(messages.GET_NEWER_THAN, messages.GetNewerThan, self._get_newer_than)
        bus.serve(messages.RELIST_POD, messages.RelistPod, self._relist_pod)
        states = Replica[cri_messages.RuntimeState](self._on_state)
        cri, state, events = cri_messages.OWNER, cri_messages.RUNTIME_STATE, cri_messages.CONTAINER_EVENTS
        bus.follow(owner=cri, stream=state, sink=states, type=cri_messages.RuntimeState)
        bus.follow(owner=cri, stream=events, sink=self, type=cri_messages.ContainerEvent)
        self._stance.tell()
        self._context.spawn(self._relister.run(), "relist")
        self._context.spawn(self._watch_health(), "health")

    async def stop(self) -> None:
        self._waiters.wake_all()

    # the edge stream of container events

    def on_snapshot(self, items: list[tuple[str, cri_messages.ContainerEvent]], mark: int) -> None:
        """A gap: events may be lost, and what comes next may not be merged before a relist."""
        if self._missed.up_since:
            self._missed.opened(time.time_ns(), QUEUE_DROP)
        self._distrust()

    def on_event(self, event: Event[cri_messages.ContainerEvent]) -> None:
        if event.value is None:
            return
        try:
            response = cri_pb2.ContainerEventResponse.FromString(event.value.payload)
        except DecodeError:
            self._distrust()
        else:
            self._lost.received(number_of(response))
            self._metrics.received(response.created_at, event.value.received_ns)
            self._missed.event(response.container_id, response.container_event_type)
            self._take(response)

    def on_mark(self, mark: int) -> None:
        """Edge streams carry no marks."""

    def on_synced(self, synced: bool) -> None:
        self._hearing = synced
        if synced:
            self._relister.full()
        else:
            self._ledger.trusted = False
            self._stance.tell()

    def _take(self, response: "cri_pb2.ContainerEventResponse") -> None:
        """In generic mode events are counted and nothing more: each second everything is listed."""
        if self._stance.plan.mode is Mode.GENERIC:
            return
        uid = response.pod_sandbox_status.metadata.uid or self._ledger.owner_of(response.container_id)
        if not uid:
            self._relister.full()
        elif not (self._ledger.trusted and self._stance.merges):
            self._relister.hint(uid)
        else:
            taken = self._ledger.event(response, time.time_ns())
            if taken.doubt:
                self._relister.hint(uid)
            if taken.change is not None:
                self._publish(taken.change)

    def _distrust(self) -> None:
        self._ledger.trusted = False
        self._distrusted_ns = time.time_ns()
        self._stance.tell()
        self._relister.full()

    # the runtime's state

    def _on_state(
        self, op: Op, key: str, new: cri_messages.RuntimeState | None, old: cri_messages.RuntimeState | None
    ) -> None:
        before, now = self._stance.runtime, new or cri_messages.RuntimeState()
        if now.streaming and not before.streaming:
            self._missed.opened(time.time_ns())
        elif not now.streaming:
            self._missed.down()
        self._stance.on_runtime(now)
        if now.streaming != before.streaming or (now.connected and not before.connected):
            self._distrust()

    # mode and health

    async def _watch_health(self) -> None:
        while True:
            await asyncio.sleep(self._stance.check_in)
            self._stance.tell()

    def _tell_state(self, state: messages.PlegState) -> None:
        self._told[KEY] = state
        self._states.publish(Op.UPSERT, KEY, state)
        self._note()

    def _note(self) -> None:
        state = self._told.get(KEY, messages.PlegState())
        wrong = "; ".join(filter(None, (state.message, self._relister.failure)))
        self._context.note(f"{state.mode}: {state.why}" + (f"; {wrong}" if wrong else ""))

    # what the relister found

    def _on_relist(self, began_ns: int, seconds: float) -> None:
        streaming = self._stance.runtime.streaming and self._hearing
        self._ledger.trusted = streaming and began_ns > self._distrusted_ns
        self._metrics.relisted(seconds)
        self._waiters.wake_all()
        self._stance.on_relist()
        self._context.ready()

    def _on_found(self, change: Change) -> None:
        """An inspection found something; had an event to tell of it?"""
        if self._missed.found(change.old, change.new, change.since, time.time_ns()):
            asyncio.get_running_loop().call_later(GRACE_NS / 1e9 + 0.1, self._settle)
        self._publish(change)

    def _settle(self) -> None:
        if self._missed.settle(time.time_ns()):
            self._stance.suspect()

    def _publish(self, change: Change) -> None:
        if may_be_told_more(change.old, change.status):
            asyncio.get_running_loop().call_later(LATE_S, self._relister.hint, change.uid)
        self._outbox.put(change)
        self._waiters.wake(change.uid)

    # what others ask

    async def _get_newer_than(self, request: messages.GetNewerThan, call: Call) -> messages.PodStatus:
        """A waiter does not wait for an event that may never come: it has the pod inspected now."""
        cache, uid = self._ledger.cache, request.uid
        if not cache.newer_than(uid, request.min_ns):
            self._relister.one(uid).add_done_callback(lambda _: self._waiters.wake(uid))
            if not await self._became(lambda: cache.newer_than(uid, request.min_ns), uid, call):
                raise NotNewer(f"nothing newer became known of pod {uid}: {self._relister.failure or 'runtime slow'}")
        status = cache.get(uid) or messages.PodStatus(uid=uid)
        return msgspec.structs.replace(status, timestamp_ns=max(status.timestamp_ns, cache.certain(uid)))

    async def _became(self, newer: Callable[[], bool], uid: str, call: Call) -> bool:
        """Waits to the deadline; while the runtime gives no usable answer not that long, so that the reason is told."""
        left = max(0.0, call.deadline - ANSWER_S - asyncio.get_running_loop().time())
        if await self._waiters.until(uid, newer, min(left, FAILING_S)):
            return True
        return not self._relister.failure and await self._waiters.until(uid, newer, max(0.0, left - FAILING_S))

    async def _relist_pod(self, request: messages.RelistPod, call: Call) -> messages.Empty:
        self._relister.one(request.uid)
        return messages.Empty()


def main(argv: list[str] | None = None) -> None:
    run_actor("pleg", Pleg, argv)


if __name__ == "__main__":
    main()
