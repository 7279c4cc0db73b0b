"""pleg: tells what happened to which pod in the runtime, and what each pod's status there is.

Why a process: relisting and diffing must neither delay runtime calls nor the pod workers.
Owns: the pod status cache (derived); the streams `pod-lifecycle` and `pod-status`.
On kill -9: the cache is rebuilt by one relist; transitions of the gap reach followers as changed statuses.
"""

import asyncio
import time

from google.protobuf.message import DecodeError

from actors.pleg.errors import NotNewer
from actors.pleg.ledger import Change, Ledger
from actors.pleg.metrics import PlegMetrics
from actors.pleg.mode import Mode, plan
from actors.pleg.relister import Relister, RelisterOptions
from actors.pleg.runtime import Runtime
from actors.pleg.waiters import Waiters
from protocols.actor import Context, run_actor
from protocols.bus import Call, EdgeSource, Event, Op, Replica, StateSource
from protocols.messages import cri as cri_messages
from protocols.messages import pleg as messages
from protocols.wire import cri_pb2


class Pleg:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._ledger = Ledger()
        self._waiters = Waiters()
        self._state = cri_messages.RuntimeState()
        self._stamps = True
        self._plan = plan(self._state, self._stamps, self._gate)
        self._published: dict[str, messages.PodStatus] = {}
        self._statuses = context.bus.own(messages.POD_STATUS, StateSource(self._published))
        self._lifecycle = context.bus.own(messages.POD_LIFECYCLE, EdgeSource())
        self._relister = Relister(self._relister_options())
        self._metrics = PlegMetrics(context.registry, self._ledger, self._relister)

    @property
    def _gate(self) -> bool:
        return self._context.settings.gate("EventedPLEG")

    def _relister_options(self) -> RelisterOptions:
        return RelisterOptions(
            ledger=self._ledger,
            runtime=Runtime(self._context.bus),
            on_change=self._publish,
            on_relist=self._on_relist,
            on_stamps=self._on_stamps,
            period=lambda: self._plan.period_s,
        )

    async def start(self) -> None:
        bus = self._context.bus
        bus.serve(messages.GET_NEWER_THAN, messages.GetNewerThan, self._get_newer_than)
        bus.serve(messages.RELIST_POD, messages.RelistPod, self._relist_pod)
        states = Replica[cri_messages.RuntimeState](self._on_state)
        cri, state, events = cri_messages.OWNER, cri_messages.RUNTIME_STATE, cri_messages.CONTAINER_EVENTS
        bus.follow(owner=cri, stream=state, sink=states, type=cri_messages.RuntimeState)
        bus.follow(owner=cri, stream=events, sink=self, type=cri_messages.ContainerEvent)
        self._context.spawn(self._relister.run(), "relist")

    async def stop(self) -> None:
        self._waiters.wake_all()

    # the edge stream of container events

    def on_snapshot(self, items: list[tuple[str, cri_messages.ContainerEvent]], mark: int) -> None:
        """A gap: events may be lost, and what comes next may not be merged before a relist."""
        self._distrust()

    def on_event(self, event: Event[cri_messages.ContainerEvent]) -> None:
        if event.value is None:
            return
        try:
            response = cri_pb2.ContainerEventResponse.FromString(event.value.payload)
        except DecodeError:
            self._distrust()
        else:
            self._metrics.received(response.created_at, event.value.received_ns)
            self._take(response)

    def on_mark(self, mark: int) -> None:
        """Edge streams carry no marks."""

    def on_synced(self, synced: bool) -> None:
        if not synced:
            self._ledger.trusted = False

    def _take(self, response: "cri_pb2.ContainerEventResponse") -> None:
        uid = response.pod_sandbox_status.metadata.uid
        if not uid:
            self._relister.full()
        elif not self._ledger.trusted or self._plan.mode is not Mode.EVENTED:
            self._relister.one(uid)
        elif change := self._ledger.event(response, time.time_ns()):
            self._publish(change)

    def _distrust(self) -> None:
        self._ledger.trusted = False
        self._relister.full()

    # what the relister found

    def _on_state(
        self, op: Op, key: str, new: cri_messages.RuntimeState | None, old: cri_messages.RuntimeState | None
    ) -> None:
        before, self._state = self._state, new or cri_messages.RuntimeState()
        self._metrics.stream(before, self._state)
        self._replan()
        if self._state.streaming != before.streaming or (self._state.connected and not before.connected):
            self._distrust()

    def _on_stamps(self, stamps: bool) -> None:
        if stamps != self._stamps:
            self._stamps = stamps
            self._replan()

    def _replan(self) -> None:
        self._plan = plan(self._state, self._stamps, self._gate)
        self._context.note(f"{self._plan.mode.value}: {self._plan.why}")

    def _on_relist(self, seconds: float) -> None:
        self._ledger.trusted = self._state.streaming
        self._metrics.relisted(seconds)
        self._waiters.wake_all()
        self._context.ready(f"{self._plan.mode.value}: {self._plan.why}")

    def _publish(self, change: Change) -> None:
        if change.status is None:
            self._published.pop(change.uid, None)
            self._statuses.publish(Op.DELETE, change.uid, messages.PodStatus(uid=change.uid))
        else:
            self._published[change.uid] = change.status
            self._statuses.publish(Op.UPSERT, change.uid, change.status)
        for event in change.events:
            self._lifecycle.publish(Op.APPEND, change.uid, event)
        self._waiters.wake(change.uid)

    # what others ask

    async def _get_newer_than(self, request: messages.GetNewerThan, call: Call) -> messages.PodStatus:
        """A waiter does not wait for an event that may never come: it has the pod inspected now."""
        cache, uid = self._ledger.cache, request.uid
        if not cache.newer_than(uid, request.min_ns):
            self._relister.one(uid).add_done_callback(lambda _: self._waiters.wake(uid))
            left = max(0.0, call.deadline - asyncio.get_running_loop().time())
            if not await self._waiters.until(uid, lambda: cache.newer_than(uid, request.min_ns), left):
                raise NotNewer(f"nothing newer became known of pod {uid}: {self._relister.failure or 'runtime slow'}")
        return cache.get(uid) or messages.PodStatus(uid=uid)

    async def _relist_pod(self, request: messages.RelistPod, call: Call) -> messages.Empty:
        self._relister.one(request.uid)
        return messages.Empty()


def main(argv: list[str] | None = None) -> None:
    run_actor("pleg", Pleg, argv)


if __name__ == "__main__":
    main()
