"""What really runs, seen at the runtime: who holds which device at each moment, whatever the actors believe."""

from typing import TYPE_CHECKING

import msgspec

from actors.devices.ledger.state import decode
from actors.runtime.model.containers import Container, Life, Sandbox
from actors.runtime.model.pods import Pods
from actors.runtime.state.lifecycle import Lifecycle
from protocols.messages.devices import PodAllocation
from protocols.process.layout import Layout
from tests.simulation.model import Broken
from tests.simulation.world.patching import patch
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.world.world import World

MOST_BROKEN = 20


class Run(msgspec.Struct, frozen=True):
    """One run of a container."""

    pod: str
    """Its uid."""
    name: str
    sandbox: str
    held: frozenset[str]
    """`RESOURCE ID` and CDI devices in its configuration, `cpu N` of exclusive CPUs."""


class Witness:
    """Hooks into the lifecycle of one node's runtime, which every start and end passes."""

    def __init__(self, world: "World", layout: Layout, variables: dict[str, str], prefix: str = "") -> None:
        self._name = f"{prefix}runtime"
        self._world, self._layout, self._variables = world, layout, variables
        self.running: dict[str, Run] = {}
        self.changed: dict[str, float] = {}
        """Elapsed seconds when a container last started or ended, by its id."""
        self.broken: list[Broken] = []
        self.starts = 0
        self._removed: dict[str, None] = {}
        witness = self
        started, end, add = Lifecycle.started, Lifecycle._end, Pods.add_sandbox

        def on_started(self: Lifecycle, container: Container, at: int) -> None:
            if witness._ours:
                witness._started(container)
            started(self, container, at)

        def on_end(self: Lifecycle, container: Container, life: Life) -> None:
            if witness._ours:
                witness.running.pop(container.id, None)
                witness.changed[container.id] = world.elapsed
            end(self, container, life)

        def on_sandbox(self: Pods, sandbox: Sandbox) -> None:
            add(self, sandbox)
            if witness._ours:
                witness._sandbox(self, sandbox)

        patch(Lifecycle, "started", on_started)
        patch(Lifecycle, "_end", on_end)
        patch(Pods, "add_sandbox", on_sandbox)

    @property
    def _ours(self) -> bool:
        """True while this node's runtime runs: the hooks are in all of them."""
        return running(self._world).name == self._name

    def break_promise(self, promise: str, text: str) -> None:
        self._world.happened("witness", f"{promise}: {text}")
        if len(self.broken) < MOST_BROKEN:
            self.broken.append(Broken(promise, text, round(self._world.elapsed, 3)))

    def ledger(self) -> dict[str, PodAllocation]:
        """Return the allocations in the checkpoint on disk, by pod uid."""
        try:
            raw = (self._layout.devices / "checkpoint.json").read_bytes()
        except FileNotFoundError:
            return {}
        return {record.allocation.uid: record.allocation for record in decode(raw).pods}

    def _started(self, container: Container) -> None:
        """Check a container that is about to run against the checkpoint and all that run."""
        self.starts += 1
        pod = container.sandbox.config.metadata
        held = self._held(container)
        allocation = self.ledger().get(pod.uid)
        written = _written(allocation, container.config.metadata.name) if allocation else frozenset()
        if held and not held <= written:
            self.break_promise(
                "in the checkpoint before a start", f"{pod.name}: {sorted(held - written)}; {sorted(written)} is there"
            )
        run = Run(pod.uid, container.config.metadata.name, container.sandbox.id, held | _cpus(written))
        for id, other in self.running.items():
            if other.pod == run.pod and other.name == run.name:
                self.break_promise("one run of a container", f"{pod.name} {run.name} runs as {id[:12]} already")
            elif taken := run.held & other.held:
                self.break_promise("nothing is given twice", f"{sorted(taken)} of {pod.name} are {other.pod}'s")
        self.running[container.id] = run
        self.changed[container.id] = self._world.elapsed

    def _held(self, container: Container) -> frozenset[str]:
        found = {
            f"{resource} {id}"
            for pair in container.config.envs
            if (resource := self._variables.get(pair.key))
            for id in pair.value.decode().split(",")
        }
        return frozenset(found | {f"cdi {device.name}" for device in container.config.CDI_devices})

    def _sandbox(self, pods: Pods, sandbox: Sandbox) -> None:
        uid = sandbox.config.metadata.uid
        ready = [each.id for each in pods.sandboxes.values() if each.ready and each.config.metadata.uid == uid]
        if len(ready) > 1:
            self.break_promise("one running sandbox", f"{sandbox.config.metadata.name} has {len(ready)}")


def _written(allocation: PodAllocation, container: str) -> frozenset[str]:
    found = set()
    for each in allocation.containers:
        if each.name == container:
            found |= {f"{device.resource} {device.id}" for device in each.devices}
            found |= {f"cdi {cdi}" for claim in each.claims for item in claim.devices for cdi in item.cdi_devices}
            found |= {f"cpu {cpu}" for cpu in each.cpus}
    return frozenset(found)


def _cpus(held: frozenset[str]) -> frozenset[str]:
    return frozenset(each for each in held if each.startswith("cpu "))
