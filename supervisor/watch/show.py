"""How events are shown: a line per container and resource for people, a line of JSON for programs."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from protocols.messages.devices import AllocatedMemory, ContainerAllocation, PreparedClaim
from protocols.podresources import Action, AllocatableEvent, PodEvent


def printer(what: str, output: str) -> Callable[[Any], None]:
    lines = {("pods", "text"): pod_lines, ("pods", "json"): pod_json, ("allocatable", "text"): allocatable_lines}
    make: Callable[[Any], Iterable[str]] = lines.get((what, output), allocatable_json)  # type: ignore[assignment]  # each takes its own event

    def show(event: Any) -> None:
        for line in make(event):
            print(line, flush=True)

    return show


def pod_lines(event: PodEvent) -> Iterable[str]:
    """Time, action, pod, container, then what it has: devices with their NUMA nodes, CPUs, memory, claims."""
    head = f"{_now()}  {event.action.name:<7}  {event.pod.namespace}/{event.pod.name}"
    parts = [f"{item.name}  {part}" for item in event.pod.containers for part in _parts(item)]
    parts += [f"(pod)  {part}" for part in _exclusive(event.pod.cpus, event.pod.memory)]
    if event.action is Action.DELETED:
        parts = []
    yield from (f"{head}  {part}" for part in parts or ["-"])


def allocatable_lines(event: AllocatableEvent) -> Iterable[str]:
    head = f"{_now()}  {event.action.name:<7}"
    for part in (*_grouped(event.devices), *_exclusive(event.cpus, event.memory)):
        yield f"{head}  {part}"


def pod_json(event: PodEvent) -> Iterable[str]:
    shown = msgspec.to_builtins(event.pod)
    kept = {key: shown[key] for key in ("uid", "namespace", "name", "containers", "cpus", "memory") if shown.get(key)}
    for container in kept.get("containers", ()):
        del container["kind"]
    yield json.dumps({"time": _now(), "action": event.action.name, **kept})


def allocatable_json(event: AllocatableEvent) -> Iterable[str]:
    shown = {**msgspec.to_builtins(event), "action": event.action.name}
    for device in shown["devices"]:
        del device["health"]
    yield json.dumps({"time": _now(), **shown})


def _parts(container: ContainerAllocation) -> Iterable[str]:
    yield from _grouped(container.devices)
    yield from _exclusive(container.cpus, container.memory)
    yield from map(_claim, container.claims)


def _grouped(devices: Sequence[Any]) -> Iterable[str]:
    """By resource: `gpu-0(numa 0) gpu-1(numa 0,1)`."""
    groups: dict[str, list[str]] = {}
    for device in devices:
        groups.setdefault(device.resource, []).append(device.id + _numa(device.numa))
    yield from (f"{resource}  {' '.join(ids)}" for resource, ids in groups.items())


def _exclusive(cpus: Sequence[int], memory: Sequence[AllocatedMemory]) -> Iterable[str]:
    if cpus:
        yield f"cpu  {','.join(map(str, cpus))}"
    yield from (f"{block.type}  {block.size}{_numa(block.numa)}" for block in memory)


def _claim(claim: PreparedClaim) -> str:
    devices = " ".join(f"{item.driver}/{item.pool}/{item.device}" for item in claim.devices)
    return f"claim {claim.namespace}/{claim.name}  {devices}"


def _numa(nodes: Sequence[int]) -> str:
    return f"(numa {','.join(map(str, nodes))})" if nodes else ""


def _now() -> str:
    now = time.time()
    return time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
