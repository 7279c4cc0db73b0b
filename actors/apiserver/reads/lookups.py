"""Lookups of single decoded objects, in the replicas or in the store."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from actors.apiserver.authorization.node_rules import Lookup
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import Storage
from protocols.kube.meta import Object


class Lookups:
    """Objects by the plural of their resource, which is unique among stored resources."""

    def __init__(self, replicas: Mapping[str, Replica], storage: Storage) -> None:
        self._replicas = {replica.resource.plural: replica for replica in replicas.values()}
        self._storage = storage

    def of(self, plural: str) -> Lookup:
        return partial(_shown, self._replicas[plural])

    def known(self, plurals: Iterable[str]) -> Callable[[], Awaitable[None]]:
        """Return a function that waits a second for the first snapshots of resources. It raises TooManyRequests."""
        missing = [self._replicas[plural] for plural in plurals]

        async def wait() -> None:
            for replica in missing:
                await replica.filled_soon()
            missing.clear()

        return wait

    def all_of(self, plural: str) -> Callable[[str], list[Object]]:
        """Return a function that lists the objects of a namespace, or those of a cluster-scoped resource."""
        return partial(_all, self._replicas[plural])

    def shown(self, plural: str, namespace: str, name: str) -> Object | None:
        replica = self._replicas[plural]
        return _shown(replica, replica.resource.key(namespace, name))

    async def newest(self, plural: str, namespace: str, name: str) -> Object | None:
        """Return the object of the replica, or that of the store if the replica does not have it (yet)."""
        return self.shown(plural, namespace, name) or await self.stored(plural, namespace, name)

    async def stored(self, plural: str, namespace: str, name: str) -> Object | None:
        row = self._replicas[plural].resource
        stored = await self._storage.get(row, row.key(namespace, name))
        return None if stored is None else stored.obj


def _shown(replica: Replica, key: str) -> Object | None:
    stored = replica.objects.get(key)
    return None if stored is None else stored.obj


def _all(replica: Replica, namespace: str) -> list[Object]:
    if not len(replica.objects):
        return []
    return [stored.obj for stored in replica.objects.below(f"{namespace}/" if namespace else "")]
