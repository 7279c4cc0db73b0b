"""What really runs, seen at the runtime: who holds which device at each moment, whatever the actors believe."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from actors.devices.admission.admission import Admissions
from actors.devices.dra.claim_checkpoint import decode as decode_claims
from actors.devices.ledger.state import LedgerState, decode
from actors.devices.manager import DeviceManager, with_claims
from actors.devices.plugins.connections import PluginConnections
from actors.runtime.model.containers import Container, Life, Sandbox
from actors.runtime.model.pods import RuntimePods
from actors.runtime.state.lifecycle import Lifecycle
from actors.simulator.driver.claims import Claims, Prepared
from protocols.kube.meta import Object, meta
from protocols.lifecycle.devices.claims import PodClaims
from protocols.lifecycle.errors import AdmissionRejected
from protocols.messages.devices import AdmitPod, AdmittedPod, PodAllocation
from protocols.process.layout import Layout
from tests.simulation.model import Broken
from tests.simulation.world.patching import patch
from tests.simulation.world.process import Process, running

if TYPE_CHECKING:
    from tests.simulation.node.api import ModelApi
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

    def __init__(
        self,
        world: "World",
        layout: Layout,
        variables: dict[str, str],
        prefix: str = "",
        api: "ModelApi | None" = None,
    ) -> None:
        self._prefix, self._api = prefix, api
        self._world, self._layout, self._variables = world, layout, variables
        self._checkpoint = layout.devices / "checkpoint.json"
        self._decoded = b"", LedgerState()
        """The checkpoint as it was read last."""
        self.running: dict[str, Run] = {}
        self.changed: dict[str, float] = {}
        """Elapsed seconds when a container last started or ended, by its id."""
        self.moved: dict[str, float] = {}
        """Elapsed seconds when a sandbox or container of a pod was last made or removed, by the pod's uid."""
        self.written: dict[str, float] = {}
        """Elapsed seconds when what the checkpoint has of a pod was last seen to differ, by namespace/name."""
        self.broken: list[Broken] = []
        self.starts = 0
        self.started: set[str] = set()
        """Uids of pods of which a container was started."""
        self.ledger_lost_at = 0.0
        """Elapsed seconds at which a device manager last ended without a checkpoint: its positions ended with it."""
        self.rejected: set[str] = set()
        """Pods that were rejected, by namespace/name: one whose end was not stored is admitted after another start."""
        self._known_at: dict[str, float] = {}
        """When the registration of a resource was first answered."""
        world.on_end.append(self._ended)
        witness = self
        started, end, add = Lifecycle.started, Lifecycle._end, RuntimePods.add_sandbox

        def on_started(self: Lifecycle, container: Container, at: int) -> None:
            if witness.sees("runtime"):
                witness._started(container)
            started(self, container, at)

        def on_end(self: Lifecycle, container: Container, life: Life) -> None:
            if witness.sees("runtime"):
                witness.running.pop(container.id, None)
                witness.changed[container.id] = world.elapsed
            end(self, container, life)

        def on_sandbox(self: RuntimePods, sandbox: Sandbox) -> None:
            add(self, sandbox)
            if witness.sees("runtime"):
                witness._sandbox(self, sandbox)

        patch(Lifecycle, "started", on_started)
        patch(Lifecycle, "_end", on_end)
        patch(RuntimePods, "add_sandbox", on_sandbox)
        self._watch_moves()
        prepare = Claims.prepare

        async def on_prepare(self: Claims, namespace: str, name: str, uid: str) -> list[Prepared]:
            if witness.sees("driver") and uid not in witness.claims():
                witness.break_promise("a claim is on disk before its driver is called", f"{namespace}/{name}")
            return await prepare(self, namespace, name, uid)

        patch(Claims, "prepare", on_prepare)
        register = PluginConnections.register

        async def on_register(self: PluginConnections, version: str, resource: str, file_name: str) -> None:
            await register(self, version, resource, file_name)
            if witness.sees("devices"):
                witness._registered(resource)

        patch(PluginConnections, "register", on_register)

        self._watch_answers()

    def _watch_answers(self) -> None:
        """Check that what the device manager answers about a pod is on disk."""
        witness, admit, release = self, Admissions.admit, Admissions.release
        publish_claims = DeviceManager.publish_claims

        async def on_admit(self: Admissions, pod: AdmitPod) -> AdmittedPod:
            try:
                answer = await admit(self, pod)
            except AdmissionRejected:
                witness.rejected.add(f"{pod.namespace}/{pod.name}")
                raise
            if witness.sees("devices") and pod.uid in self._options.ledger.pods and pod.uid not in witness.ledger():
                witness.break_promise("an admission is on disk before it is answered", pod.name)
            return answer

        async def on_release(self: Admissions, uid: str) -> None:
            await release(self, uid)
            if witness.sees("devices") and uid not in self._options.ledger.pods and uid in witness.ledger():
                witness.break_promise("a release is on disk before it is answered", witness.ledger()[uid].name)

        async def on_claims(self: DeviceManager, uid: str, claims: PodClaims) -> None:
            await publish_claims(self, uid, claims)
            if witness.sees("devices") and uid in self._ledger.pods:
                written = witness.ledger().get(uid)
                if written is None or with_claims(written, claims) != written:
                    witness.break_promise("claims are on disk before they are answered", uid)

        patch(Admissions, "admit", on_admit)
        patch(Admissions, "release", on_release)
        patch(DeviceManager, "publish_claims", on_claims)

    def _watch_moves(self) -> None:
        for kind in ("sandbox", "container"):
            for name in (f"add_{kind}", f"remove_{kind}"):
                patch(RuntimePods, name, self._noted(getattr(RuntimePods, name)))

    def _noted(self, move: Callable[[RuntimePods, Any], None]) -> Callable[[RuntimePods, Any], None]:
        """Return a method of Pods that notes for which pod it is called."""

        def noted(pods: RuntimePods, of: Sandbox | Container) -> None:
            if self.sees("runtime"):
                sandbox = of if isinstance(of, Sandbox) else of.sandbox
                self.moved[sandbox.config.metadata.uid] = self._world.elapsed
            move(pods, of)

        return noted

    def sees(self, name: str) -> bool:
        """Return True while that process of this node runs: the hooks are in those of all nodes."""
        return running(self._world).name == self._prefix + name

    def _ended(self, process: Process, code: int, signal: int) -> None:
        if process.name == f"{self._prefix}devices" and not self._checkpoint.exists():
            self.ledger_lost_at = self._world.elapsed

    def _registered(self, resource: str) -> None:
        self._known_at.setdefault(resource, self._world.elapsed)
        if resource not in self.checkpoint().resources:
            self.break_promise("a resource is on disk before its registration is answered", resource)

    def break_promise(self, promise: str, text: str) -> None:
        self._world.happened("witness", f"{promise}: {text}")
        if len(self.broken) < MOST_BROKEN:
            self.broken.append(Broken(promise, text, round(self._world.elapsed, 3)))

    def checkpoint(self) -> LedgerState:
        """Return the device manager's state on disk."""
        try:
            raw = self._checkpoint.read_bytes()
        except FileNotFoundError:
            return LedgerState()
        if raw != self._decoded[0]:
            self._decoded = raw, decode(raw)
        return self._decoded[1]

    def ledger(self) -> dict[str, PodAllocation]:
        """Return the allocations in the checkpoint on disk, by pod uid."""
        return {record.allocation.uid: record.allocation for record in self.checkpoint().pods}

    def claims(self) -> set[str]:
        """Return the uids of the claims on disk."""
        try:
            raw = (self._layout.kubelet / "dra_manager_state").read_bytes()
        except FileNotFoundError:
            return set()
        return {claim.uid for claim in decode_claims(raw)}

    def pod(self, uid: str) -> Object | None:
        """Return the object of a pod in the model of the API, if there is one."""
        pods = self._api.objects["pods"].values() if self._api else ()
        return next((pod for pod in pods if meta(pod)["uid"] == uid), None)

    def was_restored(self, uid: str) -> bool:
        """Return True if a backup took a write of a pod."""
        return self._api is not None and uid in self._api.taken

    def knew(self, resource: str, uid: str) -> bool:
        """Return True if a resource was registered when a pod was made: before, it is none of the device manager's."""
        return self._api is None or self._known_at.get(resource, math.inf) < self._api.made_at[uid]

    def _asked(self, uid: str, held: frozenset[str]) -> None:
        """Check that a container has as many devices as its pod asks for, of resources that the node knew before."""
        if self._api is None or (pod := self.pod(uid)) is None:
            return
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        for resource in self._variables.values():
            found = sum(each.startswith(f"{resource} ") for each in held)
            if self.knew(resource, uid) and found != int(limits.get(resource, 0)):
                self.break_promise("a container has what it asks for", f"{meta(pod)['name']}: {limits}, {sorted(held)}")

    def _started(self, container: Container) -> None:
        """Check a container that is about to run against the checkpoint and all that run."""
        self.starts += 1
        pod = container.sandbox.config.metadata
        self.started.add(pod.uid)
        held = self._held(container)
        self._asked(pod.uid, held)
        allocation = self.ledger().get(pod.uid)
        written = written_for(allocation, container.config.metadata.name) if allocation else frozenset()
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

    def _sandbox(self, pods: RuntimePods, sandbox: Sandbox) -> None:
        uid = sandbox.config.metadata.uid
        ready = [each.id for each in pods.sandboxes.values() if each.ready and each.config.metadata.uid == uid]
        if len(ready) > 1:
            self.break_promise("one running sandbox", f"{sandbox.config.metadata.name} has {len(ready)}")


def written_for(allocation: PodAllocation, container: str) -> frozenset[str]:
    found = set()
    for each in allocation.containers:
        if each.name == container:
            found |= {f"{device.resource} {device.id}" for device in each.devices}
            found |= {f"cdi {cdi}" for claim in each.claims for item in claim.devices for cdi in item.cdi_devices}
            found |= {f"cpu {cpu}" for cpu in each.cpus}
    return frozenset(found)


def _cpus(held: frozenset[str]) -> frozenset[str]:
    return frozenset(each for each in held if each.startswith("cpu "))
