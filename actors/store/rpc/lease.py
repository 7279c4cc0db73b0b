"""etcd's Lease service, and the expiry of leases."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import grpc

from actors.store.engine.core import Core
from actors.store.model.errors import LeaseExists, LeaseNotFound, LeaseTooLong, StoreError
from actors.store.model.types import LeaseRecord
from actors.store.mvcc.index import Draft
from protocols.process.tasks import wait_set
from protocols.wire import etcd_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
MAX_TTL = 9_000_000_000
RETRY = 1.0
"""Seconds until a failed expiry is retried."""


def grant(record: LeaseRecord, draft: Draft) -> int:
    """Store a new lease and return the revision, which a lease does not change. Raises LeaseExists."""
    if draft.lease(record.id) is not None:
        raise LeaseExists()
    draft.store_lease(record)
    return draft.revision


def revoke(lease: int, draft: Draft) -> int:
    """Delete a lease with its keys and return the revision of that."""
    draft.revoke(lease)
    return draft.current


class LeaseService:
    """Deadlines are in memory only, so renewals cost no write; the file holds the grants."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._revoking = 0
        """The expired lease whose revocation is being written; 0 for none."""

    async def grant(self, request: pb.LeaseGrantRequest) -> pb.LeaseGrantResponse:
        if request.TTL > MAX_TTL:
            raise LeaseTooLong()
        ttl = max(request.TTL, self._core.options.min_lease_ttl)
        record = LeaseRecord(request.ID or secrets.randbits(62) | 1, ttl, time.time() + ttl)
        revision = await self._core.writer.submit(partial(grant, record))
        return pb.LeaseGrantResponse(header=self._core.header(revision), ID=record.id, TTL=ttl)

    async def revoke(self, request: pb.LeaseRevokeRequest) -> pb.LeaseRevokeResponse:
        revision = await self._core.writer.submit(partial(revoke, request.ID))
        return pb.LeaseRevokeResponse(header=self._core.header(revision))

    async def keep_alive(
        self, requests: AsyncIterator[pb.LeaseKeepAliveRequest], context: Context
    ) -> AsyncIterator[pb.LeaseKeepAliveResponse]:
        async for request in requests:
            ttl = self._renew(request.ID)
            yield pb.LeaseKeepAliveResponse(header=self._core.header(), ID=request.ID, TTL=ttl)

    def _renew(self, lease: int) -> int:
        """Renew a lease; return its TTL, 0 if it does not exist or has expired and is being revoked."""
        record = self._core.leases.get(lease)
        if record is None or lease == self._revoking:
            return 0
        self._core.leases.extend(lease, time.monotonic() + record.ttl)
        return record.ttl

    async def time_to_live(self, request: pb.LeaseTimeToLiveRequest) -> pb.LeaseTimeToLiveResponse:
        response = pb.LeaseTimeToLiveResponse(header=self._core.header(), ID=request.ID, TTL=-1)
        record = self._core.leases.get(request.ID)
        if record is not None:
            response.TTL = self._core.leases.left(record.id, time.monotonic())
            response.grantedTTL = record.ttl
            response.keys.extend(sorted(self._core.leases.keys(record.id)) if request.keys else ())
        return response

    async def leases(self, request: pb.LeaseLeasesRequest) -> pb.LeaseLeasesResponse:
        statuses = [pb.LeaseStatus(ID=lease) for lease in self._core.leases.ids()]
        return pb.LeaseLeasesResponse(header=self._core.header(), leases=statuses)

    async def run(self) -> None:
        """Revoke expired leases; sleep until the next deadline."""
        while True:
            deadline = self._core.leases.next_deadline()
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            await wait_set(self._core.leases_changed, left)
            self._core.leases_changed.clear()
            await self._expire()

    async def _expire(self) -> None:
        leases = self._core.leases
        try:
            for lease in leases.expired(time.monotonic()):
                if leases.is_expired(lease, time.monotonic()):  # not renewed while others were revoked
                    await self._revoke_expired(lease)
        except StoreError:
            await asyncio.sleep(RETRY)

    async def _revoke_expired(self, lease: int) -> None:
        self._revoking = lease
        try:
            with suppress(LeaseNotFound):
                await self._core.writer.submit(partial(revoke, lease))
        finally:
            self._revoking = 0
