"""Reads of objects that several pods need at once: one request answers all of them.

- A read joins another one of the same object only before that is sent: no pod gets an object from before it asked. At
  most one request for an object is under way, and one waits for it.
- The root certificate of a namespace, which every pod mounts with its token, is retained for RETAINED_S. It changes
  with the cluster's certificate authority alone, and files of volumes follow their sources within a minute anyway.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from protocols.bounded import BoundedMap
from protocols.kube.meta import Object
from protocols.process.tasks import shared

ROOT_CA = "kube-root-ca.crt"
"""Name of the ConfigMap with the root certificate in each namespace."""
RETAINED_S = 10.0
MAX_RETAINED = 256
"""Namespaces."""

Key: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""
Load: TypeAlias = Callable[[], Awaitable[Object | None]]


class SharedReads:
    """Reads in flight, and objects that were read a moment ago, by kind, namespace and name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[Key, asyncio.Task[Object | None]] = {}
        self._sent: dict[Key, asyncio.Task[Object | None]] = {}
        self.retained = BoundedMap[Key, tuple[float, Object]](MAX_RETAINED)
        """Objects with the time until which they are valid."""

    async def read(self, key: Key, load: Load) -> Object | None:
        """Return what `load` returns, called for this read or another one that waits. Raises what it raises."""
        until, obj = self.retained.get(key, (0.0, {}))
        if self._clock() < until:
            return obj
        task = self._waiting.get(key)
        if task is None:
            task = self._waiting[key] = shared(self._run(key, load), "read", " ".join(key))
        return await asyncio.shield(task)

    async def _run(self, key: Key, load: Load) -> Object | None:
        if (earlier := self._sent.get(key)) is not None:
            await asyncio.wait([earlier])
        self._sent[key] = self._waiting.pop(key)
        try:
            obj = await load()
        finally:
            del self._sent[key]
        self._retain(key, obj)
        return obj

    def _retain(self, key: Key, obj: Object | None) -> None:
        kind, _, name = key
        if obj is None or (kind, name) != ("ConfigMap", ROOT_CA):
            return
        self.retained[key] = (self._clock() + RETAINED_S, obj)
