"""Objects in the etcd API: reads, pages, and writes that apply only if their revision is still current."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec

from actors.apiserver.api.errors import CorruptObject, Expired, TooLargeVersion
from actors.apiserver.api.request.traces import record_stored
from actors.apiserver.api.stored import Stored, corruption
from actors.apiserver.replica.own_writes import OwnWrite
from actors.apiserver.storage.metrics import StoreMetrics
from actors.apiserver.storage.stores import Stores
from protocols.errors import NodeplaneError
from protocols.etcd import errors as etcd
from protocols.etcd.client import EtcdClient
from protocols.etcd.paging import Pager
from protocols.etcd.types import ALONE, Companions, KeyValue, Written, prefix_end
from protocols.kinds.served.row import Served
from protocols.kube.jsons import read_json, stored_json
from protocols.trace import clock
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

    def drop(self, lease: int) -> None:
        """Use a lease no longer that the store lacks: it was restored from an older backup."""
        if lease == self._id:
            self._usable_until = 0.0


FEW = 16
"""Up to this many objects are read one by one, more in pages."""
TIMEOUT = 10.0
"""Deadline of each call, including retries: long enough for a restart of the store."""


Held = Callable[[str], Stored | None]
"""Return the newest known object of a key."""


class KeyExists(NodeplaneError, http=409):
    """Raised by create when the key exists."""

    def __init__(self, existing: Stored) -> None:
        super().__init__(f"{existing.key} exists")
        self.terminating = not corruption(existing.raw) and bool(existing.obj["metadata"].get("deletionTimestamp"))


class RevisionConflict(NodeplaneError, http=409):
    """Raised by update and delete when the object has another revision. `current` is the stored object."""

    def __init__(self, current: Stored | None) -> None:
        super().__init__("the object has been modified")
        self.current = current


class Taken(NodeplaneError, http=409):
    """Raised by create and update when another object holds keys that this one would reserve."""

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        super().__init__(f"{', '.join(map(bytes.decode, keys))}: held by another object")
        self.keys = [key.decode() for key in keys]


class HeldChanged(NodeplaneError, http=409):
    """Raised by create and update when an object that the write depends on does not stand at its revision any more."""

    def __init__(self) -> None:
        super().__init__("an object that the write depends on has been modified")


TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
"""Upstream's texts."""


class Compacted(Expired):
    """Raised by page when its revision is compacted; `resume` is a token for the rest of a list that is continued."""

    def __init__(self, resume: str = "") -> None:
        super().__init__(CONTINUE_TOO_OLD if resume else TOO_OLD, resume=resume)


class _Page(msgspec.Struct, frozen=True):
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
        self.on_written: Callable[[Served, OwnWrite], None] = _not_connected
        """Called with each acknowledged write of one object and no other key."""

    async def get(self, resource: Served, key: str) -> Stored | None:
        """Read an object, linearizable. Raises CorruptObject."""
        stored = await self.get_bytes(resource, key)
        return None if stored is None else _checked(resource, stored)

    async def get_bytes(self, resource: Served, key: str) -> Stored | None:
        """Read the value of a key, linearizable, without checking that it is an object."""
        number, store = self._stores.place(resource)
        with self._meter.measured("get", resource):
            kv, revision = await store.get(_full_key(resource, key), timeout=TIMEOUT)
        self._meter.saw_revision(number, revision)
        return None if kv is None else _stored(resource, kv)

    async def revision(self, resource: Served) -> int:
        """Return the current revision of the resource's store, linearizable. Reads no object."""
        prefix = resource.storage_prefix.encode()
        number, store = self._stores.place(resource)
        with self._meter.measured("get", resource):
            revision = await store.current_revision(prefix, timeout=TIMEOUT)
        self._meter.set_revision(number, revision)
        return revision

    async def page(self, resource: Served, below: str, start: str, limit: int, rv: int, held: Held) -> _Page:
        """Read a page of keys that begin with `below`, from key `start` on, at revision `rv` (0 = now).

        Only keys and revisions are read at first. Objects that `held` returns at the same revision are shared and not
        read again, so that pages of large objects cost neither memory nor time. Callers must check that the values are
        valid objects. Raises Compacted, TooLargeVersion.
        """
        prefix, first = _full_key(resource, below), _full_key(resource, max(below, start))
        request = pb.RangeRequest(key=first, range_end=prefix_end(prefix), limit=limit, revision=rv, keys_only=True)
        try:
            with self._meter.measured("list", resource):
                ranged = await self._stores.of(resource).ranged(request, TIMEOUT)
                rv = rv or ranged.revision
                known = {kv.key: have for kv in ranged.kvs if (have := _known(resource, kv, held)) is not None}
                known |= await self._values(resource, [kv for kv in ranged.kvs if kv.key not in known], rv)
        except etcd.Compacted:
            raise Compacted from None
        except etcd.FutureRevision:
            raise TooLargeVersion(rv, await self.revision(resource)) from None
        return _Page([known[kv.key] for kv in ranged.kvs if kv.key in known], rv, ranged.more, ranged.count)

    async def _values(self, resource: Served, wanted: list[KeyValue], rv: int) -> dict[bytes, Stored]:
        """Read the values of these keys at revision `rv`: a few one by one, many in pages that fit their sizes."""
        store, read = self._stores.of(resource), dict[bytes, Stored]()
        if len(wanted) <= FEW:
            for value in wanted:
                one, _ = await store.get(value.key, rv, TIMEOUT)
                read |= {one.key: _stored(resource, one)} if one is not None else {}
            return read
        keys, end = {value.key for value in wanted}, wanted[-1].key + b"\0"
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

    async def create(self, resource: Served, key: str, raw: bytes, held: Mapping[bytes, int] = ALONE.held) -> Stored:
        """Create an object. Raises KeyExists, Taken; HeldChanged if a key of `held` is not at its revision."""
        number, store = self._stores.place(resource)
        began, full, also = clock(), _full_key(resource, key), _holding(_reserved(resource, None, raw), held)

        async def write(lease: int) -> Written:
            with self._meter.measured("create", resource):
                return await store.create_if_absent(full, raw, lease, TIMEOUT, also)

        done = await self._leased(resource, write)
        self._meter.saw_revision(number, done.revision)
        if done.ok:
            stored = Stored(key, done.revision, raw)
            record_stored(resource, stored, began, done.revision)
            self._report(resource, done, also, OwnWrite(key, done.revision, 0, raw))
            return stored
        if done.current is None:
            raise Taken(done.taken) if done.taken else HeldChanged() if held else RevisionConflict(None)
        raise KeyExists(_stored(resource, done.current))

    async def create_all(self, objects: list[tuple[Served, str, bytes]]) -> bool:
        """Create objects in one write. Return False and create none if one exists or they are not all in one store."""
        pairs = [(_full_key(resource, key), raw) for resource, key, raw in objects]
        if len({self._stores.number_of(resource) for resource, _, _ in objects}) != 1:
            return False
        return await self._stores.of(objects[0][0]).create_all_if_absent(pairs, timeout=TIMEOUT)

    async def update(self, resource: Served, old: Stored, raw: bytes, held: Mapping[bytes, int] = ALONE.held) -> Stored:
        """Replace an object. Raises RevisionConflict, Taken; HeldChanged if a key of `held` is not at its revision."""
        number, store = self._stores.place(resource)
        began, full, also = clock(), _full_key(resource, old.key), _holding(_reserved(resource, old.raw, raw), held)

        async def write(lease: int) -> Written:
            with self._meter.measured("update", resource):
                return await store.update_if_revision(full, raw, old.rv, lease, TIMEOUT, also)

        done = await self._leased(resource, write)
        self._meter.saw_revision(number, done.revision)
        if done.ok:
            stored = Stored(old.key, done.revision, raw)
            record_stored(resource, stored, began, done.revision)
            self._report(resource, done, also, OwnWrite(old.key, done.revision, old.rv, raw))
            return stored
        if done.taken and done.current is not None and done.current.mod_revision == old.rv:
            raise Taken(done.taken)
        if held and done.current is not None and done.current.mod_revision == old.rv:
            raise HeldChanged()
        raise RevisionConflict(None if done.current is None else _checked(resource, _stored(resource, done.current)))

    async def delete(self, resource: Served, old: Stored) -> int:
        """Delete an object and return the revision of the deletion."""
        full = _full_key(resource, old.key)
        number, store = self._stores.place(resource)
        began = clock()
        with self._meter.measured("delete", resource):
            also = _reserved(resource, old.raw, None)
            done = await store.delete_if_revision(full, old.rv, TIMEOUT, also)
        self._meter.saw_revision(number, done.revision)
        if done.ok:
            record_stored(resource, old, began, done.revision)
            self._report(resource, done, also, OwnWrite(old.key, done.revision, old.rv, None))
            return done.revision
        raise RevisionConflict(None if done.current is None else _checked(resource, _stored(resource, done.current)))

    def _report(self, resource: Served, done: Written, also: Companions, write: OwnWrite) -> None:
        """Report a write whose answer came; a read that proves it does not prove its revision."""
        if not done.by_read and not also.added and not also.removed:
            self.on_written(resource, write)

    def are_together(self, one: Served, other: Served) -> bool:
        """Return True if a write of one resource can depend on keys of the other: one store has both."""
        return self._stores.number_of(one) == self._stores.number_of(other)

    async def check_free(self, resource: Served, old: bytes | None, new: bytes) -> None:
        """Raise Taken if a write, which is only tried, could not reserve its keys."""
        held = []
        for key in _reserved(resource, old, new).added:
            holder, _ = await self._stores.of(resource).get(key, timeout=TIMEOUT)
            held += [key] if holder is not None else []
        if held:
            raise Taken(tuple(held))

    async def records(self, resource: Served, prefixes: Iterable[str]) -> tuple[dict[str, KeyValue], int]:
        """Read keys beside the objects, from the resource's store; the revision is that of the first read."""
        records, revision = dict[str, KeyValue](), 0
        for prefix in prefixes:
            ranged = await self._stores.of(resource).range(prefix.encode(), timeout=TIMEOUT)
            records |= {kv.key.decode(): kv for kv in ranged.kvs}
            revision = revision or ranged.revision
        return records, revision

    async def create_record(self, resource: Served, key: str, value: bytes) -> bool:
        """Create a key beside the objects. Return False if it exists."""
        return (await self._stores.of(resource).create_if_absent(key.encode(), value, timeout=TIMEOUT)).ok

    async def delete_record(self, resource: Served, key: str, revision: int) -> bool:
        """Delete a key beside the objects. Return False if it has changed."""
        return (await self._stores.of(resource).delete_if_revision(key.encode(), revision, timeout=TIMEOUT)).ok

    async def announce(self, resource: Served, key: str, value: bytes, ttl: int) -> None:
        """Write a key beside the objects that expires after `ttl` seconds."""
        store = self._stores.of(resource)
        lease = await store.lease_grant(ttl, timeout=TIMEOUT)
        await store.put(key.encode(), value, lease.id, timeout=TIMEOUT)

    async def _leased(self, resource: Served, write: Callable[[int], Awaitable[Written]]) -> Written:
        """Write with a lease if objects of the resource expire, and again with a new one if the store lacks it."""
        if not resource.ttl:
            return await write(0)
        shared = self._shared_lease(resource)
        lease = await shared.take()
        try:
            return await write(lease)
        except etcd.LeaseNotFound:
            shared.drop(lease)
            return await write(await shared.take())

    def _shared_lease(self, resource: Served) -> SharedLease:
        number, store = self._stores.place(resource)
        shared = self._leases.get((number, resource.ttl))
        if shared is None:
            shared = SharedLease(store, resource.ttl, self._meter.lease_full)
            self._leases[number, resource.ttl] = shared
        return shared


def _not_connected(resource: Served, write: OwnWrite) -> None:
    """Stand in for `on_written` until there are replicas."""


def _reserved(resource: Served, old: bytes | None, new: bytes | None) -> Companions:
    """Return the records that come and go with a write. An unreadable object keeps its records, see `repair`."""
    if resource.reserves is None:
        return ALONE
    before, after = (
        resource.reserves(read_json(raw)) if raw is not None and not corruption(raw) else {} for raw in (old, new)
    )
    added = {key.encode(): value for key, value in after.items() if key not in before}
    return Companions(added, [key.encode() for key in before if key not in after])


def _holding(also: Companions, held: Mapping[bytes, int]) -> Companions:
    return msgspec.structs.replace(also, held=held) if held else also


def _stored(resource: Served, kv: KeyValue) -> Stored:
    return Stored(_key(resource, kv.key), kv.mod_revision, stored_json(kv.value))


def _key(resource: Served, key: bytes) -> str:
    return key.decode(errors="replace").removeprefix(resource.storage_prefix)


def _known(resource: Served, kv: KeyValue, held: Held) -> Stored | None:
    have = held(_key(resource, kv.key))
    return have if have is not None and have.rv == kv.mod_revision else None


def _checked(resource: Served, stored: Stored) -> Stored:
    """Return a valid object. Raises CorruptObject."""
    if why := corruption(stored.raw, resource.custom is not None):
        raise CorruptObject(f"{resource.storage_prefix}{stored.key}", why)
    return stored


def _full_key(resource: Served, key: str) -> bytes:
    return f"{resource.storage_prefix}{key}".encode()
