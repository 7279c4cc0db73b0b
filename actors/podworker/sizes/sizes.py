"""CPU and memory of a pod's containers: wanted by the spec, allocated by the node, actuated in the runtime. Pure.

Invariant: what is allocated fits the node; a container is made of, and changed to, what is allocated and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from actors.podworker.containers.limits import GUARANTEED, NAMES, milli, pod_resources, qos_class
from actors.podworker.types import INIT, ContainerSpec, Object, PodSpec, Waiting

SIDES = ("limits", "requests")
RESTART = "RestartContainer"
PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
INFEASIBLE, DEFERRED, ERROR = "Infeasible", "Deferred", "Error"
Amounts = dict[str, dict[str, str]]
"""Quantities of cpu and memory by side."""
Room = Mapping[str, tuple[int, int]]
"""By resource: what the node has for pods, and what its other pods were allocated. In thousandths."""


@dataclass
class Sizes:
    """Of one pod."""

    allocated: dict[str, Amounts] | None = None
    """By container name; None before the first look."""
    actuated: dict[str, Amounts] = field(default_factory=dict)
    """By container id."""
    pending: Waiting | None = None
    """Why the node does not give what the spec wants."""
    fault: str = ""
    """Why the runtime did not do what was allocated, at the last try."""
    busy: bool = False
    """Something allocated is not actuated yet."""

    @property
    def conditions(self) -> dict[str, Waiting]:
        """Of the pod, those that are true."""
        found = {PENDING: self.pending} if self.pending else {}
        if self.busy:
            found[IN_PROGRESS] = Waiting(ERROR if self.fault else "", self.fault)
        return found


def resizable(spec: PodSpec) -> list[ContainerSpec]:
    return [container for container in spec.containers if container.kind != INIT]


def wanted(spec: PodSpec) -> dict[str, Amounts]:
    return {container.name: amounts(container.raw.get("resources") or {}) for container in resizable(spec)}


def amounts(resources: Object) -> Amounts:
    return {
        side: {name: str(given[name]) for name in NAMES if name in given}
        for side in SIDES
        for given in (resources.get(side) or {},)
    }


def changes(old: Amounts, new: Amounts) -> set[str]:
    """Names of resources that differ, however they are written."""
    return {
        name
        for side in SIDES
        for name in NAMES
        if milli(old.get(side, {}).get(name)) != milli(new.get(side, {}).get(name))
    }


def differs(old: Mapping[str, Amounts], new: Mapping[str, Amounts]) -> bool:
    return old.keys() != new.keys() or any(changes(old[name], new[name]) for name in new)


def sized(container: ContainerSpec, allocated: Amounts | None) -> ContainerSpec:
    """With what the node has allocated in place of what the spec wants."""
    given = container.raw.get("resources") or {}
    if allocated is None or not changes(amounts(given), allocated):
        return container
    resources = {**given, **{side: {**(given.get(side) or {}), **allocated[side]} for side in SIDES}}
    return msgspec.structs.replace(container, raw={**container.raw, "resources": resources})


def restarts_for(spec: PodSpec, container: ContainerSpec, changed: set[str]) -> bool:
    """It asks to be started anew for one of these; a pod that never restarts anything has it changed in place."""
    policies = {p.get("resourceName"): p.get("restartPolicy") for p in container.raw.get("resizePolicy") or ()}
    return spec.restart_policy != "Never" and any(policies.get(name) == RESTART for name in changed)


def requests(spec: PodSpec, allocated: Mapping[str, Amounts]) -> dict[str, int]:
    """Of the pod as a whole, in thousandths."""
    pod = dict(spec.raw.get("spec") or {})
    for key in ("containers", "initContainers"):
        pod[key] = [_raw(spec, raw, allocated) for raw in pod.get(key) or ()]
    asked = pod_resources(pod)["requests"]
    return {name: milli(asked.get(name)) for name in NAMES}


def _raw(spec: PodSpec, raw: Object, allocated: Mapping[str, Amounts]) -> Object:
    container = spec.find(str(raw.get("name")))
    return sized(container, allocated.get(container.name)).raw if container is not None else raw


def judge(spec: PodSpec, new: Mapping[str, Amounts], room: Room, pinned: bool, banked: bool) -> Waiting | None:
    """None: the node gives it. `pinned`: CPUs are kept apart on this node; `banked`: the pod's memory is of its own."""
    if qos_class(spec.raw.get("spec") or {}) == GUARANTEED and (pinned or banked):
        manager = "CPU" if pinned else "Memory"
        text = f"Resize is infeasible for Guaranteed Pods alongside {manager} Manager static policy"
        return Waiting(INFEASIBLE, text)
    asked = requests(spec, new)
    for name, (capacity, _) in room.items():
        if asked[name] > capacity:
            shown = f"requested: {_shown(name, asked[name])}, capacity: {_shown(name, capacity)}"
            return Waiting(INFEASIBLE, f"Node didn't have enough capacity: {name}, {shown}")
    for name, (capacity, used) in room.items():
        if asked[name] + used > capacity:
            parts = (("requested", asked[name]), ("used", used), ("capacity", capacity))
            shown = ", ".join(f"{part}: {_shown(name, amount)}" for part, amount in parts)
            return Waiting(DEFERRED, f"Node didn't have enough resource: {name}, {shown}")
    return None


def _shown(name: str, amount: int) -> int:
    """CPU in thousandths, memory in bytes."""
    return amount if name == "cpu" else amount // 1000
