"""Faults of a node beside those of the world."""

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from actors.devices.manager import DeviceManager
from protocols.lifecycle.devices.claims import PodClaims
from protocols.messages import devices, podworker
from protocols.messages.cri import CLEAR, CLOCK_JUMP, DROP, OWNER, RUNTIME_FAULTS, ChaosRuntime
from protocols.process.tasks import awaited
from tests.simulation.model import Fault
from tests.simulation.node.simulators import register_again, show
from tests.simulation.world import faults
from tests.simulation.world.patching import patch
from tests.simulation.world.process import running
from tests.simulation.world.transport import SimTransport

if TYPE_CHECKING:
    from tests.simulation.calls.sockets import Sockets
    from tests.simulation.node.machine import Node
    from tests.simulation.world.world import World

LONGEST_S = 8.0
HOUR_S = 3600.0


class NodeFaults:
    """Adds its kinds to those of the world."""

    kinds = ("sick", "terminate", "stall", "malformed", "register", "events")

    def __init__(self, world: "World", sockets: "Sockets", nodes: "Sequence[Node]") -> None:
        self._world, self._sockets, self._nodes = world, sockets, nodes
        self._targets = tuple(name for node in nodes for name in node.targets)
        self._hardware = {name: hardware for node in nodes for name, hardware in node.hardware.items()}
        self._plugins = [name for node in nodes for name in node.resources]
        self._cris = [node.prefix + OWNER for node in nodes]
        self.stalled_until = 0.0
        for kind in self.kinds:
            faults.KINDS[kind] = getattr(self, kind)
        sockets.on_spoilt = self._spoilt
        self._askers_killed = world.draw("askers_killed_share", 0.5, 0.2, 0.0)
        """Share of a node's preparations of claims of which the answer finds the pod worker killed."""
        self._kill_askers()

    def _kill_askers(self) -> None:
        """Kill pod workers whose claims are being written: the next one asks again while the write is under way."""
        node_faults, publish = self, DeviceManager.publish_claims

        async def on_publish(manager: DeviceManager, uid: str, claims: PodClaims) -> None:
            if node_faults._world.random("faults/askers").random() < node_faults._askers_killed:
                name = f"{running(node_faults._world).name.removesuffix(devices.OWNER)}{podworker.OWNER}"
                node_faults._world.at(0.0, None, lambda: node_faults._world.kill_by_fault(name))
            await publish(manager, uid, claims)

        patch(DeviceManager, "publish_claims", on_publish)

    def end(self) -> None:
        """End what goes on beside the plan of faults."""
        self._askers_killed = 0.0

    def sick(self, world: "World", fault: Fault) -> None:
        """Break a device of a plugin or driver, or mend it."""
        hardware = self._hardware
        name = fault.target if fault.target in hardware else sorted(hardware)[int(fault.value * len(hardware))]
        ids = list(hardware[name].health)
        hardware[name].turn(ids[int(fault.value * 997) % len(ids)])
        if (process := world.processes.get(name)) is not None:
            world.at(world.latency(), process, lambda: show(process, hardware[name]))

    def terminate(self, world: "World", fault: Fault) -> None:
        """Ask a process to end."""
        process = world.processes.get(fault.target)
        if process is not None and process.paused_until <= world.now:
            process.signal(signal.SIGTERM)

    def stall(self, world: "World", fault: Fault) -> None:
        """Hold back calls and answers from the target to everybody, or of everybody to it."""
        until, outwards = world.now + fault.value * LONGEST_S, fault.value < 0.5
        self.stalled_until = max(self.stalled_until, until)
        for other in self._targets:
            ends = (fault.target, other) if outwards else (other, fault.target)
            self._sockets.stall(*ends, until)
        process = world.processes.get(fault.target)
        for end in list(process.ends if process else ()):
            if isinstance(end, SimTransport) and end.address.startswith("unix:"):
                sender = end if outwards else end.peer
                sender.last = max(sender.last, until)

    def malformed(self, world: "World", fault: Fault) -> None:
        """Let the target's next few answers be garbage."""
        self._sockets.malformed[fault.target] = 1 + int(fault.value * 3)

    def register(self, world: "World", fault: Fault) -> None:
        """Let a plugin register once more."""
        name = fault.target if fault.target in self._hardware else self._plugins[0]
        if (process := world.processes.get(name)) is not None:
            world.at(world.latency(), process, lambda: register_again(process))

    def events(self, world: "World", fault: Fault) -> None:
        """Lose the runtime's events, double, delay or misdate them, as `nodeplane chaos runtime` does."""
        chosen = RUNTIME_FAULTS[int(fault.value * 997) % len(RUNTIME_FAULTS)]
        if chosen == CLOCK_JUMP:
            for node in self._nodes:
                node.removals.stamps_true = False
        self._order(world, ChaosRuntime(fault=chosen, seconds=HOUR_S if fault.value < 0.5 else -HOUR_S))
        world.at(fault.value * LONGEST_S, None, lambda: self._order(world, ChaosRuntime(fault=CLEAR)))

    def lose_events(self) -> None:
        """Lose all of the runtime's events for LONGEST_S."""
        self._order(self._world, ChaosRuntime(fault=DROP))
        self._world.at(LONGEST_S, None, lambda: self._order(self._world, ChaosRuntime(fault=CLEAR)))

    def _order(self, world: "World", request: ChaosRuntime) -> None:
        for name in self._cris:
            process = world.processes.get(name)
            if process is not None and (cri := process.notes.get("actor")) is not None:
                world.at(world.latency(), process, lambda cri=cri: awaited(cri._chaos(request, None)))  # type: ignore[misc]

    def _spoilt(self, server: str) -> None:
        """Let a plugin register again whose stream was broken while both sides live: only its owner can see that."""
        if server in self._plugins:
            world = self._world
            world.at(1.0, None, lambda: self.register(world, Fault(0.0, "register", server)))
