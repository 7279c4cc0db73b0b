"""Random small worlds of one pod with a claim each, and an oracle that tries everything.

Worlds share an API and do not meet: nodes, class, driver and claims carry the world's number. What is compared is
whether the pod fits on some node at all; where it goes is up to each scheduler.
"""

import itertools
import random
from collections.abc import Iterator
from typing import NamedTuple

from protocols.kinds.table import DEVICECLASSES, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, Resource
from protocols.kube.meta import Object

MODELS, ZONES = ("A", "B"), ("east", "west")
GIBIBYTES = (4, 8, 16)


class Device(NamedTuple):
    name: str
    model: str
    group: int
    memory: int
    """GiB."""
    used: bool


class Node(NamedTuple):
    name: str
    zone: str
    cpu: int
    tainted: bool
    devices: tuple[Device, ...]


class Request(NamedTuple):
    name: str
    devices: int
    model: str
    """Empty for any."""
    memory: int

    def suits(self, device: Device) -> bool:
        return self.model in ("", device.model) and device.memory >= self.memory


class World(NamedTuple):
    number: int
    nodes: tuple[Node, ...]
    cpu: int
    zone: str
    """That the pod requires; empty for any."""
    tolerates: bool
    requests: tuple[Request, ...]
    one_group: bool
    """All devices must be of one group."""

    @property
    def name(self) -> str:
        return f"w{self.number}"

    @property
    def driver(self) -> str:
        return f"{self.name}.example.com"


def world(number: int) -> World:
    dice = random.Random(number)
    nodes = tuple(_node(dice, f"w{number}-n{at}") for at in range(dice.randint(1, 3)))
    requests = tuple(
        Request(name, dice.choice([1, 1, 2, 3]), dice.choice(["", *MODELS]), dice.choice([0, *GIBIBYTES]))
        for name in ("r", "s")[: dice.randint(1, 2)]
    )
    zone, tolerates = dice.choice(["", "", "", *ZONES]), dice.random() < 0.5
    return World(number, nodes, dice.randint(1, 3), zone, tolerates, requests, dice.random() < 0.4)


def _node(dice: random.Random, name: str) -> Node:
    devices = (
        Device(f"d{at}", dice.choice(MODELS), dice.randrange(2), dice.choice(GIBIBYTES), dice.random() < 0.2)
        for at in range(dice.randint(1, 7))
    )
    return Node(name, dice.choice(ZONES), dice.randint(2, 4), dice.random() < 0.25, tuple(devices))


# oracle


def feasible(world: World) -> bool:
    return any(_admits(world, node) and _serves(world, node) for node in world.nodes)


def _admits(world: World, node: Node) -> bool:
    return (
        world.cpu <= node.cpu and world.zone in ("", node.zone) and (world.tolerates or not node.tainted)
    )  # fmt: skip


def _serves(world: World, node: Node) -> bool:
    """Try each way to give the free devices to the places of the requests."""
    places = [request for request in world.requests for _ in range(request.devices)]
    free = [device for device in node.devices if not device.used]
    return any(
        all(request.suits(device) for request, device in zip(places, chosen, strict=True))
        and (not world.one_group or len({device.group for device in chosen}) == 1)
        for chosen in itertools.permutations(free, len(places))
    )


# objects


def objects(world: World) -> Iterator[tuple[Resource, Object]]:
    """Yield the objects of a world, the pod last; status is part of them."""
    of_driver = {"cel": {"expression": f'device.driver == "{world.driver}"'}}
    yield DEVICECLASSES, _thing(DEVICECLASSES, world.name, {"selectors": [of_driver]})
    for node in world.nodes:
        yield NODES, _node_object(world, node)
        yield RESOURCESLICES, _slice(world, node)
        for device in node.devices:
            if device.used:
                yield RESOURCECLAIMS, _used(world, node, device)
    constraints = [{"matchAttribute": f"{world.driver}/group"}] if world.one_group else []
    requests = [_request(world, request) for request in world.requests]
    yield (
        RESOURCECLAIMS,
        _thing(RESOURCECLAIMS, world.name, {"devices": {"requests": requests, "constraints": constraints}}),
    )
    yield PODS, _pod(world)


def _request(world: World, request: Request) -> Object:
    device = f'device.attributes["{world.driver}"].model == "{request.model}"'
    memory = f'device.capacity["{world.driver}"].memory.compareTo(quantity("{request.memory}Gi")) >= 0'
    terms = [*([device] if request.model else []), *([memory] if request.memory else [])]
    selectors = [{"cel": {"expression": term}} for term in terms]
    return {
        "name": request.name,
        "exactly": {"deviceClassName": world.name, "count": request.devices, "selectors": selectors},
    }


def _node_object(world: World, node: Node) -> Object:
    labels = {"world": world.name, "zone": node.zone}
    taints = [{"key": "closed", "effect": "NoSchedule"}] if node.tainted else []
    amounts = {"cpu": str(node.cpu), "memory": "8Gi", "pods": "10"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {
        **_thing(NODES, node.name, {"taints": taints}),
        "metadata": {"name": node.name, "labels": labels},
        "status": status,
    }


def _slice(world: World, node: Node) -> Object:
    devices = [
        {
            "name": device.name,
            "attributes": {"model": {"string": device.model}, "group": {"int": device.group}},
            "capacity": {"memory": {"value": f"{device.memory}Gi"}},
        }
        for device in node.devices
    ]
    pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": world.driver, "nodeName": node.name, "pool": pool, "devices": devices}
    return _thing(RESOURCESLICES, f"{node.name}-slice", spec)


def _used(world: World, node: Node, device: Device) -> Object:
    """A claim that holds the device, allocated ahead of its pod."""
    request = {"name": "r", "exactly": {"deviceClassName": world.name}}
    result = {"request": "r", "driver": world.driver, "pool": node.name, "device": device.name}
    claim = _thing(RESOURCECLAIMS, f"{node.name}-{device.name}", {"devices": {"requests": [request]}})
    return {**claim, "status": {"allocation": {"devices": {"results": [result]}}}}


def _pod(world: World) -> Object:
    resources = {"requests": {"cpu": str(world.cpu)}, "claims": [{"name": "c"}]}
    spec = {
        "containers": [{"name": "main", "image": "busybox:1", "resources": resources}],
        "resourceClaims": [{"name": "c", "resourceClaimName": world.name}],
        "nodeSelector": {"world": world.name, **({"zone": world.zone} if world.zone else {})},
        "tolerations": [{"key": "closed", "operator": "Exists"}] if world.tolerates else [],
    }
    return _thing(PODS, world.name, spec)


def _thing(resource: Resource, name: str, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
