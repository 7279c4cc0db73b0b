"""A node seen from outside while it runs: what must hold at each moment, whatever has just been killed."""

from typing import TYPE_CHECKING, Any

from actors.runtime.model.errors import NameReserved
from actors.runtime.model.pods import Reservations
from protocols.kube.meta import Object, meta
from protocols.messages.devices import PodAllocation
from tests.simulation.node.witness import written_for
from tests.simulation.world.patching import patch
from tests.simulation.world.process import Process

if TYPE_CHECKING:
    from tests.simulation.node.faults import NodeFaults
    from tests.simulation.node.machine import Node

OBSERVE_S = 0.25
LATE_S = 5.0
"""Seconds after a pause or a stall by when calls from before are over."""
GONE_S = 3.0
"""Seconds after which the end of a plugin must be known."""


class Monitor:
    """Compares the checkpoint on disk with what runs, what the API shows and which plugins live."""

    def __init__(self, node: "Node", faults: "NodeFaults") -> None:
        self._node, self._faults, self._world, self._witness = node, faults, node.world, node.witness
        self._devices = f"{node.prefix}devices"
        self._ledger: dict[str, PodAllocation] = {}
        self._reported: set[str] = set()
        self._since: dict[str, tuple[int, float]] = {}
        """Process id and since when it runs without a pause, or is away, by name."""

        self._callers = [node.prefix + name for name in ("podworker", "cri", "runtime")]
        self._watch_names()

    def _watch_names(self) -> None:
        """Check that nobody creates a sandbox or container of which the runtime has that attempt already."""
        monitor, reserve = self, Reservations.reserve

        def on_reserve(names: Reservations, key: str, holder: str) -> None:
            try:
                reserve(names, key, holder)
            except NameReserved:
                if monitor._witness.sees("runtime") and monitor._prompt():
                    monitor._witness.break_promise("nothing is created twice", key)
                raise

        patch(Reservations, "reserve", on_reserve)

    def _prompt(self) -> bool:
        """Return True if no call whose answer was lost can still be under way: of it the pod worker knows nothing."""
        if self._world.slow_threads[f"{self._node.prefix}runtime"]:
            return False
        late = [self._world.processes[name].paused_until for name in self._callers if name in self._world.processes]
        return self._world.now > max(self._faults.stalled_until, *late, 0.0) + LATE_S

    def begin(self) -> None:
        self._world.at(OBSERVE_S, None, self._observe)

    def _observe(self) -> None:
        self._world.at(OBSERVE_S, None, self._observe)
        ledger = self._witness.ledger()
        self._running_holds(ledger)
        for uid in self._ledger.keys() - ledger.keys():
            self._released(uid, self._ledger[uid])
        self._note_changes(ledger)
        self._ledger = ledger
        for name in (self._devices, *self._node.resources):
            process = self._world.processes.get(name)
            pid = process.pid if process and _runs(process) else 0
            if self._since.get(name, (-1, 0.0))[0] != pid:
                self._since[name] = pid, self._world.now
        self._gone_plugins()

    def _note_changes(self, ledger: dict[str, PodAllocation]) -> None:
        for uid in self._ledger.keys() | ledger.keys():
            before, now = self._ledger.get(uid), ledger.get(uid)
            if before != now and (pod := now or before):
                self._witness.written[f"{pod.namespace}/{pod.name}"] = self._world.elapsed

    def _running_holds(self, ledger: dict[str, PodAllocation]) -> None:
        for id, run in self._witness.running.items():
            allocation = ledger.get(run.pod)
            missing = run.held - (written_for(allocation, run.name) if allocation else frozenset())
            if missing and id not in self._reported:
                self._reported.add(id)
                text = f"{id[:12]} of pod {run.pod} has {sorted(missing)}"
                self._witness.break_promise("what runs is in the checkpoint", text)

    def _released(self, uid: str, allocation: PodAllocation) -> None:
        """Check that the status of a finished pod shows its devices: once they are free nobody else knows them."""
        pod = self._witness.pod(uid)
        if pod is None or meta(pod).get("deletionTimestamp") or uid not in self._witness.started:
            return
        if self._witness.was_restored(uid):
            return
        held = {device.id for container in allocation.containers for device in container.devices}
        if not held <= _shown(pod):
            text = f"{allocation.name}: {sorted(held - _shown(pod))}"
            self._witness.break_promise("the status shows devices before they are free", text)

    def _gone_plugins(self) -> None:
        world = self._world
        devices = world.processes.get(self._devices)
        if devices is None or "actor" not in devices.notes or world.now < self._faults.stalled_until + GONE_S:
            return
        inventory: Any = devices.notes["actor"]._manager._inventory
        for name, resource in self._node.resources.items():
            both = self._since[self._devices], self._since[name]
            settled = all(world.now - since > GONE_S for _, since in both)
            known = inventory.resources.get(resource)
            if settled and both[0][0] and name not in world.processes and known and known.connected:
                self._witness.break_promise("who is gone is not connected", resource)


def _runs(process: Process) -> bool:
    return process.paused_until <= process.world.now


def _shown(pod: Object) -> set[str]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    entries = [entry for status in statuses for entry in status.get("allocatedResourcesStatus") or ()]
    return {device["resourceID"] for entry in entries for device in entry.get("resources") or ()}
