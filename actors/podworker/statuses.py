"""The status manager: pod statuses on their way to the API, one PATCH per pod at a time, the latest wins, none is lost.

Only differences are sent. An outage of the API is waited out; a pod that is gone, or another of its name, ends it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from actors.podworker.errors import MirrorMissing
from actors.podworker.merge import same, status_patch
from actors.podworker.types import Object, PodSpec
from protocols.errors import NodeplaneError

PARALLEL = 16
RETRY_FIRST_S, RETRY_MOST_S = 0.05, 2.0
INVALID_S = 30.0
"""Pause after the API called a status invalid: the next one may be better, this one will not."""
log = logging.getLogger("podworker")


class PodApi(Protocol):
    async def patch_status(self, spec: PodSpec, body: Object) -> Object:
        """The pod as it is after the patch."""
        ...

    async def is_gone(self, spec: PodSpec) -> bool:
        """No pod of that name, or another uid."""
        ...


class _Entry:
    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.desired: Object = {}
        self.sent: Object | None = None
        self.acked: Object = {}
        self.version = 0
        self.since = 0.0
        """When the oldest status that the API does not show was published."""
        self.gone = False
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def patch(self) -> Object | None:
        """Against the newest the API is known to show."""
        seen = version_of(self.spec.raw)
        if seen <= self.version:
            if self.sent is not None and same(self.sent, self.desired):
                return None  # the API took it, in its own spelling
            return status_patch(self.spec.uid, self.acked, self.desired)
        return status_patch(self.spec.uid, self.spec.raw.get("status") or {}, self.desired)


class StatusManager:
    """`on_settled(uid)`: the API shows the latest status, or has no such pod any more. `on_sent`: one was taken, after
    so many seconds."""

    def __init__(
        self, api: PodApi, on_settled: Callable[[str], None], on_sent: Callable[[float], None] = lambda seconds: None
    ) -> None:
        self._api = api
        self._on_settled = on_settled
        self._on_sent = on_sent
        self._entries: dict[str, _Entry] = {}
        self._slots = asyncio.Semaphore(PARALLEL)

    def publish(self, spec: PodSpec, status: Object) -> None:
        entry = self._entries.get(spec.uid)
        if entry is None:
            entry = self._entries[spec.uid] = _Entry(spec)
        known = entry.spec is spec and entry.desired == status
        entry.spec, entry.desired = spec, status
        entry.changed.set()
        if known and entry.task is None:
            return  # as at the last look, which sent what there was to send
        if entry.task is None and not entry.gone and entry.patch() is not None:
            entry.since = time.monotonic()
            entry.task = asyncio.get_running_loop().create_task(self._send(entry))

    def settled(self, uid: str) -> bool:
        entry = self._entries.get(uid)
        return entry is None or entry.gone or (entry.task is None and entry.patch() is None)

    def forget(self, uid: str) -> None:
        entry = self._entries.pop(uid, None)
        if entry is not None and entry.task is not None:
            entry.task.cancel()

    def close(self) -> None:
        for uid in list(self._entries):
            self.forget(uid)

    async def _send(self, entry: _Entry) -> None:
        failures = 0
        while not entry.gone and (body := entry.patch()) is not None:
            entry.changed.clear()
            try:
                await self._patch(entry, body)
                failures = 0
                self._on_sent(time.monotonic() - entry.since)
                entry.since = time.monotonic()
            except (NodeplaneError, OSError, TimeoutError) as error:
                failures += 1
                await self._failed(entry, error, failures)
        entry.task = None
        self._on_settled(entry.spec.uid)

    async def _patch(self, entry: _Entry, body: Object) -> None:
        desired = entry.desired
        async with self._slots:
            pod = await self._api.patch_status(entry.spec, body)
        entry.sent, entry.acked = desired, pod.get("status") or {}
        entry.version = max(version_of(pod), version_of(entry.spec.raw))

    async def _failed(self, entry: _Entry, error: Exception, failures: int) -> None:
        code = getattr(error, "code", 0)
        if code == 404 or (code == 409 and await self._is_gone(entry)):
            entry.gone = True
            return
        spec = entry.spec
        if (failures == 1 and not isinstance(error, MirrorMissing)) or code in (400, 422):
            log.warning("status of pod %s/%s not taken: %s", spec.namespace, spec.name, error)
        if code in (400, 422):
            await _either(entry.changed, INVALID_S)
        await asyncio.sleep(min(RETRY_FIRST_S * 2 ** min(failures - 1, 8), RETRY_MOST_S))

    async def _is_gone(self, entry: _Entry) -> bool:
        try:
            return await self._api.is_gone(entry.spec)
        except (NodeplaneError, OSError, TimeoutError):
            return False


async def _either(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def version_of(pod: Object) -> int:
    """resourceVersions of one object grow; anything unreadable counts as oldest."""
    text = str((pod.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
