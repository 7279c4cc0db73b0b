"""Poll Version and Status of the runtime, and report changes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message

from protocols.bus import BusError
from protocols.errors import NodeplaneError
from protocols.messages.cri import EventNumber, RuntimeHandler
from protocols.process.tasks import wait_set
from protocols.wire import cri_pb2
from protocols.wire.event_numbers import number_of


class RuntimeUnusable(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when Version lacks a name, or Status does not report RuntimeReady."""


M = TypeVar("M", bound=Message)


class _RuntimeInfo(msgspec.Struct, frozen=True):
    name: str
    version: str


def read_version(reply: bytes) -> _RuntimeInfo:
    """Decode Version. Raises RuntimeUnusable if one of the four names is empty, as kubelet does."""
    answer = _read(cri_pb2.VersionResponse, reply)
    fields = ("version", "runtime_name", "runtime_version", "runtime_api_version")
    missing = [field for field in fields if not getattr(answer, field)]
    if missing:
        raise RuntimeUnusable(f"the runtime's Version lacks {', '.join(missing)}; use a runtime that speaks CRI v1")
    return _RuntimeInfo(name=answer.runtime_name, version=answer.runtime_version)


def network_problem(reply: cri_pb2.StatusResponse) -> str:
    """Return kubelet's message if NetworkReady is false, else empty.

    Raises RuntimeUnusable if the condition RuntimeReady is missing or false.
    """
    conditions = {item.type: item for item in reply.status.conditions}
    ready = conditions.get("RuntimeReady")
    if ready is None or not ready.status:
        detail = "no condition RuntimeReady" if ready is None else f"{ready.reason}: {ready.message}"
        raise RuntimeUnusable(f"the runtime is not ready ({detail}); look at its log")
    network = conditions.get("NetworkReady")
    if network is None or network.status:
        return ""
    detail = f"NetworkReady=false reason:{network.reason} message:{network.message}"
    return f"container runtime network not ready: {detail}"


MAX_HANDLERS, MAX_HANDLER_NAME = 64, 253


def handlers_of(reply: cri_pb2.StatusResponse) -> tuple[RuntimeHandler, ...]:
    """Return the first MAX_HANDLERS runtime handlers."""
    return tuple(
        RuntimeHandler(
            name=item.name[:MAX_HANDLER_NAME],
            recursive_read_only=item.features.recursive_read_only_mounts,
            user_namespaces=item.features.user_namespaces,
        )
        for item in reply.runtime_handlers[:MAX_HANDLERS]
    )


class RuntimeReport(msgspec.Struct, frozen=True):
    """A good answer to Version and Status."""

    info: _RuntimeInfo
    network: str
    """Why the network is not ready; empty if it is."""
    handlers: tuple[RuntimeHandler, ...]
    strict_groups: bool
    newest_event: EventNumber | None


def _read(kind: type[M], reply: bytes) -> M:
    try:
        return kind.FromString(reply)
    except DecodeError:
        raise RuntimeUnusable(
            f"the runtime's {kind.__name__} is not CRI v1; use a runtime that speaks CRI v1"
        ) from None


STATUS_S = 5.0
"""Period of the Status poll (upstream's), and the deadline of its calls."""
SLOW_S, SLOW_AFTER = 10.0, 12
"""Period after so many good answers in a row; at multiples of it, so that other periodic work wakes up with it."""
FIRST_RETRY_S, FIRST_RETRIES = 0.02, 25
RETRY_S, MOST_RETRIES = 0.1, 100
"""Periods while the runtime does not answer, and the polls after which a longer one follows.

The embedded runtime starts together with this process.
"""
VERSION_S = 60.0
"""Period of Version while the runtime answers; after a failure it is asked at once."""
SILENCE_S = 30.0
"""A runtime without a good answer for this long counts as down (upstream's limit); its event stream is cut."""


def retry_delay(tries: int) -> float:
    """Return seconds until the next poll after so many bad answers in a row."""
    return FIRST_RETRY_S if tries <= FIRST_RETRIES else RETRY_S


def poll_delay(good: int, now: float) -> float:
    """Return seconds until the next poll after so many good answers in a row."""
    return STATUS_S if good < SLOW_AFTER else SLOW_S - now % SLOW_S


class StatusPollerOptions(msgspec.Struct, frozen=True):
    """The call to the runtime, and callbacks for an answer, a failure, and a long silence."""

    run: Callable[[str, bytes, float], Awaitable[bytes]]
    """Operation, request, timeout -> reply; raises BusError."""
    on_good: Callable[[RuntimeReport], None]
    on_bad: Callable[[str], None]
    on_silent: Callable[[], None]


class StatusPoller:
    """Asks for Status, seldom while all is well; `run` is its only task."""

    def __init__(self, options: StatusPollerOptions) -> None:
        self._options = options
        self._now = asyncio.Event()
        self._last_good = time.monotonic()
        self._info: _RuntimeInfo | None = None
        self._asked = float("-inf")
        self._good = 0
        self._silence_reported = False

    def poll_now(self) -> None:
        """Poll at once: the runtime may be another one, also than that of an answer under way."""
        self._asked, self._good = float("-inf"), 0
        self._now.set()

    async def run(self) -> None:
        tries = 0
        while True:
            self._now.clear()
            tries = 0 if await self._check() else tries + 1
            wait = retry_delay(tries) if 0 < tries <= MOST_RETRIES else poll_delay(self._good, time.monotonic())
            if await wait_set(self._now, wait):
                await asyncio.sleep(retry_delay(tries) if tries else 0)

    async def _check(self) -> bool:
        try:
            info = await self._version()
            status = _read(cri_pb2.StatusResponse, await self._options.run("Status", b"", STATUS_S))
            strict_groups = status.features.supplemental_groups_policy
            report = RuntimeReport(info, network_problem(status), handlers_of(status), strict_groups, number_of(status))
        except (BusError, RuntimeUnusable) as error:
            self._bad(error)
            return False
        self._last_good, self._silence_reported = time.monotonic(), False
        self._good += 1
        self._options.on_good(report)
        return True

    async def _version(self) -> _RuntimeInfo:
        now = time.monotonic()
        if self._info is None or now - self._asked >= VERSION_S:
            self._asked = now
            self._info = read_version(await self._options.run("Version", b"", STATUS_S))
        return self._info

    def _bad(self, error: Exception) -> None:
        self._info, self._good = None, 0
        self._options.on_bad(str(error))
        if not self._silence_reported and time.monotonic() - self._last_good >= SILENCE_S:
            self._silence_reported = True
            self._options.on_silent()
