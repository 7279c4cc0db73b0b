"""The audit log: who wrote what, when, with which outcome; one JSON line a request, metadata only, never a body.

Lines are gathered and written from a thread; a disk that is full costs lines, which are counted, never requests.

Callers who did not prove who they are can fill no file but their own: what they send is refused, counted, and sampled
into FILE-anonymous, with a line now and then that says how much was left out. All that a client words (path, agent,
names) is cut to a stated length.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from actors.apiserver.api.counters import Tally
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import ANONYMOUS, User
from actors.apiserver.http.telemetry.audit_files import MIB, Keep, append
from protocols.kube.meta import Object, new_uid
from protocols.kube.objects import text
from protocols.process.families import CounterFamily
from protocols.process.rates import TokenBucket
from protocols.process.tasks import Tasks

BATCH_S = 0.25
LARGEST_BATCH = 8192
URI_LIMIT = 1024
"""Characters of a path and of a message that a line holds."""
MOST_ANNOTATIONS, ANNOTATION_LIMIT = 64, 10 * 1024
ANNOTATIONS = web.RequestKey("annotations", dict)
"""Annotations of a request for the log."""
CREATED = web.RequestKey("created", str)
"""Name of the object that a request creates, which its path lacks."""
FAULT = web.RequestKey("fault", dict)
"""Status of a failed request. Its exception would be a cycle, which keeps the request's body until it is collected."""
QUOTING = (400, 422)
"""Codes whose messages quote the body, so a line leaves them out."""
NAME_LIMIT = 256
"""Characters of a name, a namespace and an agent."""
MOST_GROUPS = 64
"""Groups of a user that a line holds."""
CUT = "..."
"""Marks the end of shortened text."""
ANONYMOUS_KEEP = Keep(file_bytes=4 * MIB, files=2)
ANONYMOUS_BURST = 30.0
ANONYMOUS_RATE = 1.0
"""Lines a second of unauthenticated callers that a process writes, after a burst."""
SUMMARY_S = 60.0
"""Time between two lines with the number of lines left out."""
AUDITED = ("create", "update", "patch", "delete", "deletecollection", "connect", "post", "put")
"""The last two are methods: of requests rejected before their resource was resolved."""
KNOWN, UNKNOWN = "authenticated", "anonymous"
WRITTEN, LEFT_OUT, LOST = "written", "left_out", "lost"


class Subject(msgspec.Struct, frozen=True):
    """Audit fields of a request's path, as JSON."""

    uri: str
    reference: str


class Entry(msgspec.Struct, frozen=True):
    """One line of the log; `seconds` is the duration of the request, and `code` 0 for a stream that begins."""

    verb: str
    subject: Subject
    user: User
    acts_as: User | None
    code: int
    received: float
    """Unix time."""
    seconds: float
    agent: str
    address: str
    annotations: Mapping[str, str] | None = None
    """Texts of policies and webhooks, by their key."""
    audit_id: str = ""
    constraint: str = ""
    """The verb that allowed a constrained impersonation."""
    fault: Object | None = None


def is_audited(verb: str, target: Target | None) -> bool:
    """Return True for a request that changes something or runs in a container; reads of logs are left out."""
    return verb in AUDITED and (target is None or target.subresource != "log")


def audit_id(headers: Mapping[str, str]) -> str:
    """Return the id that the client has chosen for its request, or a new one if there is none that can be repeated."""
    chosen = headers.get("Audit-Id", "")
    usable = chosen.isascii() and chosen.isprintable() and 0 < len(chosen) <= NAME_LIMIT
    return chosen if usable else new_uid()


class Sampler:
    """A token bucket that counts what it did not let through. Pure: callers pass monotonic time in seconds."""

    def __init__(self, rate: float = ANONYMOUS_RATE, burst: float = ANONYMOUS_BURST) -> None:
        self._bucket = TokenBucket(rate, burst, burst, 0.0)
        self.left_out = 0
        """Since it was last reported."""

    def allow(self, now: float) -> bool:
        if self._bucket.ready(now) > now:
            self.left_out += 1
            return False
        self._bucket.take(now)
        return True

    def report(self) -> int:
        """Return how many were left out since the last report."""
        left_out, self.left_out = self.left_out, 0
        return left_out


class LogFile:
    """One file of the log: lines wait here for their batch. Bounded by LARGEST_BATCH."""

    def __init__(self, path: Path, keep: Keep, count: Callable[[str, float], None]) -> None:
        """`count` receives each outcome and the number of its lines."""
        self.path, self._keep, self._count = path, keep, count
        self.pending: list[bytes] = []
        self._failed = False

    def add(self, text: bytes) -> None:
        if len(self.pending) >= LARGEST_BATCH:
            self._count(LOST, 1)
        else:
            self.pending.append(text)

    async def flush(self) -> None:
        batch, self.pending = self.pending, []
        if not batch:
            return
        try:
            await asyncio.to_thread(append, self.path, batch, self._keep)
        except OSError as error:
            self._count(LOST, len(batch))
            if not self._failed:  # once, until it works again
                logging.getLogger(__name__).error("audit log %s: %s; lines are lost", self.path, error.strerror)
            self._failed = True
        else:
            self._count(WRITTEN, len(batch))
            self._failed = False


LINES = CounterFamily(
    "nodeplane_apiserver_audit_lines_total",
    "Lines of the audit log; caller is authenticated or anonymous, outcome is written, left_out (rejections of "
    "anonymous callers beyond the rate) or lost (full disk, too many at once).",
    ("caller", "outcome"),
)


class AuditLog:
    """The audit log of a plane; several processes append to its files."""

    def __init__(self, path: Path, registry: CollectorRegistry | None = None) -> None:
        lines = Tally(*LINES, registry or CollectorRegistry())
        self._lines = {(who, end): lines.of(who, end) for who in (KNOWN, UNKNOWN) for end in (WRITTEN, LEFT_OUT, LOST)}
        self._known = LogFile(path, Keep(), functools.partial(self._count, KNOWN))
        other = path.with_name(f"{path.stem}-anonymous{path.suffix}")
        self._unknown = LogFile(other, ANONYMOUS_KEEP, functools.partial(self._count, UNKNOWN))
        self._sampler = Sampler()
        self._tasks = Tasks()
        self._flushing: asyncio.Task[None] | None = None
        self._summary: asyncio.TimerHandle | None = None

    def note(self, entry: Entry) -> None:
        """Queue an entry. The first one of a batch starts its timer, so an idle log costs nothing."""
        if entry.user.name != ANONYMOUS.name:
            self._known.add(line(entry))
        elif self._sampler.allow(time.monotonic()):
            self._unknown.add(line(entry))
        else:
            self._count(UNKNOWN, LEFT_OUT, 1)
            if self._summary is None:
                self._summary = asyncio.get_running_loop().call_later(SUMMARY_S, self._summarize)
            return
        self._flush_later()

    async def close(self) -> None:
        if self._summary is not None:
            self._summary.cancel()
            self._summarize()
        if self._flushing is not None:
            self._flushing.cancel()
        await self._flush()

    def _summarize(self) -> None:
        self._summary = None
        left_out = self._sampler.report()
        if left_out:
            self._unknown.add(summary_line(left_out, time.time()))
            self._flush_later()

    def _count(self, who: str, outcome: str, lines: float) -> None:
        self._lines[who, outcome].inc(lines)

    def _flush_later(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = self._tasks.start(self._flush_soon(), "audit")

    async def _flush_soon(self) -> None:
        while self._known.pending or self._unknown.pending:
            await asyncio.sleep(BATCH_S)
            await self._flush()

    async def _flush(self) -> None:
        await self._known.flush()
        await self._unknown.flush()


HEAD = '{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata",'


def line(entry: Entry) -> bytes:
    """Return an event of audit.k8s.io/v1. Formatted by hand, since it is made for each write."""
    ended = entry.received + entry.seconds
    other = entry.acts_as is not None and entry.acts_as != entry.user
    return (
        f'{HEAD}"stage":"{"ResponseComplete" if entry.code else "RequestReceived"}",'
        f'"auditID":{_json(entry.audit_id)},"requestURI":{entry.subject.uri},"verb":"{entry.verb}",'
        f'"user":{_user(entry.user)},"sourceIPs":[{_often(entry.address)}],"userAgent":{_often(entry.agent)},'
        f'"objectRef":{entry.subject.reference},{_status(entry)}'
        f'"requestReceivedTimestamp":"{_stamp(entry.received)}","stageTimestamp":"{_stamp(ended)}",'
        f'"latencySeconds":{_json(int(1e6 * entry.seconds) / 1e6)}{_acting(entry) if other else ""}'
        f"{_annotated(entry.annotations) if entry.annotations else ''}}}\n"
    ).encode()


_encode = msgspec.json.Encoder().encode


def _json(value: Any) -> str:
    return _encode(value).decode()


_often = functools.lru_cache(maxsize=256)(_json)
"""For short values that repeat in many lines."""


@functools.lru_cache(maxsize=256)
def _user(user: User) -> str:
    groups = [shortened(group, NAME_LIMIT) for group in user.groups[:MOST_GROUPS]]
    name, uid = shortened(user.name, NAME_LIMIT), shortened(user.uid, NAME_LIMIT)
    parts = {"username": name, "uid": uid, "groups": groups, "extra": dict(user.extra)}
    return _json({key: value for key, value in parts.items() if value})


def _status(entry: Entry) -> str:
    if not entry.code:
        return ""
    if entry.fault is None:
        return f'"responseStatus":{{"code":{entry.code}}},'
    message = "" if entry.code in QUOTING else shortened(text(entry.fault, "message"), URI_LIMIT)
    parts = {"status": "Failure", "message": message, "reason": text(entry.fault, "reason"), "code": entry.code}
    return f'"responseStatus":{_json({key: value for key, value in parts.items() if value})},'


def _acting(entry: Entry) -> str:
    user = entry.acts_as or entry.user
    acting = f',"impersonatedUser":{_user(replace(user, extra=()))}'  # of any length: the client has worded it
    constraint = {"impersonationConstraint": entry.constraint}
    return f'{acting},"authenticationMetadata":{_json(constraint)}' if entry.constraint else acting


def _annotated(annotations: Mapping[str, str]) -> str:
    some = list(annotations.items())[:MOST_ANNOTATIONS]
    return f',"annotations":{_json({key: shortened(text, ANNOTATION_LIMIT) for key, text in some})}'


def summary_line(left_out: int, now: float) -> bytes:
    """Return the line that stands for `left_out` rejected requests of anonymous callers."""
    stamp = _stamp(now)
    line = (
        f'{HEAD}"stage":"ResponseComplete","auditID":"{new_uid()}","requestURI":"","verb":"","user":{_user(ANONYMOUS)},"objectRef":{{}},'
        f'"requestReceivedTimestamp":"{stamp}","stageTimestamp":"{stamp}",'
        f'"annotations":{{"nodeplane.dev/left-out":"{left_out}"}}}}\n'
    )
    return line.encode()


def subject(path: str, target: Target | None) -> Subject:
    """Return path and object of a request, encoded and cut, for all lines of one route."""
    return Subject(_json(shortened(path, URI_LIMIT)), _json(_reference(target)))


def shortened(text: str, limit: int) -> str:
    """Return `text`, or its first `limit` characters and CUT; text that can be encoded in any case."""
    shown = text if len(text) <= limit else text[:limit] + CUT
    return shown if shown.isascii() else shown.encode(errors="replace").decode()


def _reference(target: Target | None) -> dict[str, str]:
    if target is None:
        return {}
    row = target.resource
    reference = {"resource": row.plural, "apiVersion": row.version}
    if row.group:
        reference["apiGroup"] = row.group
    if target.namespace:
        reference["namespace"] = shortened(target.namespace, NAME_LIMIT)
    if target.name:
        reference["name"] = shortened(target.name, NAME_LIMIT)
    if target.subresource:
        reference["subresource"] = target.subresource
    return reference


def _stamp(moment: float) -> str:
    second = int(moment)
    return f"{_second(second)}.{int(1e6 * (moment - second)):06d}Z"


@functools.lru_cache(maxsize=8)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
