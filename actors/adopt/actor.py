"""adopt: publish what the real kubelet has allocated, in place of the device manager.

A process of its own, so that watch clients do not notice how slowly kubelet answers. Owns the published state of
kubelet's lists: the streams `allocations`, `allocatable` and `machine`, with the device manager's messages. Events of
the runtime decide when to list; kubelet's list decides what is published.
Events are on disk (ROOT/devices/adopted.json) before they are published, so on kill -9 nothing is lost: clients resume
at their positions, and changes in between are published as a difference.
"""

import time
from pathlib import Path

from actors.adopt.kubelet_client import KubeletClient
from actors.adopt.pod_identity import sandbox_of
from actors.adopt.published_state import PublishedState, StateFile
from actors.adopt.reconciler import AdoptMetrics, ListSchedule, Reconciler, ReconcilerOptions
from protocols.actor import Context, run_actor
from protocols.bus import Call, Event, Op, Replica, StateSource, StreamSink
from protocols.errors import SettingsInvalid
from protocols.messages import cri, devices
from protocols.messages.adopt import KUBELET, STATE, AdoptState
from protocols.messages.devices import Empty, LedgerHistory


class Adopt:
    """Joins kubelet's socket, the runtime's events and the streams."""

    def __init__(self, context: Context) -> None:
        settings = context.settings.adopt
        if settings is None:
            raise SettingsInvalid("nothing to adopt; start this with nodeplane adopt")
        self._context = context
        self._kubelet = KubeletClient(Path(settings.pod_resources))
        self._published = PublishedState(context.bus, time.time_ns())
        self._statuses: dict[str, AdoptState] = {}
        self._status_stream = context.bus.own(STATE, StateSource(self._statuses), ring=16)
        self._runtime = Replica[cri.RuntimeState](self._on_runtime_state)
        self._reconciler = Reconciler(
            ReconcilerOptions(
                kubelet=self._kubelet,
                bus=context.bus,
                state=self._published,
                file=StateFile(context.layout.devices),
                schedule=ListSchedule(settings.poll_s, settings.eventless_s),
                metrics=AdoptMetrics(context.registry),
                log=context.log,
                on_status=self._on_status,
            )
        )

    async def start(self) -> None:
        self._context.bus.serve(devices.HISTORY, Empty, self._history)
        follow, events = self._context.bus.follow, _RuntimeEvents(self._reconciler)
        follow(owner=cri.OWNER, stream=cri.CONTAINER_EVENTS, sink=events, type=cri.ContainerEvent)
        follow(owner=cri.OWNER, stream=cri.RUNTIME_STATE, sink=self._runtime, type=cri.RuntimeState)
        self._context.spawn(self._reconciler.run(), "reconciler")

    async def stop(self) -> None:
        await self._kubelet.close()

    async def _history(self, request: Empty, call: Call) -> LedgerHistory:
        return self._published.history()

    def _on_runtime_state(self, op: Op, key: str, new: cri.RuntimeState | None, old: cri.RuntimeState | None) -> None:
        available = bool(new and new.connected and new.streaming)
        if available != bool(old and old.connected and old.streaming) or old is None:
            self._reconciler.set_events_available(available)

    def _on_status(self, current: bool, message: str) -> None:
        status = AdoptState(current, message)
        if self._statuses.get(KUBELET) == status:
            return
        self._statuses[KUBELET] = status
        self._status_stream.publish(Op.UPSERT, KUBELET, status)
        if self._published.owns_streams and current and not message:
            self._context.ready(self._note())
        else:
            self._context.note(message or self._note())

    def _note(self) -> str:
        limits = "" if self._kubelet.supports_allocatable else ", which does not offer GetAllocatableResources"
        return f"follows kubelet{limits}"


class _RuntimeEvents(StreamSink[cri.ContainerEvent]):
    """Sink of the runtime's events. A snapshot comes after a gap, in which events may have been missed."""

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler

    def on_snapshot(self, items: list[tuple[str, cri.ContainerEvent]], mark: int) -> None:
        self._reconciler.runtime_event(None)

    def on_event(self, event: Event[cri.ContainerEvent]) -> None:
        self._reconciler.runtime_event(sandbox_of(event.value) if event.value else None)


def main(argv: list[str] | None = None) -> None:
    run_actor("adopt", Adopt, argv)


if __name__ == "__main__":
    main()
