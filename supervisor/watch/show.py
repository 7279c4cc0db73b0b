"""How events are shown: a line per container and resource for people, a line of JSON for programs."""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

ACTIONS = ("ADDED", "DELETED", "UPDATED")


def printer(what: str, output: str) -> Callable[[Any], None]:
    lines = {("pods", "text"): pod_lines, ("pods", "json"): pod_json, ("allocatable", "text"): allocatable_lines}
    make = lines.get((what, output), allocatable_json)

    def show(event: Any) -> None:
        for line in make(event):
            print(line, flush=True)

    return show


def pod_lines(event: Any) -> Iterable[str]:
    """Time, action, pod, container, resource, devices with their NUMA nodes."""
    for pod in event.pod_resources:
        head = f"{_now()}  {_action(event):<7}  {pod.namespace}/{pod.name}"
        parts = [
            f"{container.name}  {resource}  {devices}"
            for container in pod.containers
            for resource, devices in _grouped(container.devices).items()
        ]
        yield from (f"{head}  {part}" for part in parts or ["-"])


def allocatable_lines(event: Any) -> Iterable[str]:
    for resource, devices in _grouped(event.devices).items():
        yield f"{_now()}  {_action(event):<7}  {resource}  {devices}"


def pod_json(event: Any) -> Iterable[str]:
    for pod in event.pod_resources:
        containers = [{"name": item.name, "devices": _plain(item.devices)} for item in pod.containers]
        yield json.dumps(
            {
                "time": _now(),
                "action": _action(event),
                "uid": event.uid,
                "namespace": pod.namespace,
                "name": pod.name,
                "containers": containers,
            }
        )


def allocatable_json(event: Any) -> Iterable[str]:
    yield json.dumps({"time": _now(), "action": _action(event), "devices": _plain(event.devices)})


def _action(event: Any) -> str:
    return ACTIONS[event.action] if event.action < len(ACTIONS) else f"ACTION-{event.action}"


def _grouped(devices: Iterable[Any]) -> dict[str, str]:
    """By resource: `gpu-0(numa 0) gpu-1(numa 0,1)`."""
    groups: dict[str, list[str]] = {}
    for (resource, id), nodes in _merged(devices).items():
        numa = f"(numa {','.join(map(str, nodes))})" if nodes else ""
        groups.setdefault(resource, []).append(f"{id}{numa}")
    return {resource: " ".join(ids) for resource, ids in groups.items()}


def _plain(devices: Iterable[Any]) -> list[dict[str, Any]]:
    return [{"resource": resource, "id": id, "numa": nodes} for (resource, id), nodes in _merged(devices).items()]


def _merged(devices: Iterable[Any]) -> dict[tuple[str, str], list[int]]:
    """A device on several NUMA nodes comes as several entries: count it once."""
    merged: dict[tuple[str, str], list[int]] = {}
    for entry in devices:
        for id in entry.device_ids:
            merged.setdefault((entry.resource_name, id), []).extend(node.ID for node in entry.topology.nodes)
    return merged


def _now() -> str:
    now = time.time()
    return time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
