"""The audit log: who wrote what, when, with which outcome; one JSON line a request, metadata only, never a body.

Lines are gathered and written from a thread; a disk that is full costs lines, which are counted, never requests.
"""

import asyncio
import fcntl
import functools
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from actors.apiserver.authentication.user import User
from actors.apiserver.objects.uid import new_uid
from actors.apiserver.request.target import Target

BATCH_S = 0.25
LARGEST_BATCH = 8192
LIMIT = 4 * 1024 * 1024
"""Bytes after which the file is put aside as FILE.1; one is kept."""
AUDITED = ("create", "update", "patch", "delete", "deletecollection", "connect")


class Subject(msgspec.Struct, frozen=True):
    """What lines say of a request's path, as JSON."""

    uri: str
    reference: str


class Entry(msgspec.Struct, frozen=True):
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


def is_audited(verb: str, target: Target | None) -> bool:
    return verb in AUDITED and (target is None or target.subresource != "log")


class AuditLog:
    """Several processes append to one file; whoever finds it full puts it aside, under a lock."""

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self._path, self._limit = path, limit
        self._pending: list[bytes] = []
        self._flushing: asyncio.Task[None] | None = None
        self._told = False
        self.dropped = 0

    def note(self, entry: Entry) -> None:
        """Cheap; the first entry of a batch sets the clock for it, so an idle log costs nothing."""
        if len(self._pending) >= LARGEST_BATCH:
            self.dropped += 1
            return
        self._pending.append(line(entry))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_soon(), name="audit")

    async def close(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        await self._flush()

    async def _flush_soon(self) -> None:
        while self._pending:
            await asyncio.sleep(BATCH_S)
            await self._flush()

    async def _flush(self) -> None:
        batch, self._pending = self._pending, []
        if not batch:
            return
        try:
            await asyncio.to_thread(append, self._path, batch, self._limit)
            self._told = False
        except OSError as error:
            self.dropped += len(batch)
            if not self._told:  # once, until it works again
                logging.getLogger(__name__).error("audit log %s: %s; lines are lost", self._path, error.strerror)
            self._told = True


def append(path: Path, batch: list[bytes], limit: int = LIMIT) -> None:
    """Blocks. Raises OSError."""
    data = b"".join(batch)
    descriptor = _open(path)
    try:
        if os.fstat(descriptor).st_size + len(data) > limit:
            descriptor = _put_aside(path, descriptor)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _put_aside(path: Path, descriptor: int) -> int:
    """A descriptor of the new file. The lock, and a second look, keep two processes from moving two files."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
        path.replace(path.with_name(f"{path.name}.1"))
    os.close(descriptor)
    return _open(path)


def _open(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


HEAD = '{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete",'


def line(entry: Entry) -> bytes:
    """Field names of audit.k8s.io/v1, so that tools for it read ours. Made for each write: so it costs little."""
    ended = entry.received + entry.seconds
    other = entry.acts_as is not None and entry.acts_as != entry.user
    return (
        f'{HEAD}"auditID":"{new_uid()}","requestURI":{entry.subject.uri},"verb":"{entry.verb}",'
        f'"user":{_user(entry.user)},"sourceIPs":[{_often(entry.address)}],"userAgent":{_often(entry.agent)},'
        f'"objectRef":{entry.subject.reference},"responseStatus":{{"code":{entry.code}}},'
        f'"requestReceivedTimestamp":"{_stamp(entry.received)}","stageTimestamp":"{_stamp(ended)}",'
        f'"latencySeconds":{_json(int(1e6 * entry.seconds) / 1e6)}{_acting(entry) if other else ""}}}\n'
    ).encode()


_encode = msgspec.json.Encoder().encode


def _json(value: Any) -> str:
    return _encode(value).decode()


_often = functools.lru_cache(maxsize=256)(_json)
"""Of what is short, and the same in many lines."""


@functools.lru_cache(maxsize=256)
def _user(user: User) -> str:
    parts = {"username": user.name, "uid": user.uid, "groups": user.groups}
    return _json({key: value for key, value in parts.items() if value})


def _acting(entry: Entry) -> str:
    return f',"impersonatedUser":{_user(entry.acts_as or entry.user)}'


def subject(path: str, target: Target | None) -> Subject:
    return Subject(_json(path), _json(_reference(target)))


def _reference(target: Target | None) -> dict[str, str]:
    if target is None:
        return {}
    row = target.resource
    told = {"resource": row.plural, "apiVersion": row.version}
    if row.group:
        told["apiGroup"] = row.group
    if target.namespace:
        told["namespace"] = target.namespace
    if target.name:
        told["name"] = target.name
    if target.subresource:
        told["subresource"] = target.subresource
    return told


def _stamp(moment: float) -> str:
    second = int(moment)
    return f"{_second(second)}.{int(1e6 * (moment - second)):06d}Z"


@functools.lru_cache(maxsize=8)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
