"""ResourceQuota admission: charge the quotas of a namespace before an object is stored.

A charge is a write of `status.used` at the revision that the decision rests on, so that no two API processes grant the
same amount. Writes that arrive while a charge is under way share the next one. What a failed write was charged is
given back by the quota controller.
"""

import asyncio
import contextvars
from collections.abc import Iterator

import msgspec

from actors.apiserver.api.errors import InternalError
from actors.apiserver.api.request.target import Target, conflict, forbidden
from actors.apiserver.api.stored import Stored, encode_object
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import RevisionConflict, Storage
from actors.apiserver.writes.owners import own_status
from protocols.errors import NodeplaneError
from protocols.kube.meta import Object, name_of
from protocols.kube.objects import fresh_copy
from protocols.process.tasks import Tasks
from protocols.quota.check import Charge, QuotaExceeded, charged
from protocols.quota.evaluators import IGNORED, evaluator_of

ATTEMPTS = 20
"""Writes of a quota's status that may conflict before the requests fail."""
TOGETHER = 100
"""Requests that share one write: their usage is computed without a pause."""
SECONDS = 10.0
"""Longest wait of a request for its charge, as upstream's."""


class Waiter(msgspec.Struct):
    """A write that waits for its charge."""

    charge: Charge
    dry_run: bool
    done: asyncio.Future[None]
    error: NodeplaneError | None = None


class QuotaAdmission:
    """Charges of this process. Requests wait by namespace; memory is bounded by the requests under way."""

    def __init__(self, storage: Storage, quotas: Replica) -> None:
        self._storage, self._quotas = storage, quotas
        self._waiting: dict[str, list[Waiter]] = {}
        self._tasks = Tasks()
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._newest: dict[str, Stored] = {}
        """Quotas by key as this process wrote them, until the replica has them."""

    def concerns(self, target: Target) -> bool:
        """Return True if quotas may count this write: its namespace has some, and its kind is not exempt."""
        row = target.resource
        if not len(self._quotas.objects) or not row.namespaced or target.subresource not in ("", "resize"):
            return False
        return row.full_name not in IGNORED and next(self._held(target.namespace), None) is not None

    def counts_updates(self, target: Target) -> bool:
        """Return True if quotas may count an update of this target."""
        name = target.resource.full_name
        counted = target.subresource == "resize" if name == "pods" else evaluator_of(name).updates
        return counted and target.subresource in ("", "resize") and self.concerns(target)

    async def charge(self, target: Target, obj: Object, old: Object | None = None, *, dry_run: bool = False) -> None:
        """Charge a write. Raises Forbidden if a quota does not allow it, Conflict if others were always faster."""
        waiter = Waiter(
            Charge(evaluator_of(target.resource.full_name), obj, old),
            dry_run,
            asyncio.get_running_loop().create_future(),
        )
        self._waiting.setdefault(target.namespace, []).append(waiter)
        if target.namespace not in self._workers:
            # An empty context: the budget of this request does not bound the work for others.
            work = self._work(target.namespace)
            task = contextvars.Context().run(self._tasks.start, work, "quota", target.namespace)
            self._workers[target.namespace] = task
        try:
            async with asyncio.timeout(SECONDS):
                await waiter.done
        except TimeoutError:
            raise InternalError("resource quota evaluation timed out") from None
        except QuotaExceeded as fault:
            raise forbidden(target.resource, name_of(obj), str(fault)) from None

    async def _work(self, namespace: str) -> None:
        """Settle all requests of a namespace, those that arrive meanwhile together."""
        try:
            while waiters := self._take(namespace):
                try:
                    await self._settle(namespace, waiters)
                except Exception as error:
                    _end(waiters, error)
        finally:
            del self._workers[namespace]
            self._forget_seen()

    def _take(self, namespace: str) -> list[Waiter]:
        """Return the next requests to settle together."""
        waiting = self._waiting.pop(namespace, [])
        if len(waiting) > TOGETHER:
            self._waiting[namespace] = waiting[TOGETHER:]
        return waiting[:TOGETHER]

    async def _settle(self, namespace: str, waiters: list[Waiter]) -> None:
        quotas, fresh = {stored.name: stored for stored in self._held(namespace)}, False
        for _ in range(ATTEMPTS):
            open_waiters = [waiter for waiter in waiters if not waiter.done.done()]
            before = {name: fresh_copy(stored.obj) for name, stored in quotas.items()}
            after, refused = decide(before, open_waiters)
            if refused and not fresh:
                quotas, fresh = await self._read(quotas), True
                continue
            _end(refused)
            changed = {name: obj for name, obj in after.items() if obj is not before[name]}
            failed = await self._write({name: (quotas[name], obj) for name, obj in changed.items()})
            if not failed:
                _end(open_waiters)
                return
            quotas, fresh = failed, True
        row = self._quotas.resource
        _end(waiters, conflict(row, ", ".join(quotas)))

    async def _write(self, changed: dict[str, tuple[Stored, Object]]) -> dict[str, Stored]:
        """Store the changed quotas. Return the current ones where another process was faster."""
        row, failed = self._quotas.resource, {}
        for name, (old, obj) in changed.items():
            try:
                raw = encode_object(own_status(row, obj, old.obj))
                self._newest[old.key] = await self._storage.update(row, old, raw)
            except RevisionConflict as conflict:
                if conflict.current is not None:  # a deleted quota limits nothing
                    failed[name] = conflict.current
        return failed

    async def _read(self, quotas: dict[str, Stored]) -> dict[str, Stored]:
        """Return the quotas of the store: none is exceeded by what a replica has not seen yet."""
        row = self._quotas.resource
        newest = [await self._storage.get(row, stored.key) for stored in quotas.values()]
        return {stored.name: stored for stored in newest if stored is not None}

    def _forget_seen(self) -> None:
        """Forget the writes of this process that the replica has, or whose quota is gone."""
        for key, mine in list(self._newest.items()):
            seen = self._quotas.objects.get(key)
            if seen is None or seen.rv >= mine.rv:
                del self._newest[key]

    def _held(self, namespace: str) -> Iterator[Stored]:
        """Yield the newest known quotas of a namespace."""
        for stored in self._quotas.objects.below(f"{namespace}/"):
            mine = self._newest.get(stored.key)
            yield mine if mine is not None and mine.rv > stored.rv else stored


def decide(quotas: dict[str, Object], waiters: list[Waiter]) -> tuple[dict[str, Object], list[Waiter]]:
    """Return the quotas after all writes that they allow, and the waiters that they reject, with the reason."""
    rejected = []
    for waiter in waiters:
        waiter.error = None
        try:
            deltas = waiter.charge.deltas(quotas.values())
            after = {**quotas, **{name: charged(quotas[name], delta) for name, delta in deltas.items()}}
        except QuotaExceeded as fault:
            waiter.error = fault
            rejected.append(waiter)
            continue
        quotas = quotas if waiter.dry_run else after
    return quotas, rejected


def _end(waiters: list[Waiter], error: BaseException | None = None) -> None:
    """Wake the waiters with their error, or with `error`."""
    for waiter in waiters:
        if waiter.done.done():
            continue
        fault = error or waiter.error
        if fault is None:
            waiter.done.set_result(None)
        else:
            waiter.done.set_exception(fault)
