"""Compare the cache with the store at the same revision periodically.

A difference is a fault that nothing else would report; the watch cache then ends and starts again from the store.
"""

import asyncio
import logging
from typing import Protocol

from actors.watchcache.cache.history_check import HistoryLost
from actors.watchcache.cache.resource_cache import ResourceCache
from actors.watchcache.cache.store_state import StoreState, names_object
from protocols.etcd.errors import EtcdError, FutureRevision
from protocols.etcd.types import Ranged, prefix_end
from protocols.wire import etcd_pb2 as pb

PAGE = 10_000
READ_BYTES = 16 * 1024 * 1024
"""Bytes of values per page: a store reads the values even though only keys are sent."""
SUCCESS, FAILURE, ERROR = "success", "failure", "error"

log = logging.getLogger("watchcache")


class _RangedStore(Protocol):
    async def ranged(self, request: pb.RangeRequest, timeout: float | None = None) -> Ranged: ...


class ConsistencyCheck:
    """Compares one resource after the other, page by page, so that the store is never read as a whole."""

    def __init__(self, client: _RangedStore, state: StoreState, every: float) -> None:
        self._client, self._state, self._every = client, state, every

    async def run(self) -> None:
        """Run until cancelled.

        Raises:
            HistoryLost: A difference was found.
        """
        while True:
            await asyncio.sleep(self._every)
            for cache in tuple(self._state.caches):
                filled = self._state.complete and self._state.position >= self._state.listed_revision
                # The definition of a custom resource may have gone while others were compared.
                if filled and cache in self._state.caches and await self.check(cache) == FAILURE:
                    raise HistoryLost(f"{cache.resource.full_name} is not what the store holds; starting anew")

    async def check(self, cache: ResourceCache) -> str:
        """Compare one resource; count and return the outcome, and log the first key that differs."""
        name = cache.resource.full_name
        revision, held = self._state.position, {key: stored.rv for key, stored in cache.objects.items()}
        largest = max((len(stored.value) for stored in cache.objects.values()), default=0)
        page = max(1, min(PAGE, READ_BYTES // max(largest, 1)))
        try:
            differing = await self._differing(cache, held, revision, page)
        except FutureRevision as error:
            log.error(
                "consistency check failed, store is behind the cache resource=%s revision=%d error=%s",
                name,
                revision,
                error,
            )
            outcome = FAILURE
        except EtcdError as error:
            log.info(
                "consistency check not possible resource=%s revision=%d error=%s",
                name,
                revision,
                error,
            )
            outcome = ERROR
        else:
            outcome = FAILURE if differing else SUCCESS
            if differing:
                facts = (name, len(differing), revision, min(differing))
                log.error("consistency check failed resource=%s differing=%d revision=%d first=%s", *facts)
        cache.checks[outcome] += 1
        return outcome

    async def _differing(self, cache: ResourceCache, held: dict[str, int], revision: int, limit: int) -> set[str]:
        """Return the keys whose revisions differ or that only one side has."""
        prefix = cache.resource.storage_prefix.encode()
        start, stored = prefix, dict[str, int]()
        while True:
            request = pb.RangeRequest(
                key=start, range_end=prefix_end(prefix), limit=limit, revision=revision, keys_only=True
            )
            page = await self._client.ranged(request)
            stored.update({kv.key[len(prefix) :].decode(errors="replace"): kv.mod_revision for kv in page.kvs})
            if not page.more:
                return {key for key, _ in held.items() ^ stored.items() if names_object(key)}
            start = page.kvs[-1].key + b"\0"
