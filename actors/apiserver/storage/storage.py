"""Objects in the etcd API: reads, pages, and writes that apply only if their revision is still current."""

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar

import msgspec

from actors.apiserver.api.errors import CorruptObject, Expired, TooLargeVersion
from actors.apiserver.api.resource import Resource
from actors.apiserver.api.stored import Stored, corruption
from actors.apiserver.storage.metrics import StoreMetrics
from actors.apiserver.storage.stores import Stores
from protocols.errors import NodeplaneError
from protocols.etcd import errors as etcd
from protocols.etcd.client import EtcdClient
from protocols.etcd.paging import Pager
from protocols.etcd.types import KeyValue, prefix_end
from protocols.kube.jsons import stored_json
from protocols.wire import etcd_pb2 as pb

OBJECTS_PER_LEASE = 1000
SLACK_SECONDS = 60


class SharedLease:
    """Leases for objects that expire: one lease covers many writes of about the same time.

    A lease has at least `ttl` seconds left when it is taken. A new one is granted after OBJECTS_PER_LEASE uses, or when
    the slack of the old one has passed.
    """

    def __init__(self, client: EtcdClient, ttl: int, on_full: Callable[[int], None]) -> None:
        """`on_full` is called with the number of objects of a lease that gets no more."""
        self._on_full = on_full
        self._client = client
        self._ttl = ttl
        self._slack = min(SLACK_SECONDS, max(1, ttl // 20))
        self._id = 0
        self._uses = 0
        self._usable_until = 0.0
        self._granting = asyncio.Lock()

    async def take(self) -> int:
        """Return the id of a lease. Raises EtcdError."""
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


FEW = 16
"""Up to this many objects are read one by one, more in pages."""
TIMEOUT = 10.0
"""Deadline of each call, including retries: long enough for a restart of the store."""


Held = Callable[[str], Stored | None]
"""Return the newest known object of a key."""


class KeyExists(NodeplaneError):
    """Raised by create when the key exists."""

    http: ClassVar[int] = 409

    def __init__(self, existing: Stored) -> None:
        super().__init__(f"{existing.key} exists")
        self.terminating = not corruption(existing.raw) and bool(existing.obj["metadata"].get("deletionTimestamp"))


class RevisionConflict(NodeplaneError):
    """Raised by update and delete when the object has another revision. `current` is the stored object."""

    http: ClassVar[int] = 409

    def __init__(self, current: Stored | None) -> None:
        super().__init__("the object has been modified")
        self.current = current


class Compacted(Expired):
    """Raised by page when its revision is compacted."""

    def __init__(self, resume: str = "") -> None:
        super().__init__("The resourceVersion for the provided list is too old.", resume=resume)


class Page(msgspec.Struct, frozen=True):
    objects: list[Stored]
    rv: int
    more: bool
    count: int
    """Objects in the whole range, including those of this page."""


class Storage:
    """Objects in the stores. Every method may raise EtcdError."""

    def __init__(self, stores: Stores, meter: StoreMetrics) -> None:
        self._stores = stores
        self._meter = meter
        self._leases: dict[tuple[int, int], SharedLease] = {}

    async def get(self, resource: Resource, key: str) -> Stored | None:
        """Read an object, linearizable. Raises CorruptObject."""
        found = await self.get_bytes(resource, key)
        return None if found is None else _checked(resource, found)

    async def get_bytes(self, resource: Resource, key: str) -> Stored | None:
        """Read the value of a key, linearizable, without checking that it is an object."""
        number, store = self._stores.place(resource)
        with self._meter.measured("get", resource):
            found, revision = await store.get(_full_key(resource, key), timeout=TIMEOUT)
        self._meter.saw_revision(number, revision)
        return None if found is None else _stored(resource, found)

    async def revision(self, resource: Resource) -> int:
        """Return the current revision of the resource's store, linearizable. Reads no object."""
        prefix = resource.storage_prefix.encode()
        number, store = self._stores.place(resource)
        with self._meter.measured("get", resource):
            revision = await store.current_revision(prefix, timeout=TIMEOUT)
        self._meter.set_revision(number, revision)
        return revision

    async def page(self, resource: Resource, below: str, start: str, limit: int, rv: int, held: Held) -> Page:
        """Read a page of keys that begin with `below`, from key `start` on, at revision `rv` (0 = now).

        Only keys and revisions are read at first. Objects that `held` returns at the same revision are shared and not
        read again, so that pages of large objects cost neither memory nor time. Callers must check that the values are
        valid objects. Raises Compacted, TooLargeVersion.
        """
        prefix, first = _full_key(resource, below), _full_key(resource, max(below, start))
        request = pb.RangeRequest(key=first, range_end=prefix_end(prefix), limit=limit, revision=rv, keys_only=True)
        try:
            with self._meter.measured("list", resource):
                found = await self._stores.of(resource).ranged(request, TIMEOUT)
                rv = rv or found.revision
                known = {kv.key: have for kv in found.kvs if (have := _known(resource, kv, held)) is not None}
                known |= await self._values(resource, [kv for kv in found.kvs if kv.key not in known], rv)
        except etcd.Compacted:
            raise Compacted from None
        except etcd.FutureRevision:
            raise TooLargeVersion(rv, await self.revision(resource)) from None
        return Page([known[kv.key] for kv in found.kvs if kv.key in known], rv, found.more, found.count)

    async def _values(self, resource: Resource, wanted: list[KeyValue], rv: int) -> dict[bytes, Stored]:
        """Read the values of these keys at revision `rv`: a few one by one, many in pages that fit their sizes."""
        store, read = self._stores.of(resource), dict[bytes, Stored]()
        if len(wanted) <= FEW:
            for each in wanted:
                found, _ = await store.get(each.key, rv, TIMEOUT)
                read |= {found.key: _stored(resource, found)} if found is not None else {}
            return read
        keys, end = {each.key for each in wanted}, wanted[-1].key + b"\0"
        start, pager = wanted[0].key, Pager()
        while True:
            page = await store.ranged(
                pb.RangeRequest(key=start, range_end=end, limit=pager.limit, revision=rv), TIMEOUT
            )
            read |= {kv.key: _stored(resource, kv) for kv in page.kvs if kv.key in keys}
            pager.took(len(page.kvs), sum(len(kv.value) for kv in page.kvs))
            if not page.more or not page.kvs:
                return read
            start = page.kvs[-1].key + b"\0"

    async def create(self, resource: Resource, key: str, raw: bytes) -> Stored:
        lease = await self._lease(resource) if resource.ttl else 0
        number, store = self._stores.place(resource)
        with self._meter.measured("create", resource):
            done = await store.create_if_absent(_full_key(resource, key), raw, lease, timeout=TIMEOUT)
        self._meter.saw_revision(number, done.revision)
        if done.ok:
            return Stored(key, done.revision, raw)
        if done.current is None:
            raise RevisionConflict(None)
        raise KeyExists(_stored(resource, done.current))

    async def create_all(self, objects: list[tuple[Resource, str, bytes]]) -> bool:
        """Create objects in one write. Return False and create none if one exists or they are not all in one store."""
        pairs = [(_full_key(resource, key), raw) for resource, key, raw in objects]
        if len({self._stores.number_of(resource) for resource, _, _ in objects}) != 1:
            return False
        return await self._stores.of(objects[0][0]).create_all_if_absent(pairs, timeout=TIMEOUT)

    async def update(self, resource: Resource, old: Stored, raw: bytes) -> Stored:
        lease = await self._lease(resource) if resource.ttl else 0
        full = _full_key(resource, old.key)
        number, store = self._stores.place(resource)
        with self._meter.measured("update", resource):
            done = await store.update_if_revision(full, raw, old.rv, lease, timeout=TIMEOUT)
        self._meter.saw_revision(number, done.revision)
        if done.ok:
            return Stored(old.key, done.revision, raw)
        raise RevisionConflict(None if done.current is None else _checked(resource, _stored(resource, done.current)))

    async def delete(self, resource: Resource, old: Stored) -> int:
        """Delete an object and return the revision of the deletion."""
        full = _full_key(resource, old.key)
        number, store = self._stores.place(resource)
        with self._meter.measured("delete", resource):
            done = await store.delete_if_revision(full, old.rv, timeout=TIMEOUT)
        self._meter.saw_revision(number, done.revision)
        if done.ok:
            return done.revision
        raise RevisionConflict(None if done.current is None else _checked(resource, _stored(resource, done.current)))

    async def _lease(self, resource: Resource) -> int:
        number, store = self._stores.place(resource)
        shared = self._leases.get((number, resource.ttl))
        if shared is None:
            shared = SharedLease(store, resource.ttl, self._meter.lease_full)
            self._leases[number, resource.ttl] = shared
        return await shared.take()


def _stored(resource: Resource, kv: KeyValue) -> Stored:
    return Stored(_key(resource, kv.key), kv.mod_revision, stored_json(kv.value))


def _key(resource: Resource, key: bytes) -> str:
    return key.decode(errors="replace").removeprefix(resource.storage_prefix)


def _known(resource: Resource, kv: KeyValue, held: Held) -> Stored | None:
    have = held(_key(resource, kv.key))
    return have if have is not None and have.rv == kv.mod_revision else None


def _checked(resource: Resource, stored: Stored) -> Stored:
    """Return a valid object. Raises CorruptObject."""
    if why := corruption(stored.raw, resource.custom is not None):
        raise CorruptObject(f"{resource.storage_prefix}{stored.key}", why)
    return stored


def _full_key(resource: Resource, key: str) -> bytes:
    return f"{resource.storage_prefix}{key}".encode()
