"""Which resource a key of etcd belongs to. Pure."""

from bisect import bisect_right
from collections.abc import Iterable

from actors.watchcache.cache import ResourceCache
from protocols.messages.objects import HISTORY_MARK


class Demux:
    """Finds a cache by key prefix. Keys outside every prefix (of other API servers, say) are nobody's."""

    def __init__(self, caches: Iterable[ResourceCache]) -> None:
        pairs = sorted((cache.resource.storage_prefix.encode(), cache) for cache in caches)
        self._prefixes = [prefix for prefix, _ in pairs]
        self._caches = [cache for _, cache in pairs]

    def find(self, key: bytes) -> tuple[ResourceCache, str] | None:
        """The cache, and the key below its prefix."""
        at = bisect_right(self._prefixes, key) - 1
        if at < 0 or not key.startswith(self._prefixes[at]):
            return None
        rest = key[len(self._prefixes[at]) :].decode(errors="replace")
        if not rest or rest.startswith(HISTORY_MARK):  # snapshots mark history so; no object's name may begin with it
            return None
        return self._caches[at], rest
