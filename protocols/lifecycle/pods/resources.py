"""CPU and memory of pods and containers: QoS class, Linux resources, extended resources, in-place resize. Pure.

Invariant of in-place resize: what is allocated fits the node; a container is created with, and changed to, what is
allocated and nothing else.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from protocols.kinds import views
from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import parse_quantity
from protocols.kube.resource_names import is_extended
from protocols.lifecycle.pods.types import ALWAYS, INIT, ContainerSpec, PodSpec, Waiting, read_pod
from protocols.wire import cri_pb2

NAMES = ("cpu", "memory")
HUGE = "hugepages-"
PAGE_UNITS = {30: "GB", 20: "MB", 10: "KB", 0: "B"}
"""By the number of bits."""
Side = Literal["limits", "requests"]
GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
LAST_TO_GO, FIRST_TO_GO = -997, 1000
NODE_CRITICAL = "system-node-critical"
"""Priority class of pods that the kernel kills last when memory runs out, whatever their QoS class."""
PERIOD_US = 100_000
MINIMAL_QUOTA_US = 1000
EXCLUSIVE_QUOTA = -1
"""No quota: exclusive CPUs are the limit, it would only throttle."""
MINIMAL_SHARES, MAXIMAL_SHARES = 2, 262_144
MAXIMAL_QUOTA_US = 2**63 - 1
SIDES: tuple[Side, ...] = ("limits", "requests")
RESTART = "RestartContainer"
PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
INFEASIBLE, DEFERRED, ERROR = "Infeasible", "Deferred", "Error"
Amounts = dict[Side, dict[str, str]]
"""Quantities of cpu and memory by limits and requests."""
NodeCapacity = Mapping[str, tuple[int, int]]
"""By resource, in thousandths: allocatable amount of the node, and the sum allocated to its other pods."""


def linux_resources(resources: views.ResourceRequirements) -> "cri_pb2.LinuxContainerResources":
    """Return the resources for the runtime, by kubelet's formulas; a limit is the request where that is absent."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    cpu, memory = milli(limits.get("cpu")), milli(limits.get("memory")) // 1000
    asked = milli(requests["cpu"]) if "cpu" in requests else cpu
    return cri_pb2.LinuxContainerResources(
        cpu_period=PERIOD_US if cpu else 0,
        cpu_quota=min(max(MINIMAL_QUOTA_US, cpu * PERIOD_US // 1000), MAXIMAL_QUOTA_US) if cpu else 0,
        cpu_shares=min(max(MINIMAL_SHARES, asked * 1024 // 1000), MAXIMAL_SHARES),
        memory_limit_in_bytes=memory,
    )


def hugepage_limits(resources: views.ResourceRequirements, page_sizes: Iterable[int]) -> "list[cri_pb2.HugepageLimit]":
    """Return the limit of each size of huge pages that the machine has, in bytes: 0 if the container has none."""
    limits = resources.get("limits") or {}
    given = {milli(name.removeprefix(HUGE)): milli(size) for name, size in limits.items() if name.startswith(HUGE)}
    return [
        cri_pb2.HugepageLimit(page_size=_page_size(size), limit=given.get(size * 1000, 0) // 1000)
        for size in page_sizes
    ]


def _page_size(size: int) -> str:
    """Return the name that cgroups have for a page size: 64KB, 2MB, 1GB."""
    unit = next(unit for unit in (30, 20, 10, 0) if size % (1 << unit) == 0)
    return f"{size >> unit}{PAGE_UNITS[unit]}"


def qos_class(spec: views.PodSpec) -> str:
    """Return the QoS class. Resources of the pod itself decide alone, where it has any."""
    given = [spec["resources"]] if has_own(spec) else [c.get("resources") or {} for c in _containers(spec)]
    if not any(_named(g.get(side) or {}) for g in given for side in SIDES):
        return BEST_EFFORT
    return GUARANTEED if all(_guaranteed(g) for g in given) else BURSTABLE


def _containers(spec: views.PodSpec) -> list[views.Container]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _named(amounts: Mapping[str, str]) -> bool:
    return any(milli(amounts.get(name)) for name in NAMES)


def _guaranteed(resources: views.ResourceRequirements) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(milli(limits.get(n)) > 0 and milli(requests.get(n, limits[n])) == milli(limits[n]) for n in NAMES)


def oom_score(spec: views.PodSpec, container: views.Container, memory: int) -> int:
    """Return oom_score_adj by upstream's formula: no sidecar goes before all app containers.

    `memory`: bytes of the machine.
    """
    quality = GUARANTEED if spec.get("priorityClassName") == NODE_CRITICAL else qos_class(spec)
    if quality != BURSTABLE or not memory:
        return FIRST_TO_GO if quality == BEST_EFFORT else LAST_TO_GO if quality == GUARANTEED else FIRST_TO_GO - 1
    asked = _asked(container, "memory")
    if _is_sidecar(spec, container):
        asked = max(asked, min((_asked(app, "memory") for app in spec.get("containers") or ()), default=0))
    asked = (asked + _share(spec, "memory")) // 1000
    return min(max(1000 - 1000 * asked // memory, 1000 + LAST_TO_GO), FIRST_TO_GO - 1)


def _is_sidecar(spec: views.PodSpec, container: views.Container) -> bool:
    inits = (init.get("name") for init in spec.get("initContainers") or ())
    return container.get("restartPolicy") == ALWAYS and container.get("name") in inits


def has_own(spec: views.PodSpec) -> bool:
    """Return True if the pod itself, beside its containers, has requests or limits."""
    own = spec.get("resources") or {}
    return any(name in (own.get(side) or {}) for side in SIDES for name in NAMES)


def container_resources(spec: views.PodSpec, container: views.Container) -> views.ResourceRequirements:
    """Return the container's resources; limits that it lacks are those of the pod."""
    own = container.get("resources") or {}
    whole = (spec.get("resources") or {}).get("limits") or {}
    limits = {**{name: whole[name] for name in NAMES if name in whole}, **(own.get("limits") or {})}
    return {**own, "limits": limits}


def pod_resources(spec: views.PodSpec) -> views.ResourceRequirements:
    """Return the resources of the whole pod: its own, else the largest sum its containers need at one time."""
    own = spec.get("resources") or {}
    limits, requests = ({**_together(spec, side), **(own.get(side) or {})} for side in SIDES)
    return {"limits": limits, "requests": requests}


def _together(spec: views.PodSpec, side: Side) -> dict[str, str]:
    """Sum up one side. Apps and sidecars run at once; an init container runs beside the sidecars before it."""
    total: dict[str, int] = {}
    for name in NAMES:
        sidecars = worst = 0
        for container in spec.get("initContainers") or ():
            amount = _amount(container, side, name)
            if container.get("restartPolicy") == "Always":
                sidecars += amount
            worst = max(worst, sidecars if container.get("restartPolicy") == "Always" else sidecars + amount)
        apps = sum(_amount(c, side, name) for c in spec.get("containers") or ())
        if most := max(worst, apps + sidecars):
            total[name] = most
    return {name: f"{amount}m" for name, amount in total.items()}


def _amount(container: views.Container, side: Side, name: str) -> int:
    return milli(((container.get("resources") or {}).get(side) or {}).get(name))


def _asked(container: views.Container, name: str) -> int:
    requests = (container.get("resources") or {}).get("requests") or {}
    return _amount(container, "requests" if name in requests else "limits", name)


def _share(spec: views.PodSpec, name: str) -> int:
    """Return the pod's request beyond its containers, split evenly among them."""
    asked = milli(((spec.get("resources") or {}).get("requests") or {}).get(name))
    containers = _containers(spec)
    left = asked - sum(_asked(container, name) for container in containers)
    return max(0, left) // max(1, len(containers))


def milli(quantity: str | int | None) -> int:
    """Parse a quantity to thousandths; 0 when absent or malformed (the API validates it)."""
    if quantity is None:
        return 0
    try:
        return parse_quantity(quantity).milli()
    except QuantityInvalid:
        return 0


class Sizes(msgspec.Struct):
    """State of in-place resize of one pod."""

    admitted: dict[str, Amounts] | None = None
    """By container name; None before admission. The spec may have changed until the first sync."""
    allocated: dict[str, Amounts] | None = None
    """By container name; None before the first sync."""
    actuated: dict[str, Amounts] = msgspec.field(default_factory=dict)
    """By container id."""
    uncertain: set[str] = msgspec.field(default_factory=set)
    """Ids of containers that may have another size or a part of it, since their last change failed."""
    pending: Waiting | None = None
    """Reason why the node does not allocate the desired resources."""
    fault: str = ""
    """Error of the runtime in the last attempt to apply what is allocated."""
    in_progress: bool = False
    """Some allocated resources are not actuated yet."""

    @property
    def is_deferred(self) -> bool:
        """True while the node lacks room that other pods may give back."""
        return self.pending is not None and self.pending.reason == DEFERRED

    @property
    def conditions(self) -> dict[str, Waiting]:
        """Resize conditions that are True."""
        by_type = {PENDING: self.pending} if self.pending else {}
        if self.in_progress:
            by_type[IN_PROGRESS] = Waiting(ERROR if self.fault else "", self.fault)
        return by_type


def resizable(spec: PodSpec) -> list[ContainerSpec]:
    """Return the containers whose resources can change in place: all but plain init containers."""
    return [container for container in spec.containers if container.kind != INIT]


def desired_amounts(spec: PodSpec) -> dict[str, Amounts]:
    """Return CPU and memory of the spec by container, to compare with what is allocated."""
    return {container.name: amounts(container.raw.get("resources") or {}) for container in resizable(spec)}


def amounts(resources: views.ResourceRequirements) -> Amounts:
    """Return requests and limits of CPU and memory, as the spec writes them."""
    return {
        side: {name: str(given[name]) for name in NAMES if name in given}
        for side in SIDES
        for given in (resources.get(side) or {},)
    }


def shown_sizes(shown: views.PodStatus) -> dict[str, Amounts]:
    """Return the resources in the API's status; containers without any there have those of their spec."""
    entries = [*(shown.get("containerStatuses") or ()), *(shown.get("initContainerStatuses") or ())]
    return {str(e.get("name")): amounts(e["resources"]) for e in entries if e.get("resources")}


def changes(old: Amounts, new: Amounts) -> set[str]:
    """Return the resources whose amounts differ; other notations of one amount are equal."""
    return {
        name
        for side in SIDES
        for name in NAMES
        if milli(old.get(side, {}).get(name)) != milli(new.get(side, {}).get(name))
    }


def differs(old: Mapping[str, Amounts], new: Mapping[str, Amounts]) -> bool:
    """Return True if a container came or went, or its amounts changed."""
    return old.keys() != new.keys() or any(changes(old[name], new[name]) for name in new)


def with_allocated(container: ContainerSpec, allocated: Amounts | None) -> ContainerSpec:
    """Return the container with its allocated resources in place of those in its spec."""
    given = container.raw.get("resources") or {}
    if allocated is None or not changes(amounts(given), allocated):
        return container
    resources = given.copy()
    for side in SIDES:
        resources[side] = resized(given.get(side) or {}, allocated[side])
    return msgspec.structs.replace(container, raw={**container.raw, "resources": resources})


def resized(given: Mapping[str, str], sizes: Mapping[str, str]) -> dict[str, str]:
    """Return `sizes` of CPU and memory, and those of all other resources in the spec.

    A limit that the spec has gained is not in `sizes` before it is allocated.
    """
    return {name: amount for name, amount in given.items() if name not in NAMES} | dict(sizes)


def restarts_for(spec: PodSpec, container: ContainerSpec, changed: set[str]) -> bool:
    """Return True if a change of these resources requires a restart. Pods that never restart are resized in place."""
    policies = {p.get("resourceName"): p.get("restartPolicy") for p in container.raw.get("resizePolicy") or ()}
    return spec.restart_policy != "Never" and any(policies.get(name) == RESTART for name in changed)


def requests(spec: PodSpec, allocated: Mapping[str, Amounts]) -> dict[str, int]:
    """Return the requests of the whole pod in thousandths."""
    asked = pod_resources(allocated_spec(spec, allocated))["requests"]
    return {name: milli(asked.get(name)) for name in NAMES}


def allocated_spec(spec: PodSpec, allocated: Mapping[str, Amounts]) -> views.PodSpec:
    """Return the pod's spec with allocated resources in place of its own."""
    pod = spec.raw.get("spec") or {}
    if not allocated:
        return pod
    apps = [_raw(spec, raw, allocated) for raw in pod.get("containers") or ()]
    inits = [_raw(spec, raw, allocated) for raw in pod.get("initContainers") or ()]
    return {**pod, "containers": apps, "initContainers": inits}


def allocated_pod(spec: PodSpec, allocated: Mapping[str, Amounts]) -> PodSpec:
    """Return the pod with allocated resources in place of those in its spec; itself if they are equal."""
    desired = desired_amounts(spec)
    if not any(changes(desired[name], size) for name, size in allocated.items() if name in desired):
        return spec
    return read_pod({**spec.raw, "spec": allocated_spec(spec, allocated)})


def _raw(spec: PodSpec, raw: views.Container, allocated: Mapping[str, Amounts]) -> views.Container:
    container = spec.find(str(raw.get("name")))
    return with_allocated(container, allocated.get(container.name)).raw if container is not None else raw


def check_resize(
    spec: PodSpec,
    old: Mapping[str, Amounts],
    new: Mapping[str, Amounts],
    node: NodeCapacity,
    cpus_pinned: bool,
    memory_pinned: bool,
) -> Waiting | None:
    """Return why the node does not allocate `new` to the pod instead of `old`, None if it does.

    `cpus_pinned`: containers of this node are pinned to CPUs. `memory_pinned`: the pod has exclusive memory.
    """
    if qos_class(spec.raw.get("spec") or {}) == GUARANTEED:
        changed = {resource for name in new for resource in changes(old.get(name, {}), new[name])}
        policies = (
            ("cpu", cpus_pinned, 'CPU Manager policy "static"'),
            ("memory", memory_pinned, 'Memory Manager policy "Static"'),
        )
        for resource, pinned, policy in policies:
            if pinned and resource in changed:
                return Waiting(INFEASIBLE, f"Resize is infeasible for Guaranteed Pods alongside {policy}")
    asked = requests(spec, new)
    for name, (capacity, _) in node.items():
        if asked[name] > capacity:
            shown = f"requested: {_shown(name, asked[name])}, capacity: {_shown(name, capacity)}"
            return Waiting(INFEASIBLE, f"Node didn't have enough capacity: {name}, {shown}")
    for name, (capacity, used) in node.items():
        if asked[name] + used > capacity:
            parts = (("requested", asked[name]), ("used", used), ("capacity", capacity))
            shown = ", ".join(f"{part}: {_shown(name, amount)}" for part, amount in parts)
            return Waiting(DEFERRED, f"Node didn't have enough resource: {name}, {shown}")
    return None


def _shown(name: str, amount: int) -> int:
    """CPU in thousandths, memory in bytes."""
    return amount if name == "cpu" else amount // 1000


def extended_resources(container: ContainerSpec) -> dict[str, int]:
    """Return the extended resources that the container limits to a positive whole number."""
    limits = (container.raw.get("resources") or {}).get("limits") or {}
    return {name: count for name, value in limits.items() if is_extended(name) and (count := milli(value) // 1000) > 0}
