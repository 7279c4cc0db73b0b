"""What must hold when the node has had 30 seconds without a fault: all views agree, and with what really is."""

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

from actors.cri.event_stream import Phase
from protocols.kube.meta import Object, meta
from tests.simulation.model import Broken
from tests.simulation.node.agents import View, shown
from tests.simulation.node.pods import has_ended
from tests.simulation.node.simulators import DRIVER
from tests.simulation.world.failures import LEADERSHIP_LOST

if TYPE_CHECKING:
    from tests.simulation.node.machine import Node

EXPECTED_ERRORS = "node endpoint not served", LEADERSHIP_LOST
"""Nobody reaches a node's endpoint here."""
NO_DEVICES = "no devices found allocated in local cache for pod"
"""The begin of a message of kubelet."""
LATEST_LIST_S = 12.0
"""An agent lists each few seconds; by then one must have succeeded."""
TOLD_S = 5.0
"""Seconds in which a status reaches the API when all is well: pods start and end until the very end of a run."""


class Oracle:
    """The promises of one node; `pods` are those that the API has for it.

    `just_bound`: uids of pods that their node may not have started yet.
    """

    def __init__(self, node: "Node", pods: Iterable[Object], just_bound: Container[str] = ()) -> None:
        self._node, self._world, self._just_bound = node, node.world, just_bound
        self._ledger = node.witness.ledger()
        self._pods: dict[str, Object] = {meta(pod)["uid"]: pod for pod in pods}

    def check(self) -> list[Broken]:
        """Return every broken promise."""
        missing = [name for name in self._node.targets if name not in self._world.processes]
        if missing:
            return [*self._node.witness.broken, Broken("converged", f"{missing} do not run")]
        return [
            *self._node.witness.broken,
            *self._converged_pods(),
            *self._converged_status(),
            *self._converged_runtime(),
            *self._converged_ledger(),
            *self._converged_health(),
            *self._converged_events(),
            *self._converged_directories(),
            *self._converged_agents(),
        ]

    def _converged_pods(self) -> Iterator[Broken]:
        for uid, pod in self._pods.items():
            if uid in self._just_bound:
                continue
            name, status = meta(pod)["name"], pod.get("status") or {}
            if meta(pod).get("deletionTimestamp"):
                yield Broken("converged", f"{name} is deleted and still there: {_reason(status)}")
            elif not has_ended(pod) and not _settled(status) and not self._without_devices(pod):
                yield Broken("converged", f"{name} is {status.get('phase')}: {_reason(status)}")

    def _without_devices(self, pod: Object) -> bool:
        """Return True for a pod from before a resource that it asks for, which waits for its devices as in kubelet."""
        limits, knew = pod["spec"]["containers"][0]["resources"]["limits"], self._node.witness.knew
        early = [limit for limit in limits if "/" in limit and not knew(limit, meta(pod)["uid"])]
        return any(
            f"{NO_DEVICES} {meta(pod)['uid']}, container main, resource {each}" in _reason(pod["status"])
            for each in early
        )

    def _converged_status(self) -> Iterator[Broken]:
        """A container that runs in the API runs on its node, and the other way round, soon after it has changed."""
        witness, now = self._node.witness, self._world.elapsed
        recent = {id for id, at in witness.changed.items() if at > now - TOLD_S}
        told = {
            status["containerID"].rpartition("/")[2]: meta(pod)["name"]
            for pod in self._pods.values()
            for status in (pod.get("status") or {}).get("containerStatuses") or ()
            if "running" in (status.get("state") or {})
        }
        running = {id: run.pod for id, run in witness.running.items()}
        for id in sorted(told.keys() - running.keys() - recent):
            text = f"{told[id]} runs as {id[:12]}, which {self._node.name} does not run"
            yield Broken("status is what the node does", text)
        for id in sorted(running.keys() - told.keys() - recent):
            text = f"{self._node.name} runs {id[:12]} of {running[id]}, unknown to the API"
            yield Broken("status is what the node does", text)

    def _converged_runtime(self) -> Iterator[Broken]:
        active = {uid for uid, pod in self._pods.items() if not has_ended(pod)}
        for id, run in self._node.witness.running.items():
            if run.pod not in active:
                yield Broken("converged", f"container {id[:12]} of pod {run.pod} runs, whose pod is gone or has ended")
        runtime = self._node.actor("runtime")._server.pods
        for sandbox in runtime.sandboxes.values():
            if sandbox.ready and sandbox.config.metadata.uid not in active:
                yield Broken("converged", f"sandbox of {sandbox.config.metadata.name} is ready, whose pod is gone")
        for id in self._node.witness.running:
            if id not in runtime.containers:
                yield Broken("converged", f"container {id[:12]} runs and the runtime does not know it")

    def _converged_events(self) -> Iterator[Broken]:
        """The runtime's events flow, and all that pleg knows is what the runtime has, soon after it has changed."""
        if self._node.actor("cri")._stream.connection.phase is not Phase.STREAMING:
            yield Broken("converged", "the event stream of the runtime is not open")
        runtime = self._node.actor("runtime")._server.pods
        there = {sandbox.config.metadata.uid for sandbox in runtime.sandboxes.values()}
        recent = {uid for uid, at in self._node.witness.moved.items() if at > self._world.elapsed - TOLD_S}
        for uid, entry in self._node.actor("pleg")._merger.cache.entries.items():
            known = {container.id for container in entry.status.containers}
            real = {id for id, each in runtime.containers.items() if each.sandbox.config.metadata.uid == uid}
            if uid not in recent and (uid not in there or known != real):
                yield Broken("converged", f"pleg knows {len(known)} containers of pod {uid}, the runtime {len(real)}")

    def _converged_directories(self) -> Iterator[Broken]:
        root = self._node.settings.layout.root / "pods"
        for path in sorted(root.iterdir()) if root.exists() else ():
            if path.name not in self._pods:
                yield Broken("directories go with their pod", path.name)

    def _converged_ledger(self) -> Iterator[Broken]:
        held: dict[str, str] = {}
        for uid, allocation in self._ledger.items():
            pod = self._pods.get(uid)
            if pod is None or has_ended(pod):
                yield Broken("converged", f"the ledger has {allocation.name}, which is gone or has ended")
            for each in shown(allocation):
                what = each.partition(" ")[2] if DRIVER not in each else each.rpartition(" ")[2]
                if what in held:
                    yield Broken("nothing is given twice", f"{what}: to {held[what]} and {allocation.name}")
                held[what] = allocation.name
        yield from self._converged_checkpoint()
        for uid, pod in self._pods.items():
            limits = pod["spec"]["containers"][0]["resources"]["limits"]
            asks = {name: int(count) for name, count in limits.items() if "/" in name}
            if asks and (pod.get("status") or {}).get("phase") == "Running" and uid not in self._ledger:
                yield Broken("converged", f"{meta(pod)['name']} runs with {asks} that the ledger does not know")

    def _converged_checkpoint(self) -> Iterator[Broken]:
        """What the device manager has is on disk, but for what it writes at this moment."""
        manager = self._node.actor("devices")._manager
        committer = manager.committer
        written = {change.record.allocation.uid for change in (*committer._writing, *committer._pending)}
        memory = {allocation.uid: allocation for allocation in manager.allocations() if allocation.uid not in written}
        disk = {uid: each for uid, each in self._ledger.items() if uid not in written}
        if memory != disk:
            yield Broken("converged", f"the ledger has {sorted(memory)}, its checkpoint {sorted(disk)}")

    def _converged_health(self) -> Iterator[Broken]:
        inventory = self._node.actor("devices")._manager._inventory
        for name, resource in self._node.resources.items():
            hardware, known = self._node.hardware[name], inventory.resources.get(resource)
            if known is None or not known.connected:
                yield Broken("converged", f"{resource} is not connected")
                continue
            healthy = {id for id, device in known.devices.items() if device.healthy}
            if healthy != hardware.healthy:
                yield Broken(
                    "health is what the plugin said", f"{resource}: {sorted(healthy ^ hardware.healthy)} differ"
                )
        said = self._said()
        for pod in self._pods.values():
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                for resource in status.get("allocatedResourcesStatus") or ():
                    for device in resource.get("resources") or ():
                        wanted = said.get(f"{resource['name']} {device['resourceID']}", said.get(device["resourceID"]))
                        if wanted and device.get("health") != wanted and meta(pod)["uid"] in self._ledger:
                            text = f"{meta(pod)['name']}: {device} of {resource['name']}, which is {wanted}"
                            yield Broken("health in status is what the plugin said", text)

    def _said(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, resource in self._node.resources.items():
            found |= {f"{resource} {id}": health for id, health in self._node.hardware[name].health.items()}
        cards = self._node.hardware[self._node.driver].health
        return found | {f"{DRIVER}/{self._node.name}/{id}": health for id, health in cards.items()}

    def _converged_agents(self) -> Iterator[Broken]:
        wanted = {f"{each.namespace}/{each.name}": shown(each) for each in self._ledger.values()}
        for agent in self._node.agents:
            if text := _difference(agent.watched, wanted, self._written_since(self._world.elapsed - TOLD_S)):
                yield Broken("the front door's view is the ledger's", f"watch of {agent.name}: {text}")
            if agent.listed is None or agent.listed_at < self._world.elapsed - LATEST_LIST_S:
                yield Broken("converged", f"no List of {agent.name} succeeds")
                continue
            holding = {key: held for key, held in agent.listed.items() if held}
            later = self._written_since(agent.listed_at - TOLD_S)
            if text := _difference(holding, {key: held for key, held in wanted.items() if held}, later):
                yield Broken("the front door's view is the ledger's", f"List of {agent.name}: {text}")

    def _written_since(self, at: float) -> set[str]:
        """Return the pods whose allocation has changed since: their news may still be on its way."""
        return {key for key, written in self._node.witness.written.items() if written > at}


def _difference(seen: View, wanted: View, without: set[str]) -> str:
    keys = sorted(key for key in (seen.keys() | wanted.keys()) - without if seen.get(key) != wanted.get(key))
    return "; ".join(f"{key}: {seen.get(key)} instead of {wanted.get(key)}" for key in keys[:3])


def _settled(status: Object) -> bool:
    """Return True for a pod that runs, or waits with a reason for its next start."""
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    waits = [state["waiting"].get("reason") for state in states if "waiting" in state]
    return bool(states) and all(reason == "CrashLoopBackOff" for reason in waits)


def _reason(status: Object) -> str:
    states = [each.get("state") for each in status.get("containerStatuses") or ()]
    return f"{status.get('reason', '')} {status.get('message', '')} {states}"
