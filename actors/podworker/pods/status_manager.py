"""Send pod statuses to the API: one PATCH per pod at a time, the latest wins, none is lost.

Only differences are sent. Outages of the API are waited out; sending ends when the pod is gone or its name belongs to
another uid. A rejected status is retried a few times, then only every REJECTED_AGAIN_S until it changes.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from actors.podworker.model.errors import MirrorMissing
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.types import SECOND, PodSpec
from protocols.lifecycle.status.device_health import HEALTH, reported_health, without_health
from protocols.lifecycle.status.patch import observes_only, same, sets_more, shows_end, status_patch
from protocols.messages.trace import STATUS
from protocols.process.rates import backoff_delay
from protocols.process.tasks import Tasks, restarted, wait_set
from protocols.trace import clock, record, span

PARALLEL, PARALLEL_ENDS = 16, 8
"""Patches at once; those that show an ended container have slots of their own, and never wait for pods that start."""
RETRY_FIRST_S, RETRY_MOST_S = 0.05, 2.0
REJECTED_FIRST_S, REJECTED_MOST_S = 1.0, 30.0
"""Pauses after the API rejected a status: this one will hardly succeed, the next one may."""
MAX_REJECTIONS, REJECTED_AGAIN_S = 6, 30.0
"""After so many rejections a status is not sent again until it changes, or so many seconds have passed."""
OBSERVED_S = 1.0
"""A deleted pod's status in which only the observed generation changed waits so long: most pods have ended by then."""
UNSHOWN_S = 10.0
"""After a status was sent or a pod was deleted the watch shows it by then, see `PodManager.repeat_lost`."""
MAX_RETRY_AFTER_S = 30.0
"""Upper bound of a server's Retry-After."""
RETRYABLE = (401, 404, 408, 429)
"""4xx codes that are no rejection of the status. 401 is one of our certificate, which may be renewed any moment."""
log = logging.getLogger("podworker")


class PodApi(Protocol):
    """Writes and reads statuses. Both raise ApiError, ApiAway."""

    async def patch_status(self, spec: PodSpec, body: Object) -> views.Pod:
        """Return the pod after the patch."""
        ...

    async def is_gone(self, spec: PodSpec) -> bool:
        """Return True if there is no pod of that name, or one with another uid."""
        ...


class _Entry:
    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.desired: views.PodStatus = {}
        self.sent: views.PodStatus | None = None
        self.acked: views.PodStatus = {}
        self.version = 0
        self.answered_at = 0.0
        """Time of the last end of sending."""
        self.compared: PodSpec | None = None
        """The pod of the API's watch that was compared since with `version`, `acked` and `gone`."""
        self.since = 0.0
        """Time of the oldest published status that the API does not show."""
        self.reported_ns = 0
        """Time of the oldest device health report that the API does not show; 0 = none."""
        self.known_ns = 0
        """Time of the newest report ever published."""
        self.rejected_health: Object = {}
        """Device health of the last status that the API rejected because of it."""
        self.rejected: Object | None = None
        """The patch that was given up."""
        self.rejected_at = 0.0
        self.retry_timer: asyncio.TimerHandle | None = None
        """Timer of the next attempt after that."""
        self.gone = False
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def patch(self, seen: PodSpec | None = None) -> Object | None:
        """Return the patch against the newest status that the API is known to show, in `seen` or before."""
        desired, spec = self.desired, seen or self.spec
        if self.rejected_health and reported_health(desired) == self.rejected_health:
            desired = without_health(desired)
        if version_of(spec.raw) <= self.version and self.sent is not None and same(self.sent, self.desired):
            return None  # accepted; the API only spells it differently
        return status_patch(spec.uid, self._shown(spec), desired)

    def _shown(self, spec: PodSpec) -> Mapping[str, Any]:
        return (spec.raw.get("status") or {}) if version_of(spec.raw) > self.version else self.acked

    def is_lost(self, seen: PodSpec) -> bool:
        """Return True if the API has another history than the one that answered. Mirrors have their own versions."""
        version = version_of(seen.raw)
        other = version == self.version and self.acked != (seen.raw.get("status") or {})
        return bool(version) and (self.gone or version < self.version or other)

    def held_s(self) -> float:
        """Return for how many seconds the status may wait for the next one."""
        if not (self.spec.deleting and observes_only(self._shown(self.spec), self.desired)):
            return 0.0
        return self.since + OBSERVED_S - time.monotonic()

    def cancel(self) -> None:
        for under_way in (self.task, self.retry_timer):
            if under_way is not None:
                under_way.cancel()
        self.retry_timer = None

    def give_up(self, body: Object) -> bool:
        """Return True the first time for this patch."""
        first, self.rejected, self.rejected_at = body != self.rejected, body, time.monotonic()
        return first

    def given_up(self, body: Object) -> bool:
        return body == self.rejected and time.monotonic() - self.rejected_at < REJECTED_AGAIN_S

    def report(self, reported_ns: int) -> None:
        if reported_ns > self.known_ns:
            self.known_ns = reported_ns
            self.reported_ns = self.reported_ns or reported_ns


class StatusManager:
    """Statuses of all pods on their way to the API.

    `on_sent`: seconds from a changed status to the API's answer. `on_reported`: seconds from a device health report to
    the API's answer that shows it.
    """

    def __init__(
        self,
        api: PodApi,
        on_sent: Callable[[float], None] = lambda seconds: None,
        on_reported: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._api = api
        self._on_sent = on_sent
        self._on_reported = on_reported
        self._settled_subscribers: list[Callable[[str], None]] = []
        self._published_subscribers: list[Callable[[PodSpec, views.PodStatus], None]] = []
        self._entries: dict[str, _Entry] = {}
        self._slots, self._slots_of_ends = asyncio.Semaphore(PARALLEL), asyncio.Semaphore(PARALLEL_ENDS)
        self._tasks = Tasks()

    def subscribe(
        self,
        on_settled: Callable[[str], None] | None = None,
        on_published: Callable[[PodSpec, views.PodStatus], None] | None = None,
    ) -> None:
        """`on_settled(uid)`: the API shows the latest status, or the pod is gone. `on_published`: a status changed."""
        if on_settled is not None:
            self._settled_subscribers.append(on_settled)
        if on_published is not None:
            self._published_subscribers.append(on_published)

    def publish(self, spec: PodSpec, status: views.PodStatus, reported_ns: int = 0) -> None:
        entry = self._entries.get(spec.uid)
        if entry is None:
            entry = self._entries[spec.uid] = _Entry(spec)
        known = entry.spec is spec and entry.desired == status
        entry.spec, entry.desired = spec, status
        entry.changed.set()
        if not known:
            record(spec.uid, STATUS, clock(), phase=status.get("phase", ""))
            for subscriber in self._published_subscribers:
                subscriber(spec, status)
        if known and entry.task is None and entry.rejected is None:
            return  # unchanged since the last sync, which has sent it
        entry.report(reported_ns)
        if entry.task is None and not entry.gone:
            self._begin(entry)

    def _begin(self, entry: _Entry) -> None:
        body = entry.patch()
        if body is None:
            entry.reported_ns = 0
        elif not entry.given_up(body):
            self._start(entry)

    def _start(self, entry: _Entry) -> None:
        entry.cancel()
        entry.since = time.monotonic()
        entry.task = self._tasks.start(self._send(entry), "pod status", entry.spec.uid)

    def _retry(self, entry: _Entry) -> None:
        """Send a status again that was given up: the API may accept it now."""
        if entry.task is None and not entry.gone:
            self._start(entry)

    def repeat_lost(self, spec: PodSpec) -> None:
        """See dependencies.Statuses. The watch is given UNSHOWN_S to show an answer."""
        entry = self._entries.get(spec.uid)
        if entry is None or entry.task is not None or entry.compared is spec:
            return
        if time.monotonic() < entry.answered_at + UNSHOWN_S:
            return
        entry.compared = spec
        if entry.is_lost(spec):
            entry.spec, entry.version, entry.sent, entry.gone = spec, 0, None, False
            self._begin(entry)

    def settled(self, uid: str) -> bool:
        entry = self._entries.get(uid)
        if entry is None or entry.gone:
            return True
        return entry.task is None and ((body := entry.patch()) is None or entry.given_up(body))

    def overwritten(self, spec: PodSpec) -> bool:
        """See dependencies.Statuses. False while a status is being sent: the pod is synced again after that."""
        entry = self._entries.get(spec.uid)
        if entry is None or entry.gone or entry.task is not None or version_of(spec.raw) <= entry.version:
            return False
        body = entry.patch(spec)
        return body is not None and not entry.given_up(body)

    async def wait_settled(self, uid: str, seconds: float) -> None:
        entry = self._entries.get(uid)
        if entry is not None and entry.task is not None:
            await asyncio.wait((entry.task,), timeout=seconds)

    def forget(self, uid: str) -> None:
        entry = self._entries.pop(uid, None)
        if entry is not None:
            entry.cancel()

    def close(self) -> None:
        for uid in list(self._entries):
            self.forget(uid)

    async def _send(self, entry: _Entry) -> None:
        await restarted(lambda: self._send_latest(entry), "pod status", entry.spec.uid)
        entry.task, entry.compared, entry.answered_at = None, None, time.monotonic()
        for subscriber in self._settled_subscribers:
            subscriber(entry.spec.uid)

    async def _send_latest(self, entry: _Entry) -> None:
        failures = 0
        while not entry.gone and (body := entry.patch()) is not None:
            entry.changed.clear()
            if (seconds := entry.held_s()) > 0:
                await wait_set(entry.changed, seconds)
                continue
            try:
                await self._patch(entry, body)
                failures = 0
                self._on_sent(time.monotonic() - entry.since)
                entry.since = time.monotonic()
            except (NodeplaneError, OSError, TimeoutError) as error:
                failures += 1
                if not await self._failed(entry, body, error, failures):
                    break

    async def _patch(self, entry: _Entry, body: Object) -> None:
        spec, desired = entry.spec, entry.desired  # `publish` may replace both before the answer
        reported_ns, entry.reported_ns = entry.reported_ns, 0
        try:
            async with self._slots_of_ends if shows_end(body["status"]) else self._slots:
                with span(entry.spec.uid, "patch status", fields=",".join(body["status"])):
                    pod = await self._api.patch_status(spec, body)
        except BaseException:
            entry.reported_ns = reported_ns or entry.reported_ns
            raise
        entry.sent, entry.acked, entry.rejected = desired, pod.get("status") or {}, None
        if sets_more(status_patch(entry.spec.uid, entry.acked, desired), body):
            entry.sent = None  # the API lacks what it had before: it was restored from a backup, or somebody else wrote
        entry.version = max(version_of(pod), version_of(spec.raw))
        if reported_ns:
            self._on_reported(max(0.0, (time.time_ns() - reported_ns) / SECOND))

    async def _failed(self, entry: _Entry, body: Object, error: Exception, failures: int) -> bool:
        """Return False when there is nothing more to try."""
        code = getattr(error, "code", 0)
        if code == 404 or (code in (409, 422) and await self._is_gone(entry)):  # 422: another uid
            entry.gone = True
            return False
        spec = entry.spec
        if failures == 1 and body != entry.rejected and not isinstance(error, MirrorMissing):
            log.warning("pod status not sent pod=%s/%s error=%s", spec.namespace, spec.name, error)
        if 400 <= code < 500 and code not in RETRYABLE:
            return await self._on_rejected(entry, body, error, failures)
        delay = min(getattr(error, "retry_after", None) or 0.0, MAX_RETRY_AFTER_S)
        await asyncio.sleep(max(delay, backoff_delay(failures, RETRY_FIRST_S, RETRY_MOST_S)))
        return True

    async def _on_rejected(self, entry: _Entry, body: Object, error: Exception, failures: int) -> bool:
        """Retry without device health if that was the cause, so that it does not block the rest of the status."""
        health = reported_health(entry.desired)
        if health and health != entry.rejected_health and HEALTH in f"{error} {getattr(error, 'details', '')}":
            entry.rejected_health = health
            return True
        if failures >= MAX_REJECTIONS or body == entry.rejected:
            self._give_up(entry, body, error)
            return False
        await wait_set(entry.changed, backoff_delay(failures, REJECTED_FIRST_S, REJECTED_MOST_S))
        return True

    def _give_up(self, entry: _Entry, body: Object, error: Exception) -> None:
        if entry.give_up(body):
            spec = entry.spec
            text = "pod status given up until it changes pod=%s/%s retry_seconds=%.0f error=%s"
            log.error(text, spec.namespace, spec.name, REJECTED_AGAIN_S, error)
        entry.retry_timer = asyncio.get_running_loop().call_later(REJECTED_AGAIN_S, self._retry, entry)

    async def _is_gone(self, entry: _Entry) -> bool:
        try:
            return await self._api.is_gone(entry.spec)
        except (NodeplaneError, OSError, TimeoutError):
            return False


def version_of(pod: views.Pod) -> int:
    """Return the resourceVersion as a number; 0 if unreadable."""
    text = str((pod.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
