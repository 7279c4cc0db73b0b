"""GET and LIST: from the replica when it is fresh enough for the request, else from the store."""

import asyncio
import base64
import binascii
import time
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from actors.apiserver.api.errors import BadRequest, CorruptObject, TooLargeVersion
from actors.apiserver.api.request.query import EXACT, INT64_MAX, NOT_OLDER_THAN, ListOptions
from actors.apiserver.api.request.selection import Selection
from actors.apiserver.api.request.target import Target, not_found
from actors.apiserver.api.stored import Stored, corruption
from actors.apiserver.reads.metrics import ReadMetrics
from actors.apiserver.replica.objects import Objects
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Window
from actors.apiserver.storage.storage import Compacted, Storage
from protocols.errors import NodeplaneError
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object

VERSION = "meta.k8s.io/v1"
LATEST = -1
"""Stands for the current revision in the token of an inconsistent continuation."""


TOKEN_SECONDS = 600
"""Age at which a continue token ends, though its revision may still be there: upstream compacts it by then."""


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """A continue token: the revision of all pages, and the key at which the next page starts. Opaque to clients."""

    v: str
    rv: int
    start: str
    t: int = 0
    """Time of the first page, in seconds; 0 = unknown."""

    def start_in(self, prefix: str) -> str:
        """Return the key at which a list below `prefix` continues: in another namespace, after the same name."""
        return prefix + self.start.rpartition("/")[2] if prefix else self.start

    def is_old(self, now: float) -> bool:
        return self.rv != LATEST and self.t > 0 and now - self.t > TOKEN_SECONDS


def encode_token(rv: int, start: str, t: int = 0) -> str:
    """Return a continue token: revision, first key of the next page, and the time of the first page."""
    raw = msgspec.json.encode(Token(VERSION, rv, start, t))
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_token(text: str) -> Token:
    """Decode a continue token. Raises BadRequest.

    A forged key cannot leave the prefix of the resource, since it is only appended to it.
    """
    try:
        raw = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=Token)
    except (msgspec.DecodeError, binascii.Error, UnicodeError, ValueError) as error:
        raise _invalid(f": {error}") from None
    if token.v != VERSION:
        raise _invalid(f": server does not recognize this encoded version {token.v:.64}")
    if token.rv == 0 or token.rv > INT64_MAX:
        raise _invalid(f": incorrect encoded start resourceVersion (version {VERSION})")
    if not token.start:
        raise _invalid(f": encoded start key empty (version {VERSION})")
    if token.start.startswith("/") or {".", ".."} & set(token.start.split("/")):
        raise _invalid(f": {token.start:.256}")
    return Token(token.v, max(token.rv, LATEST), token.start, token.t)


def _invalid(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid{why}")


TURN_SECONDS = 0.01
"""Time in which objects are matched in one turn of the event loop: some must be decoded."""
AHEAD_REVISIONS = 16
"""Revisions by which a request may be ahead of the replica before the store is asked for its own revision."""
PAGE_BYTES = 16 * 1024 * 1024
"""Bytes of values that a store should read for one page."""
SMALLEST_PAGE, LARGEST_PAGE = 500, 10_000


class _Listing(msgspec.Struct, frozen=True):
    objects: list[Stored]
    rv: int
    resume: str = ""
    remaining: int | None = None
    corrupt: tuple[str, ...] = ()
    """Keys in the store that are left out, since their values cannot be read."""

    def metadata(self) -> Object:
        metadata: Object = {"resourceVersion": str(self.rv)}
        if self.resume:
            metadata["continue"] = self.resume
            if self.remaining is not None:
                metadata["remainingItemCount"] = self.remaining
        return metadata


class Reader:
    """Read objects and lists from the replicas, or from the store where these are not fresh enough."""

    def __init__(
        self, storage: Storage, replicas: dict[str, Replica], meter: ReadMetrics, efficient: bool = True
    ) -> None:
        """`efficient` is the feature gate EfficientWatchResumption.

        If it is off, the mark of an idle resource's replica does not advance. Such a replica cannot be proven to be
        fresh, so consistent reads go to the store.
        """
        self._storage = storage
        self._replicas = replicas
        self._meter = meter
        self.efficient = efficient

    async def get(self, target: Target, version: int | None) -> Stored:
        replica = self._replicas[target.resource.store]
        if version is None or not replica.filled:
            stored = await self._storage.get(target.resource, target.key)
        else:
            await self.wait(target.resource, version)
            stored = replica.objects.get(target.key)
            if why := replica.corrupt.why(target.key):
                raise CorruptObject(f"{target.resource.storage_prefix}{target.key}", why)
        if stored is None:
            raise not_found(target.resource, target.name)
        return stored

    async def fresh(self, resource: Served) -> Replica:
        """Return the replica once it shows every write that was acknowledged before this call."""
        replica = self._replicas[resource.store]
        await replica.filled_soon()
        await self._reach(resource, await self._storage.revision(resource))
        return replica

    async def revision(self, resource: Served) -> int:
        """Return the store's current revision. Raises NodeplaneError if it does not answer."""
        return await self._storage.revision(resource)

    async def wait(self, resource: Served, version: int) -> None:
        """Wait until the replica has reached a client's `version`; 0 does not wait.

        Raises TooLargeVersion, at once if the store has not reached it either: the client may have a version of a
        history that was replaced by a restored backup.
        """
        replica = self._replicas[resource.store]
        if replica.filled and version > replica.mark + AHEAD_REVISIONS and not await self._reachable(resource, version):
            raise TooLargeVersion(version, replica.mark)
        await self._reach(resource, version)

    async def _reachable(self, resource: Served, version: int) -> bool:
        try:
            return await self._storage.revision(resource) >= version
        except NodeplaneError:  # unknown: let the replica decide
            return True

    async def _reach(self, resource: Served, version: int) -> None:
        """Wait until the replica has reached `version`. Raises TooLargeVersion."""
        began = time.monotonic()
        try:
            await self._replicas[resource.store].wait_for(version)
        finally:
            if version:
                self._meter.waited(resource, time.monotonic() - began)

    async def list(self, target: Target, options: ListOptions, wanted: Selection) -> _Listing:
        query = _Query(target.resource, f"{target.namespace}/" if target.namespace else "", wanted, options.limit)
        if options.resume:
            return await self._continue(query, options.resume)
        legacy = bool(options.version) and options.limit and not options.match
        if options.match == EXACT or legacy:
            return await self._exact(query, options.version or 0)
        if options.version is None:
            return await self._newest(query)
        replica = self._replicas[target.resource.store]
        await self.wait(target.resource, options.version)
        if options.version == 0 and options.match in ("", NOT_OLDER_THAN):
            query = _Query(query.resource, query.prefix, wanted, 0)
        return await self._first_page(query, replica)

    async def _newest(self, query: "_Query") -> _Listing:
        if not self.efficient:
            return await self._page(query, 0, "")
        resource, success, fallback = query.resource, False, False
        try:
            try:
                replica = await self.fresh(resource)
            except TooLargeVersion:  # it did not come in time: the store has it
                fallback = True
                listing = await self._page(query, 0, "")
            else:
                listing = await self._first_page(query, replica)
            success = True
            return listing
        finally:
            self._meter.consistent(resource, success, fallback)

    async def _exact(self, query: "_Query", rv: int) -> _Listing:
        replica = self._replicas[query.resource.store]
        if replica.filled and self.efficient:
            await self.wait(query.resource, rv)
        if replica.filled and replica.mark == rv:
            return await self._first_page(query, replica)
        return await self._page(query, rv, "")

    async def _continue(self, query: "_Query", text: str) -> _Listing:
        token = decode_token(text)
        start = token.start_in(query.prefix)
        if token.is_old(time.time()):
            raise Compacted(encode_token(LATEST, start))
        if token.rv == LATEST:
            return await self._page(query, 0, start)
        return await self._page(replace(query, since=token.t), token.rv, start)

    async def _page(self, query: "_Query", rv: int, start: str) -> _Listing:
        """Read a page from the store at one revision. Read on while selectors leave the page short.

        A revision that the store has compacted is served from the replica, as far as its window reaches back.
        """
        work = _Work()
        try:
            listing = await self._pages(query, rv, start, work)
        except Compacted:
            held = self._snapshot(query, rv, start)
            if held is None:
                raise
            return await self._cut(query, held, rv)
        if query.wanted.everything and work.corrupt:
            listing = replace(listing, corrupt=tuple(work.corrupt))
        self._meter.from_store(query.resource, work.fetched, work.fetched, len(listing.objects))
        return listing

    def _snapshot(self, query: "_Query", rv: int, start: str) -> Sequence[Stored] | None:
        replica = self._replicas[query.resource.store]
        if not replica.filled or not 0 < rv <= replica.mark:
            return None
        return objects_at(replica.objects, replica.window, rv, query.prefix, start)

    async def _pages(self, query: "_Query", rv: int, start: str, work: "_Work") -> _Listing:
        selected: list[Stored] = []
        size = query.limit or SMALLEST_PAGE
        replica = self._replicas[query.resource.store]
        while True:
            try:
                fitting = _fitting_keys(replica, query.prefix, start, size)
                page = await self._storage.page(query.resource, query.prefix, start, fitting, rv, replica.objects.get)
            except Compacted:
                raise Compacted(encode_token(LATEST, start) if start else "") from None
            rv, ends = page.rv, time.monotonic() + TURN_SECONDS
            work.fetched += len(page.objects)
            for index, stored in enumerate(page.objects):
                if time.monotonic() > ends:
                    await asyncio.sleep(0)
                    ends = time.monotonic() + TURN_SECONDS
                if query.limit and len(selected) == query.limit:
                    return _truncated(query, selected, rv, page.objects[index - 1].key, page.count - index)
                held = replica.objects.get(stored.key) is stored  # what the replica holds is known to be sound
                if not held and corruption(stored.raw, query.resource.custom is not None):
                    work.corrupt.append(f"{query.resource.storage_prefix}{stored.key}")
                elif query.wanted.matches(stored):
                    selected.append(stored)
            if not page.more:
                return _Listing(selected, rv)
            start = page.objects[-1].key + "\0"
            if query.limit and len(selected) == query.limit:
                return _truncated(query, selected, rv, page.objects[-1].key, page.count - len(page.objects))
            size = min(LARGEST_PAGE, size * 2)

    async def _first_page(self, query: "_Query", replica: Replica) -> _Listing:
        """List from the replica. Later pages are read from the store at the replica's mark."""
        rv, everything = replica.mark, query.wanted.everything
        corrupt = replica.corrupt.below(query.prefix) if everything else []
        if everything and query.limit:
            held, others = replica.objects.first(query.prefix, query.limit)
            self._meter.from_replica(query.resource, len(held), len(held))
            listing = _truncated(query, held, rv, held[-1].key, others) if others else _Listing(held, rv)
        else:
            listing = await self._cut(query, replica.objects.selected(query.prefix, query.wanted.name), rv)
        return replace(listing, corrupt=tuple(corrupt)) if corrupt else listing

    async def _cut(self, query: "_Query", held: Sequence[Stored], rv: int) -> _Listing:
        """Return the first page of what is selected of `held`, the objects at a revision."""
        selected = list(held) if query.wanted.everything else await _sift(held, query.wanted)
        cut = bool(query.limit) and len(selected) > query.limit
        self._meter.from_replica(query.resource, len(held), query.limit if cut else len(selected))
        if cut:
            return _truncated(
                query, selected[: query.limit], rv, selected[query.limit - 1].key, len(selected) - query.limit
            )
        return _Listing(selected, rv)


class _Work(msgspec.Struct):
    fetched: int = 0
    corrupt: list[str] = msgspec.field(default_factory=list)


class _Query(msgspec.Struct, frozen=True):
    resource: Served
    prefix: str
    wanted: Selection
    limit: int
    since: int = 0
    """Time of the first page, in seconds; 0 = this is it."""


def _fitting_keys(replica: Replica, prefix: str, start: str, most: int) -> int:
    """Return the number of keys to request so that the store reads at most PAGE_BYTES, as far as sizes are known."""
    size = 0
    for number, stored in enumerate(replica.objects.below(prefix, start), 1):
        size += len(stored.raw)
        if number >= most or size >= PAGE_BYTES:
            return number
    return most


async def _sift(held: Sequence[Stored], wanted: Selection) -> list[Stored]:
    """Return the matching objects. A long list takes several turns of the event loop."""
    selected, ends = [], time.monotonic() + TURN_SECONDS
    for stored in held:
        if wanted.matches(stored):
            selected.append(stored)
        if time.monotonic() > ends:
            await asyncio.sleep(0)
            ends = time.monotonic() + TURN_SECONDS
    return selected


def _truncated(query: _Query, selected: list[Stored], rv: int, last: str, remaining: int) -> _Listing:
    counted = remaining if query.wanted.everything else None
    return _Listing(selected, rv, encode_token(rv, last + "\0", query.since or int(time.time())), counted)


def objects_at(objects: Objects, window: Window, rv: int, prefix: str, start: str = "") -> list[Stored] | None:
    """Return the objects as they were at revision `rv`, in key order; None if the window begins later.

    `rv` must not be ahead of the objects.
    """
    if rv < window.floor:
        return None
    undone: dict[str, Stored | None] = {}
    for change in reversed(window.since(rv)):
        if change.key.startswith(prefix) and change.key >= start:
            undone[change.key] = change.before
    held = [stored for stored in objects.below(prefix, start) if stored.key not in undone]
    restored = [stored for stored in undone.values() if stored is not None]
    return sorted((*held, *restored), key=lambda stored: stored.key) if restored else held
