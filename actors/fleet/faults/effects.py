"""Effects of a fault on simulated nodes and pods. Pure: the caller passes the time and lets the fleet write."""

import random
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from actors.fleet.faults.choice import choose_devices, choose_nodes, choose_share, share_of_devices
from actors.fleet.faults.script import BACK, MENDS, SILENT, Fault, fraction
from actors.fleet.simulated.node import Node
from actors.fleet.simulated.pod import Pod
from protocols.kube.selectors import parse_label_selector
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.types import PodStage
from protocols.messages.devices import HEALTHY
from protocols.messages.fleet import Hit


class Targets(msgspec.Struct, frozen=True):
    """Nodes, devices and pods that one fault hits."""

    nodes: tuple[Node, ...] = ()
    devices: dict[str, list[str]] = {}
    """Ids by node."""
    pods: tuple[Pod, ...] = ()
    """Those that it ends or that hold a device, or that are on a node that it silences."""


def choose(fault: Fault, nodes: Mapping[str, Node], pods: Mapping[str, Pod], draw: random.Random) -> Targets:
    """Draw what a fault hits. `pods`: by uid."""
    matches = parse_label_selector(fault.selector).matcher()
    groups = {name: node.template.group for name, node in nodes.items() if matches(node.labels) and _has(node, fault)}
    hit = {name: nodes[name] for name in choose_nodes(fault, groups, draw)}
    if fault.action == "node":
        return Targets(tuple(hit.values()), {}, tuple(pods[uid] for node in hit.values() for uid in node.pods))
    if fault.action == "crash":
        return Targets(tuple(hit.values()), {}, _crashing(fault, hit.values(), pods, draw))
    devices = {name: _ids(node, fault) for name, node in hit.items()}
    if fault.action == "health":
        devices = choose_devices(fault, devices, draw)
        hit = {name: node for name, node in hit.items() if devices[name]}
    elif fault.action == "slices":
        devices = share_of_devices(devices, fraction(fault.without) or 0.0, draw)
    uids = (uid for name, node in hit.items() for uid in node.devices.holders(fault.plugin, devices[name]))
    return Targets(tuple(hit.values()), devices, tuple(pods[uid] for uid in uids if uid in pods))


def _has(node: Node, fault: Fault) -> bool:
    if fault.action in ("node", "crash"):
        return True
    if not fault.plugin and not fault.driver:
        return bool(node.devices.drivers)
    return node.devices.ids_of(fault.plugin, fault.driver) is not None


def _ids(node: Node, fault: Fault) -> list[str]:
    """Return the devices that a fault may hit on a node; without a plugin or driver, those of all drivers."""
    if fault.plugin or fault.driver:
        return node.devices.ids_of(fault.plugin, fault.driver) or []
    return [id for driver in node.devices.drivers.values() for id in driver.devices]


def _crashing(fault: Fault, nodes: Iterable[Node], pods: Mapping[str, Pod], draw: random.Random) -> tuple[Pod, ...]:
    """Return a share of the pods that run. They are drawn by their names, which are the same in every run."""
    on_nodes = [pods[uid] for node in nodes for uid in node.pods]
    running = sorted((pod.namespace, pod.name, pod.uid) for pod in on_nodes if _runs(pod))
    return tuple(pods[uid] for _, _, uid in choose_share(running, fraction(fault.crash), draw))


def _runs(pod: Pod) -> bool:
    containers = pod.containers
    return containers is not None and pod.stage is PodStage.SYNCING and bool(runtime_status.live(containers.status))


def apply(fault: Fault, targets: Targets, now_ns: int) -> None:
    """Let the fault happen. `now_ns`: wall clock."""
    for pod in targets.pods if fault.action == "crash" else ():
        assert pod.containers is not None
        pod.containers.crash(fault.exit_code, now_ns)
    for node in targets.nodes:
        match fault.action:
            case "health":
                _report(node, fault, targets.devices[node.name], now_ns)
            case "state" if fault.plugin:
                node.devices.connect_plugin(fault.plugin, fault.state == BACK, now_ns)
            case "state":
                node.devices.connect_driver(fault.driver, fault.state == BACK, now_ns)
            case "node":
                node.silent = fault.node == SILENT
            case "slices":
                for driver in (fault.driver,) if fault.driver else node.devices.drivers:
                    node.devices.republish(driver, targets.devices[node.name])


Mark = tuple[str, ...]
"""Where a fault that can last has its effect: an action with a plugin or driver, a node, and a device."""


def marks(fault: Fault, targets: Targets) -> Iterator[Mark]:
    """Yield what the fault hit; nothing for faults that cannot last."""
    if fault.action in MENDS:
        begin = (fault.action, fault.plugin or fault.driver)
        for node in targets.nodes:
            ids = targets.devices[node.name] if fault.action == "health" else ("",)
            yield from ((*begin, node.name, id) for id in ids)


def still_hit(targets: Targets, left: Collection[Mark]) -> Targets:
    """Return the targets without what is not left of the marks: another fault has hit it since."""
    names, hit = {mark[2] for mark in left}, {mark[2:] for mark in left}
    devices = {node: [id for id in ids if (node, id) in hit] for node, ids in targets.devices.items() if node in names}
    nodes = tuple(node for node in targets.nodes if node.name in names)
    return Targets(nodes, devices, tuple(pod for pod in targets.pods if pod.node.name in names))


def _report(node: Node, fault: Fault, ids: list[str], now_ns: int) -> None:
    if fault.plugin:
        node.devices.set_plugin_health(fault.plugin, ids, fault.health == HEALTHY, fault.message, now_ns)
    else:
        node.devices.set_driver_health(fault.driver, ids, str(fault.health), fault.message, now_ns)


def describe(fault: Fault, targets: Targets, of_nodes: int) -> Hit:
    """Return what a fault hit. `of_nodes`: nodes of the fleet."""
    devices = sum(map(len, targets.devices.values()))
    hit = Hit(nodes=len(targets.nodes), devices=devices, pods=len(targets.pods))
    text = f"{hit.nodes} of {of_nodes} nodes: {_words(fault)} ({devices} devices, {hit.pods} pods)"
    return msgspec.structs.replace(hit, text=text)


def _words(fault: Fault) -> str:
    what = fault.plugin or fault.driver
    match fault.action:
        case "health" | "state":
            return f"{what} {fault.health or fault.state}"
        case "node":
            return str(fault.node)
        case "crash":
            return f"crash with exit code {fault.exit_code}"
    return f"slices of {what or 'all drivers'} republished"
