"""All slices as patched, by pool, and what of them a node sees. Pure; pools and views are made when asked for and kept
until something they were made of changes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from protocols.dra.allocator.slices import Part, part_of, pool_of
from protocols.dra.allocator.types import Node, NodePool, Offer, Pool, reaches
from protocols.dra.types import DeviceId, PoolId, Slice


class View(msgspec.Struct, frozen=True, eq=False):
    """A node's pools, in the order of driver and name: the first fit wins, so names steer."""

    pools: tuple[NodePool, ...]
    labels: Mapping[str, str]
    made_of: tuple[Pool, ...]


class Catalog:
    def __init__(self) -> None:
        self.revision = 0
        """Another number whenever a slice changed."""
        self._parts: dict[str, Part] = {}
        self._members: defaultdict[PoolId, dict[str, Part]] = defaultdict(dict)
        self._pools: dict[PoolId, Pool] = {}
        self._views: dict[str, View] = {}
        self._local: defaultdict[str, dict[PoolId, int]] = defaultdict(dict)
        """Node -> pools it has slices of its own in, and how many; `""` = pools any node may see."""

    def put(self, slice_: Slice) -> None:
        known = self._parts.get(slice_.name)
        self.remove(slice_.name)
        part = self._parts[slice_.name] = part_of(slice_, known)
        self._members[slice_.pool_id][slice_.name] = part
        self._place(part, 1)

    def change(self, old: Slice | None, new: Slice | None) -> None:
        """One change as the tracker tells it."""
        if new is not None:
            self.put(new)
        elif old is not None:
            self.remove(old.name)

    def remove(self, name: str) -> None:
        part = self._parts.pop(name, None)
        if part is None:
            return
        self._place(part, -1)
        members = self._members[part.slice.pool_id]
        del members[name]
        if not members:
            del self._members[part.slice.pool_id]

    def _place(self, part: Part, change: int) -> None:
        pool, places = part.slice.pool_id, self._local[part.node]
        self.revision += 1
        self._pools.pop(pool, None)
        places[pool] = places.get(pool, 0) + change
        if not places[pool]:
            del places[pool]
        if not places:
            del self._local[part.node]

    def pool(self, id: PoolId) -> Pool | None:
        members = self._members.get(id)
        if not members:
            return None
        pool = self._pools.get(id)
        if pool is None:
            pool = self._pools[id] = pool_of(id, members.values())
        return pool

    def offer(self, id: DeviceId) -> Offer | None:
        """The device as the newest generation of its pool has it."""
        pool = self.pool(PoolId(id.driver, id.pool))
        return pool.by_id.get(id) if pool else None

    def offers(self) -> Iterator[Offer]:
        """All devices of the newest generations."""
        for id in list(self._members):
            pool = self.pool(id)
            yield from pool.offers if pool else ()

    def view(self, node: Node) -> View:
        candidates = self._local.get(node.name, {}).keys() | self._local.get("", {}).keys()
        pools = tuple(pool for id in sorted(candidates) if (pool := self.pool(id)) is not None)
        known = self._views.get(node.name)
        if known is not None and known.made_of == pools and known.labels == node.labels:
            return known
        seen = (self._seen(pool, node) for pool in pools)
        fresh = self._views[node.name] = View(tuple(each for each in seen if each.offers), node.labels, pools)
        return fresh

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._views.pop(node, None)

    def _seen(self, pool: Pool, node: Node) -> NodePool:
        return NodePool(pool, tuple(offer for offer in pool.offers if reaches(offer.reach, node)))
