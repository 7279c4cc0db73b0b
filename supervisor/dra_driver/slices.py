"""The ResourceSlices of the driver: what the scheduler sees of its devices. Pure."""

from collections.abc import Sequence
from typing import Any

from supervisor.dra_driver.types import GPU_MEMORY_GI, Device, DriverOptions

Object = dict[str, Any]
MOST, MOST_COUNTING = 128, 64
"""Devices a slice may hold; fewer when they share counters."""
MOST_SETS = 8
"""Counter sets a slice may hold; devices stand in other slices than counters."""


def slice_specs(options: DriverOptions, devices: Sequence[Device], generation: int) -> list[Object]:
    """One pool, named after the node; every slice of it says how many there are."""
    most = MOST_COUNTING if options.partitions else MOST
    described = [_device(options, device) for device in devices]
    contents: list[Object] = [{"devices": part} for part in _split(described, most)] or [{"devices": []}]
    if options.partitions:
        counters = [_counters(options, device) for device in devices if device.part < 0]
        contents += [{"sharedCounters": part} for part in _split(counters, MOST_SETS)]
    pool = {"name": options.node, "generation": generation, "resourceSliceCount": len(contents)}
    return [{"driver": options.driver, "nodeName": options.node, "pool": pool, **content} for content in contents]


def slice_object(options: DriverOptions, number: int, spec: Object, node_uid: str) -> Object:
    """Owned by the node: it goes with it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": options.node, "uid": node_uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{options.node}-{options.driver}-{number}", "ownerReferences": [owner]},
        "spec": spec,
    }


def _device(options: DriverOptions, device: Device) -> Object:
    share = options.partitions if device.part >= 0 else 1
    attributes: Object = {
        "index": {"int": device.card},
        "uuid": {"string": options.uuid(device)},
        "model": {"string": "nodeplane-example"},
        "type": {"string": "card" if device.part < 0 else "part"},
    }
    if (numa := options.numa_node(device)) is not None:
        attributes["numa"] = {"int": numa}
    memory = _memory(share)
    found: Object = {"name": device.name, "attributes": attributes, "capacity": {"memory": {"value": memory}}}
    if options.partitions:
        parts = 1 if device.part >= 0 else options.partitions
        counters = {"memory": {"value": memory}, "parts": {"value": str(parts)}}
        found["consumesCounters"] = [{"counterSet": _set_name(device), "counters": counters}]
    return found


def _counters(options: DriverOptions, card: Device) -> Object:
    counters = {"memory": {"value": _memory(1)}, "parts": {"value": str(options.partitions)}}
    return {"name": _set_name(card), "counters": counters}


def _memory(share: int) -> str:
    return f"{GPU_MEMORY_GI // share}Gi" if GPU_MEMORY_GI % share == 0 else f"{GPU_MEMORY_GI * 1024 // share}Mi"


def _set_name(device: Device) -> str:
    return f"card-{device.card}"


def _split(items: list[Object], most: int) -> list[list[Object]]:
    return [items[at : at + most] for at in range(0, len(items), most)]
