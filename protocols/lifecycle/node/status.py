"""Compute the Node object. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.kube.quantity import BINARY_SI, NANO, Quantity
from protocols.kube.resource_names import is_extended
from protocols.kube.times import parse_time
from protocols.messages.cri import RuntimeHandler
from protocols.messages.devices import HEALTHY, Placement, ResourceInventory
from protocols.messages.podworker import INSTANCE
from protocols.node.cpulist import parse_list


class MachineInfo(msgspec.Struct, frozen=True):
    """A machine as its node reports it; sizes in KiB."""

    address: str
    cpus: int
    memory_kib: int
    storage_kib: int
    architecture: str
    kernel: str
    os_image: str
    machine_id: str
    boot_id: str
    local: bool = True
    """The node endpoint listens on loopback: only an API server on this machine reaches it."""
    instance: str = ""
    """Identity of this root directory; distinguishes nodes that claim the same name."""


STORAGE, HUGE = "ephemeral-storage", "hugepages-"
NATIVE = ("cpu", "memory")
Amount = Literal["capacity", "allocatable"]
KUBELET_VERSION = "v1.36.0+nodeplane"
"""Upstream release whose behaviour this node has."""
LEDGER_SLACK_S = 600.0
"""A ledger that began this long after its node counts as lost; less may be the difference of two clocks."""
DECLARED_FEATURES = ("ExtendWebSocketsToKubelet", "RestartAllContainersOnContainerExits")
"""A kube-apiserver passes websockets of exec, attach and port-forward on to such a node; to others it sends SPDY."""
PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)

EVENT_REASONS = {
    ("MemoryPressure", "False"): "NodeHasSufficientMemory",
    ("DiskPressure", "False"): "NodeHasNoDiskPressure",
    ("PIDPressure", "False"): "NodeHasSufficientPID",
    ("Ready", "True"): "NodeReady",
    ("Ready", "False"): "NodeNotReady",
}
"""By condition and status."""


class NodeStatusInputs(msgspec.Struct, frozen=True):
    """Inputs of `node_status`; None is not known yet, so that the values in the API stay."""

    name: str
    machine: MachineInfo
    ready: bool
    message: str = ""
    """Reason why the node is not ready."""
    runtime: str = ""
    """`<name>://<version>`."""
    inventory: Mapping[str, ResourceInventory] | None = None
    """None until the device manager has reported: devices in the API's status are retained."""
    max_pods: int = 110
    port: int = 0
    """Port of the node endpoint (logs, exec); 0 = none."""
    placement: Placement | None = None
    """None until the device manager has reported: CPUs and memory in the API's status are retained."""
    handlers: tuple[RuntimeHandler, ...] | None = None
    """None until the runtime has reported: those in the API's status are retained."""
    strict_groups: bool | None = None
    """None until the runtime has reported: `features` in the API's status is retained."""
    images: tuple[views.ContainerImage, ...] | None = None
    """None until the runtime has listed them: those in the API's status are retained."""
    advertised: frozenset[str] = frozenset()
    """Extended resources that other clients wrote to the capacity; all of them are allocatable."""


def node_labels(inputs: NodeStatusInputs) -> dict[str, str]:
    """Return the labels that a node has by itself; users' labels stay beside them."""
    return {
        "kubernetes.io/hostname": inputs.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": inputs.machine.architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": inputs.machine.architecture,
    }


def node_annotations(inputs: NodeStatusInputs) -> dict[str, str]:
    """Return the annotation of the node's root; none if the root has no identity."""
    return {INSTANCE: inputs.machine.instance} if inputs.machine.instance else {}


def new_node(inputs: NodeStatusInputs, now: str) -> views.Node:
    """Return the Node to create; `now` is the time of its conditions."""
    metadata: views.ObjectMeta = {
        "name": inputs.name,
        "labels": node_labels(inputs),
        "annotations": node_annotations(inputs),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": node_status(inputs, {}, now),
    }


def node_status(inputs: NodeStatusInputs, before: views.NodeStatus, now: str) -> views.NodeStatus:
    """Compute the status. Heartbeat times in `before`, the status in the API, are retained while nothing changes."""
    return {
        "capacity": _resources(inputs, before, "capacity"),
        "allocatable": _resources(inputs, before, "allocatable"),
        "conditions": _conditions(inputs, before, now),
        "addresses": _addresses(inputs),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": inputs.port}},
        "declaredFeatures": list(DECLARED_FEATURES),
        "nodeInfo": _node_info(inputs, before),
        **_of_runtime(inputs, before),
    }


def _addresses(inputs: NodeStatusInputs) -> list[views.NodeAddress]:
    local: list[views.NodeAddress] = [{"type": "InternalDNS", "address": "localhost"}] if inputs.machine.local else []
    return [
        {"type": "InternalIP", "address": inputs.machine.address},
        *local,
        {"type": "Hostname", "address": inputs.name},
    ]


def _of_runtime(inputs: NodeStatusInputs, before: views.NodeStatus) -> views.NodeStatus:
    """Return the runtime's fields: as in `before` until they are reported, and not at all while they are empty."""
    handlers = before.get("runtimeHandlers") if inputs.handlers is None else list(map(_handler, inputs.handlers))
    images = before.get("images") if inputs.images is None else list(inputs.images)
    known = inputs.strict_groups
    features = before.get("features") if known is None else {"supplementalGroupsPolicy": known}
    fields: views.NodeStatus = {"features": features} if features else {}
    if handlers or "runtimeHandlers" in before:
        fields["runtimeHandlers"] = handlers or []
    if images or "images" in before:
        fields["images"] = images or []
    return fields


def _handler(handler: RuntimeHandler) -> views.NodeRuntimeHandler:
    return {
        "name": handler.name,
        "features": {
            "recursiveReadOnlyMounts": handler.recursive_read_only, "userNamespaces": handler.user_namespaces
        },
    }  # fmt: skip


def advertised_resources(known: views.Node, found: views.Node) -> frozenset[str]:
    """Return the extended resources that another client added to the Node object `known`."""
    names = [set((node.get("status") or {}).get("capacity") or {}) for node in (known, found)]
    return frozenset(name for name in names[1] - names[0] if is_extended(name))


def foreign_resources(node: views.Node, inventory: Mapping[str, ResourceInventory], ledger_ns: int) -> frozenset[str]:
    """Return the extended resources of a registered node that other clients added before this process started.

    Plugins never registered them in the life of the ledger. There are none if it began after the node: it was lost, so
    they may be of plugins, and upstream resets them too.
    """
    created = (node.get("metadata") or {}).get("creationTimestamp")
    if created and ledger_ns / 1e9 > parse_time(created) + LEDGER_SLACK_S:
        return frozenset()
    capacity = (node.get("status") or {}).get("capacity") or {}
    return frozenset(name for name in capacity if is_extended(name) and name not in inventory)


def node_patch(before: views.NodeStatus, desired: views.NodeStatus) -> Object | None:
    """Return a strategic merge patch of the status; None if only heartbeat times differ."""
    known: Mapping[str, Any] = before
    changes: Object = {key: value for key, value in desired.items() if key != "conditions" and known.get(key) != value}
    old = {c.get("type"): c for c in before.get("conditions") or ()}
    conditions = [c for c in desired["conditions"] if _content(old.get(c["type"])) != _content(c)]
    if conditions:
        changes["conditions"] = conditions
    if "addresses" in changes:  # merged by type: a removed address would stay
        changes["addresses"] = [{"$patch": "replace"}, *changes["addresses"]]
    return {"status": changes} if changes else None


def node_events(name: str, before: views.NodeStatus, desired: views.NodeStatus) -> list[tuple[str, str, str]]:
    """Return type, reason and message of the events that this change of status causes; upstream's reasons."""
    old = {c.get("type"): c.get("status") for c in before.get("conditions") or ()}
    boot, booted = (status.get("nodeInfo") or {} for status in (before, desired))
    events = []
    if boot.get("bootID") and boot["bootID"] != booted.get("bootID"):
        events.append(("Warning", "Rebooted", f"Node {name} has been rebooted, boot id: {booted.get('bootID')}"))
    changed = [c for c in desired["conditions"] if old.get(c["type"]) != c["status"]]
    reasons = [EVENT_REASONS.get((c["type"], c["status"]), "") for c in changed]
    return events + [("Normal", reason, f"Node {name} status is now: {reason}") for reason in reasons if reason]


def heartbeat_patch(desired: views.NodeStatus, now: str) -> Object:
    """Return the patch that renews the times of all conditions and changes nothing else."""
    return {"status": {"conditions": [{**c, "lastHeartbeatTime": now} for c in desired["conditions"]]}}


def is_ready(node: views.Node) -> bool:
    """Return True if condition Ready is "True"."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _resources(inputs: NodeStatusInputs, before: views.NodeStatus, kind: Amount) -> dict[str, str]:
    found = {"ephemeral-storage": _kib(inputs.machine.storage_kib), "pods": str(Quantity(inputs.max_pods * NANO))}
    shown = before.get(kind) or {}
    devices = {name: value for name, value in shown.items() if is_extended(name)}
    if inputs.inventory is not None:
        advertised = {name: size for name, size in (before.get("capacity") or {}).items() if name in inputs.advertised}
        devices = (
            dict.fromkeys(devices, "0")
            | advertised
            | {name: str(_count(inventory, kind)) for name, inventory in inputs.inventory.items()}
        )
    return (
        _machine(inputs, shown, kind) | found | _reserved_storage(inputs, shown, kind) | dict(sorted(devices.items()))
    )


def _machine(inputs: NodeStatusInputs, shown: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return CPUs, memory and huge pages; for allocatable, without reserved resources."""
    placement = inputs.placement
    if placement is None:
        known = {name: value for name, value in shown.items() if name in NATIVE or name.startswith(HUGE)}
        return {"cpu": str(inputs.machine.cpus), "memory": _kib(inputs.machine.memory_kib), **known}
    reserved = placement.reserved if kind == "allocatable" else {}
    huge = {name: _left(size, reserved.get(name, 0)) for name, size in sorted(placement.hugepages.items())}
    pages = sum(placement.hugepages.values()) if kind == "allocatable" else 0
    return {
        "cpu": str(Quantity(_left(1000 * len(parse_list(placement.online)), reserved.get("cpu", 0)) * NANO // 1000)),
        "memory": _kib(max(0, placement.memory - reserved.get("memory", 0) - pages) // 1024),
        **{name: str(Quantity(size * NANO, BINARY_SI)) for name, size in huge.items()},
    }


def _reserved_storage(inputs: NodeStatusInputs, shown: Mapping[str, str], kind: str) -> dict[str, str]:
    if inputs.placement is None and kind == "allocatable":
        return {STORAGE: shown[STORAGE]} if STORAGE in shown else {}
    reserved = (
        inputs.placement.reserved.get(STORAGE, 0) if inputs.placement is not None and kind == "allocatable" else 0
    )
    return {STORAGE: _kib(_left(inputs.machine.storage_kib, reserved // 1024))} if reserved else {}


def _kib(amount: int) -> str:
    """Return the quantity as the API stores it: another spelling would count as a change in each status."""
    return str(Quantity(1024 * amount * NANO, BINARY_SI))


def _left(amount: int, reserved: int) -> int:
    return max(0, amount - reserved)


def _count(inventory: ResourceInventory, kind: str) -> int:
    if kind == "capacity":
        return len(inventory.devices)
    return sum(1 for d in inventory.devices if d.health == HEALTHY) if inventory.connected else 0


def _conditions(inputs: NodeStatusInputs, before: views.NodeStatus, now: str) -> list[views.NodeCondition]:
    old = {c.get("type"): c for c in before.get("conditions") or ()}
    desired = [_condition(kind, False, reason, message) for kind, reason, message in PRESSURES]
    if inputs.ready:
        desired.append(_condition("Ready", True, "KubeletReady", "kubelet is posting ready status"))
    else:
        desired.append(_condition("Ready", False, "KubeletNotReady", inputs.message))
    return [_timed(condition, old.get(condition["type"]), now) for condition in desired]


def _condition(kind: str, status: bool, reason: str, message: str) -> views.NodeCondition:
    return {"type": kind, "status": "True" if status else "False", "reason": reason, "message": message}


def _timed(condition: views.NodeCondition, before: views.NodeCondition | None, now: str) -> views.NodeCondition:
    before = before or {}
    same = before.get("status") == condition["status"]
    since = before.get("lastTransitionTime") if same else None
    beat = before.get("lastHeartbeatTime") if _content(before) == _content(condition) else None
    return {**condition, "lastHeartbeatTime": beat or now, "lastTransitionTime": since or now}


def _content(condition: views.NodeCondition | None) -> tuple[object, ...]:
    return tuple((condition or {}).get(key) for key in ("status", "reason", "message"))


def _node_info(inputs: NodeStatusInputs, before: views.NodeStatus) -> views.NodeSystemInfo:
    machine = inputs.machine
    return {
        "architecture": machine.architecture,
        "bootID": machine.boot_id,
        "containerRuntimeVersion": inputs.runtime or (before.get("nodeInfo") or {}).get("containerRuntimeVersion", ""),
        "kernelVersion": machine.kernel,
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET_VERSION,
        "machineID": machine.machine_id,
        "operatingSystem": "linux",
        "osImage": machine.os_image,
        "systemUUID": machine.machine_id,
    }
