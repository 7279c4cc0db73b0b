"""Writes Kubernetes Events without ever holding its caller up: bounded, aggregated, patient while the API is away."""

import asyncio
import hashlib
import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from protocols.bounded import BoundedMap
from protocols.kinds.table import EVENTS
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import object_reference
from protocols.kube.times import format_time
from protocols.kubeclient.client import ApiClient
from protocols.process.rates import TokenBucket

WAITING = 1000
"""Events that wait to be written; past it the oldest is dropped and counted."""
REMEMBERED = 4096
"""Written events that a repetition can still be added to."""
LONGEST = 1024
"""Characters of a message."""
PAUSE_S = 1.0
TRIES = 60
SIMILAR, SIMILAR_S = 10, 600.0
"""Messages of an object with one type and reason, from which on they share an event, as client-go's do: a probe that
fails each second may print the time. A pause of so many seconds begins anew."""
SPAM_BURST, SPAM_REFILL_S = 25, 300.0
"""Writes about an object with one type, then one each so many seconds, as client-go's: a probe that fails for days."""
COMBINED = "(combined from similar events): "
"""Before the newest of the messages."""

Key = tuple[str, ...]
"""Identity of an event: object, field path, type, reason, and unless it is a combined one the message (the component is
the recorder's). client-go combines those of all field paths, so that nobody knows whose they are."""


class _Waiting(msgspec.Struct):
    name: str
    """Chosen once, so that a create whose answer was lost is not done twice."""
    reference: dict[str, str]
    type: str
    reason: str
    message: str
    first: float
    last: float
    count: int = 1
    tries: int = 0
    host: str = ""


class _Similar(msgspec.Struct):
    """The newest messages about one thing, with one type and reason."""

    messages: dict[int, None] = {}
    """Their hashes, oldest first."""
    last: float = 0.0

    def are_many(self, message: str, now: float) -> bool:
        """Note a message; return True if it has to share an event with others."""
        if now - self.last > SIMILAR_S:
            self.messages.clear()
        self.last = now
        self.messages.setdefault(hash(message))
        if len(self.messages) < SIMILAR:
            return False
        del self.messages[next(iter(self.messages))]
        return True


class _Written(msgspec.Struct):
    name: str
    namespace: str
    count: int


class RecorderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Source that the API shows for each event."""

    component: str
    """Source of the events, e.g. `kubelet`, `default-scheduler`."""
    host: str = ""


class EventRecorder:
    """event() may be called from anywhere in the loop; run() writes, spawn it."""

    def __init__(self, client: ApiClient, options: RecorderOptions) -> None:
        self._client = client
        self._options = options
        self._waiting: OrderedDict[Key, _Waiting] = OrderedDict()
        self._written = BoundedMap[Key, _Written](REMEMBERED)
        self._similar = BoundedMap[Key, _Similar](REMEMBERED)
        self._budgets = BoundedMap[Key, TokenBucket](REMEMBERED)
        """By object and type."""
        self._wake = asyncio.Event()
        self.dropped = 0

    def event(
        self, obj: Mapping[str, Any], type: str, reason: str, message: str, field_path: str = "", *,
        once: bool = False, host: str = "", limited: bool = False,
    ) -> None:  # fmt: skip
        """`type` is Normal or Warning; `field_path` e.g. spec.containers{main}. The same event again is counted.

        `host`: the node that it comes from, if not the recorder's. With `once`, the event is not written again after a
        restart, as long as the API keeps the one of before. With `limited`, the caller bounds the rate of its events.
        """
        reference = object_reference(obj) | ({"fieldPath": field_path} if field_path else {})
        identity = tuple(reference.get(part, "") for part in ("kind", "namespace", "name", "uid"))
        key, now = (*identity, field_path, type, reason), time.time()
        if self._similar.get_or_make(key, _Similar).are_many(message, now):
            message = f"{COMBINED}{message}"
        else:
            key = (*key, message)
        if waiting := self._waiting.get(key):
            waiting.count += 1
            waiting.last, waiting.message = now, message
            return
        if not limited and self._is_spam((*identity, type), now):
            if written := self._written.get(key):
                written.count += 1  # shown by the next write
            return
        suffix = _digest((self._options.component, *key)) if once else uuid.uuid4().hex[:16]
        self._waiting[key] = _Waiting(
            _name_for(reference, suffix), reference, type, reason, message, now, now, host=host or self._options.host
        )
        if len(self._waiting) > WAITING:
            self._waiting.popitem(last=False)
            self.dropped += 1
        self._wake.set()

    def _is_spam(self, key: Key, now: float) -> bool:
        """Return True if an object had its writes of a type, otherwise count one."""
        bucket = self._budgets.get_or_make(key, lambda: TokenBucket(1 / SPAM_REFILL_S, SPAM_BURST, SPAM_BURST, now))
        spam = bucket.ready(now) > now
        if not spam:
            bucket.take(now)
        return spam

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                key, waiting = self._waiting.popitem(last=False)
                if not await self._write(key, waiting):
                    await asyncio.sleep(PAUSE_S)

    async def _write(self, key: Key, waiting: _Waiting) -> bool:
        """False when the API is away: the event waits on, up to TRIES times."""
        try:
            await self._create_or_count(key, waiting)
        except ApiAway:
            return self._again(key, waiting)
        except ApiError as error:
            if error.code == 429 or error.code >= 500:
                return self._again(key, waiting)
            self.dropped += 1  # refused for good, e.g. the namespace is gone
        return True

    def _again(self, key: Key, waiting: _Waiting) -> bool:
        waiting.tries += 1
        if waiting.tries >= TRIES:
            self.dropped += 1
        elif newer := self._waiting.get(key):
            newer.name, newer.first, newer.tries = waiting.name, waiting.first, waiting.tries
            newer.count += waiting.count
        else:
            self._waiting[key] = waiting
            self._waiting.move_to_end(key, last=False)
        return False

    async def _create_or_count(self, key: Key, waiting: _Waiting) -> None:
        if written := self._written.get(key):
            body = {
                "count": written.count + waiting.count,
                "lastTimestamp": format_time(waiting.last),
                "message": waiting.message[:LONGEST],
            }
            try:
                await self._client.patch(EVENTS, written.name, written.namespace, body)
            except ApiError as error:
                if error.code != 404:
                    raise
            else:
                written.count += waiting.count
                return
        await self._create(waiting)
        self._written[key] = _Written(waiting.name, _namespace(waiting), waiting.count)

    async def _create(self, waiting: _Waiting) -> None:
        try:
            await self._client.create(EVENTS, self._object(waiting), _namespace(waiting))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise  # it does when an earlier try got through and its answer was lost, or before a restart

    def _object(self, waiting: _Waiting) -> dict[str, Any]:
        source = {"component": self._options.component} | ({"host": waiting.host} if waiting.host else {})
        return {
            **EVENTS.type_meta,
            "metadata": {"name": waiting.name, "namespace": _namespace(waiting)},
            "involvedObject": waiting.reference,
            "type": waiting.type,
            "reason": waiting.reason,
            "message": waiting.message[:LONGEST],
            "source": source,
            "reportingComponent": self._options.component,
            "reportingInstance": waiting.host,
            "firstTimestamp": format_time(waiting.first),
            "lastTimestamp": format_time(waiting.last),
            "count": waiting.count,
        }


def _name_for(reference: dict[str, str], suffix: str) -> str:
    return f"{reference.get('name', 'object')[:200].rstrip('-.')}.{suffix}"


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=8).hexdigest()


def _namespace(waiting: _Waiting) -> str:
    """Events about cluster-scoped objects live in `default`."""
    return waiting.reference.get("namespace") or "default"
