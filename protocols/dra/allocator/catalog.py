"""All patched slices by pool, and the devices that each node reaches.

Pure. Pools and views are computed on demand and cached until a slice changes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from protocols.dra.allocator.types import Amounts, CounterId, DeviceInfo, Node, NodePool, Pool, is_reachable
from protocols.dra.types import Device, DeviceId, PoolId, Reach, Slice

NOWHERE = Reach()


class SliceInfo(msgspec.Struct, frozen=True, eq=False):
    """A slice with its devices."""

    slice: Slice
    devices: tuple[DeviceInfo, ...]

    @property
    def node(self) -> str:
        """The only node that can reach the slice; empty if several may."""
        return self.slice.reach.node


def _slice_info_of(slice_: Slice, known: SliceInfo | None = None) -> SliceInfo:
    return SliceInfo(slice_, tuple(_devices(slice_, {device.id: device for device in known.devices} if known else {})))


def _devices(slice_: Slice, known: Mapping[DeviceId, DeviceInfo]) -> Iterator[DeviceInfo]:
    for device in slice_.devices:
        id = DeviceId(slice_.driver, slice_.pool, device.name)
        reach = (device.extras.reach or NOWHERE) if slice_.reach.per_device else slice_.reach
        old = known.get(id)
        same = old is not None and old.spec == device and old.reach == reach
        yield old if old is not None and same else DeviceInfo(id, device, reach, _consumption(device))


def _consumption(device: Device) -> dict[CounterId, int]:
    uses = device.extras.consumes
    return {(use.counter_set, name): amount.nanos for use in uses for name, amount in use.counters.items()}


def pool_of(id: PoolId, slice_infos: Iterable[SliceInfo]) -> Pool:
    """Build a pool from its newest generation. It is incomplete if the number of slices is not the announced one."""
    newest = _newest(slice_infos)
    sets = [counter_set for slice_info in newest for counter_set in slice_info.slice.counters]
    counters = {
        (counter_set.name, name): amount.nanos for counter_set in sets for name, amount in counter_set.counters.items()
    }
    devices = tuple(device for slice_info in newest for device in slice_info.devices)
    fault = _doubled("counter set", (counter_set.name for counter_set in sets)) or _doubled(
        "device", (device.id[2] for device in devices)
    )
    complete = all(slice_info.slice.count == len(newest) for slice_info in newest)
    return Pool(id, devices, counters, complete, fault or _dangling(devices, counters))


def _newest(slice_infos: Iterable[SliceInfo]) -> list[SliceInfo]:
    """Return the slices of the newest generation, ordered by name so that the search is deterministic."""
    known = sorted(slice_infos, key=lambda slice_info: slice_info.slice.name)
    newest = max((slice_info.slice.generation for slice_info in known), default=0)
    return [slice_info for slice_info in known if slice_info.slice.generation == newest]


def _doubled(kind: str, names: Iterable[str]) -> str:
    doubled = next((name for name, count in Counter(names).items() if count > 1), "")
    return f"duplicate {kind} name {doubled}" if doubled else ""


def _dangling(devices: tuple[DeviceInfo, ...], counters: Mapping[CounterId, int]) -> str:
    sets = {name for name, _ in counters}
    for device in devices:
        for name, counter in device.consumes:
            if name not in sets:
                return f"counter set {name} not found"
            if (name, counter) not in counters:
                return f"counter {counter} not found in counter set {name}"
    return ""


class NodePools(msgspec.Struct, frozen=True, eq=False):
    """Pools that a node reaches, by driver and name; pools with binding conditions come last."""

    pools: tuple[NodePool, ...]
    labels: Mapping[str, str]
    made_of: tuple[Pool, ...]


class Catalog:
    """The slices of all drivers, and the pools that a node reaches; `revision` shows that something changed."""

    def __init__(self) -> None:
        self.revision = 0
        """Grows with each change of a slice."""
        self._slices: dict[str, SliceInfo] = {}
        self._members: defaultdict[PoolId, dict[str, SliceInfo]] = defaultdict(dict)
        self._pools: dict[PoolId, Pool] = {}
        self._views: dict[str, NodePools] = {}
        self._local: defaultdict[str, dict[PoolId, int]] = defaultdict(dict)
        """Number of slices by node and pool; `""` is the node of slices that several nodes may reach."""

    def put(self, slice_: Slice) -> None:
        known = self._slices.get(slice_.name)
        self.remove(slice_.name)
        slice_info = self._slices[slice_.name] = _slice_info_of(slice_, known)
        self._members[slice_.pool_id][slice_.name] = slice_info
        self._place(slice_info, 1)

    def change(self, old: Slice | None, new: Slice | None) -> None:
        """Apply a change reported by the tracker."""
        if new is not None:
            self.put(new)
        elif old is not None:
            self.remove(old.name)

    def remove(self, name: str) -> None:
        slice_info = self._slices.pop(name, None)
        if slice_info is None:
            return
        self._place(slice_info, -1)
        members = self._members[slice_info.slice.pool_id]
        del members[name]
        if not members:
            del self._members[slice_info.slice.pool_id]

    def _place(self, slice_info: SliceInfo, change: int) -> None:
        pool, places = slice_info.slice.pool_id, self._local[slice_info.node]
        self.revision += 1
        self._pools.pop(pool, None)
        places[pool] = places.get(pool, 0) + change
        if not places[pool]:
            del places[pool]
        if not places:
            del self._local[slice_info.node]

    def pool(self, id: PoolId) -> Pool | None:
        members = self._members.get(id)
        if not members:
            return None
        pool = self._pools.get(id)
        if pool is None:
            pool = self._pools[id] = pool_of(id, members.values())
        return pool

    def device(self, id: DeviceId) -> DeviceInfo | None:
        """Return a device of the newest generation of its pool."""
        pool = self.pool(PoolId(id.driver, id.pool))
        return pool.by_id.get(id) if pool else None

    def capacities(self, id: DeviceId) -> Amounts | None:
        """Return the total of each capacity of a device, None if it is not published."""
        device = self.device(id)
        return {name: capacity.value.nanos for name, capacity in device.spec.capacity.items()} if device else None

    def pools(self) -> Iterator[Pool]:
        """Yield the newest generation of each pool, by driver and name. Pools removed during iteration are skipped."""
        for id in sorted(self._members):
            if (pool := self.pool(id)) is not None:
                yield pool

    def sizes(self) -> dict[PoolId, int]:
        """Return the number of devices in the newest generation of each pool, in the order of driver and name."""
        counts = {}
        for id in sorted(self._members):
            slice_infos = self._members[id].values()
            newest = max(slice_info.slice.generation for slice_info in slice_infos)
            counts[id] = sum(
                len(slice_info.devices) for slice_info in slice_infos if slice_info.slice.generation == newest
            )
        return counts

    def devices(self) -> Iterator[DeviceInfo]:
        """Yield the devices of all pools."""
        for pool in self.pools():
            yield from pool.devices

    def view(self, node: Node) -> NodePools:
        candidates = self._local.get(node.name, {}).keys() | self._local.get("", {}).keys()
        pools = tuple(pool for id in sorted(candidates) if (pool := self.pool(id)) is not None)
        known = self._views.get(node.name)
        if known is not None and known.made_of == pools and known.labels == node.labels:
            return known
        seen = (self._seen(pool, node) for pool in sorted(pools, key=lambda pool: pool.has_binding_conditions))
        fresh = self._views[node.name] = NodePools(tuple(each for each in seen if each.devices), node.labels, pools)
        return fresh

    def forget(self, node: str) -> None:
        """Drop the view of a deleted node."""
        self._views.pop(node, None)

    def _seen(self, pool: Pool, node: Node) -> NodePool:
        return NodePool(pool, tuple(device for device in pool.devices if is_reachable(device.reach, node)))
