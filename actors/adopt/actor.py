"""adopt: stands where the device manager stands, on a node whose devices the real kubelet gives out.

Why a process: kubelet and its slow answers must not be felt by those who watch. Owns what was told of kubelet's lists:
the streams `allocations`, `allocatable` and `machine`, in the same words as the device manager's. The runtime's events
say when to look; kubelet says what there is.
What was told is on disk (ROOT/devices/adopted.json) before anybody hears it, so on kill -9 nothing is lost: clients
resume at their positions, and what changed meanwhile is told as a difference.
"""

import time
from pathlib import Path

from actors.adopt.adopter import Adopter, AdopterOptions
from actors.adopt.kubelet import Kubelet
from actors.adopt.ledger import Ledger
from actors.adopt.metrics import AdoptMetrics
from actors.adopt.record import RecordFile
from actors.adopt.sandboxes import of_event
from actors.adopt.schedule import Schedule
from protocols.actor import Context, run_actor
from protocols.bus import Call, Event, Op, Replica, StateSource
from protocols.errors import SettingsInvalid
from protocols.messages import cri, devices
from protocols.messages.adopt import KUBELET, STATE, AdoptState
from protocols.messages.devices import Empty, LedgerHistory


class Adopt:
    def __init__(self, context: Context) -> None:
        wanted = context.settings.adopt
        if wanted is None:
            raise SettingsInvalid("nothing to adopt; start this with nodeplane adopt")
        self._context = context
        self._kubelet = Kubelet(Path(wanted.pod_resources))
        self._ledger = Ledger(context.bus, time.time_ns())
        self._states: dict[str, AdoptState] = {}
        self._state = context.bus.own(STATE, StateSource(self._states), ring=16)
        self._runtime = Replica[cri.RuntimeState](self._on_runtime)
        self._adopter = Adopter(
            AdopterOptions(
                kubelet=self._kubelet,
                bus=context.bus,
                ledger=self._ledger,
                schedule=Schedule(wanted.poll_s, wanted.eventless_s),
                metrics=AdoptMetrics(context.registry),
                log=context.log,
                on_state=self._on_state,
                record=RecordFile(context.layout.devices),
            )
        )

    async def start(self) -> None:
        self._context.bus.serve(devices.HISTORY, Empty, self._history)
        follow = self._context.bus.follow
        follow(owner=cri.OWNER, stream=cri.CONTAINER_EVENTS, sink=_Events(self._adopter), type=cri.ContainerEvent)
        follow(owner=cri.OWNER, stream=cri.RUNTIME_STATE, sink=self._runtime, type=cri.RuntimeState)
        self._context.spawn(self._adopter.run(), "kubelet")

    async def stop(self) -> None:
        await self._kubelet.close()

    async def _history(self, request: Empty, call: Call) -> LedgerHistory:
        return self._ledger.history()

    def _on_runtime(self, op: Op, key: str, new: cri.RuntimeState | None, old: cri.RuntimeState | None) -> None:
        streaming = bool(new and new.connected and new.streaming)
        if streaming != bool(old and old.connected and old.streaming) or old is None:
            self._adopter.streaming(streaming)

    def _on_state(self, current: bool, message: str) -> None:
        state = AdoptState(current, message)
        if self._states.get(KUBELET) == state:
            return
        self._states[KUBELET] = state
        self._state.publish(Op.UPSERT, KUBELET, state)
        if self._ledger.begun and current and not message:
            self._context.ready(self._note())
        else:
            self._context.note(message or self._note())

    def _note(self) -> str:
        lacks = "" if self._kubelet.tells_allocatable else ", which does not tell what is allocatable"
        return f"follows kubelet{lacks}"


class _Events:
    """A sink of the runtime's events. After a gap something may have been missed: a reason to look, like any event."""

    def __init__(self, adopter: Adopter) -> None:
        self._adopter = adopter

    def on_snapshot(self, items: list[tuple[str, cri.ContainerEvent]], mark: int) -> None:
        self._adopter.heard(None)

    def on_event(self, event: Event[cri.ContainerEvent]) -> None:
        self._adopter.heard(of_event(event.value) if event.value else None)

    def on_mark(self, mark: int) -> None:
        """Events have no durable positions."""

    def on_synced(self, synced: bool) -> None:
        """The next snapshot says so."""


def main(argv: list[str] | None = None) -> None:
    run_actor("adopt", Adopt, argv)


if __name__ == "__main__":
    main()
