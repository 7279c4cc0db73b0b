"""Objects that expire share leases: one lease covers many writes of about the same time."""

import asyncio
import time
from collections.abc import Callable

from protocols.etcd.client import EtcdClient

OBJECTS_PER_LEASE = 1000
SLACK_SECONDS = 60


class SharedLease:
    """Hands out a lease with at least `ttl` seconds left; grants one more when age or use says so."""

    def __init__(self, client: EtcdClient, ttl: int, on_full: Callable[[int], None]) -> None:
        """`on_full` is told how many objects share a lease when it gets no more."""
        self._on_full = on_full
        self._client = client
        self._ttl = ttl
        self._slack = min(SLACK_SECONDS, max(1, ttl // 20))
        self._id = 0
        self._uses = 0
        self._usable_until = 0.0
        self._granting = asyncio.Lock()

    async def take(self) -> int:
        """Raises EtcdError when the store cannot grant."""
        async with self._granting:
            if self._uses >= OBJECTS_PER_LEASE or time.monotonic() >= self._usable_until:
                asked_at = time.monotonic()
                granted = await self._client.lease_grant(self._ttl + self._slack)
                if self._uses:
                    self._on_full(self._uses)
                self._id, self._uses = granted.id, 0
                self._usable_until = asked_at + self._slack
            self._uses += 1
            return self._id
