"""Poll Version and Status of the runtime, and report changes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message

from protocols.bus import BusError
from protocols.errors import NodeplaneError
from protocols.wire import cri_pb2


class RuntimeRefused(NodeplaneError):
    """Raised when Version or Status of the runtime cannot be used: names missing, or RuntimeReady false."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


M = TypeVar("M", bound=Message)


class RuntimeInfo(msgspec.Struct, frozen=True):
    name: str
    version: str


def read_version(reply: bytes) -> RuntimeInfo:
    """Raises RuntimeRefused when one of the four names is empty, as kubelet does."""
    answer = _read(cri_pb2.VersionResponse, reply)
    fields = ("version", "runtime_name", "runtime_version", "runtime_api_version")
    missing = [field for field in fields if not getattr(answer, field)]
    if missing:
        raise RuntimeRefused(f"the runtime's Version lacks {', '.join(missing)}; use a runtime that speaks CRI v1")
    return RuntimeInfo(name=answer.runtime_name, version=answer.runtime_version)


def read_status(reply: bytes) -> str:
    """Why pods get no network of their own, empty if they do, in the words upstream's clients know.

    Raises RuntimeRefused when the condition RuntimeReady is missing or false.
    """
    conditions = {item.type: item for item in _read(cri_pb2.StatusResponse, reply).status.conditions}
    ready = conditions.get("RuntimeReady")
    if ready is None or not ready.status:
        detail = "no condition RuntimeReady" if ready is None else f"{ready.reason}: {ready.message}"
        raise RuntimeRefused(f"the runtime is not ready ({detail}); look at its log")
    network = conditions.get("NetworkReady")
    if network is None or network.status:
        return ""
    said = f"NetworkReady=false reason:{network.reason} message:{network.message}"
    return f"container runtime network not ready: {said}"


def _read(kind: type[M], reply: bytes) -> M:
    try:
        return kind.FromString(reply)
    except DecodeError:
        raise RuntimeRefused(f"the runtime's {kind.__name__} is not CRI v1; use a runtime that speaks CRI v1") from None


STATUS_S = 5.0
"""Period of the Status poll (upstream's), and the deadline of its calls."""
CALM_S, CALM_AFTER = 10.0, 12
"""The period after so many good answers in a row; at multiples of it, together with what else is due then."""
AWAY_S = 0.1
AWAY_TRIES = 100
"""While the runtime does not answer: the period for this many tries."""
VERSION_S = 60.0
"""How often a runtime that answers is asked who it is; after a failure it is asked at once."""
SILENCE_S = 30.0
"""A runtime that gave no good answer for this long is taken for down: upstream's limit. Its event stream is cut."""


def patience(good: int, now: float) -> float:
    """Seconds until the next poll of a runtime that gave so many good answers in a row."""
    return STATUS_S if good < CALM_AFTER else CALM_S - now % CALM_S


@dataclass(frozen=True)
class StatusWatchOptions:
    run: Callable[[str, bytes, float], Awaitable[bytes]]
    """Operation, request, timeout -> reply; raises BusError."""
    on_good: Callable[[RuntimeInfo, str], None]
    """Who it is, and why its network is not ready, empty if it is."""
    on_bad: Callable[[str], None]
    on_silent: Callable[[], None]


class StatusWatch:
    def __init__(self, options: StatusWatchOptions) -> None:
        self._options = options
        self._now = asyncio.Event()
        self._last_good = time.monotonic()
        self._info: RuntimeInfo | None = None
        self._asked = 0.0
        self._good = 0
        self._told_silent = False

    def poll_now(self) -> None:
        """Something happened to the runtime: it may be another one."""
        self._info, self._good = None, 0
        self._now.set()

    async def run(self) -> None:
        tries = 0
        while True:
            self._now.clear()
            tries = 0 if await self._check() else tries + 1
            wait = AWAY_S if 0 < tries <= AWAY_TRIES else patience(self._good, time.monotonic())
            try:
                async with asyncio.timeout(wait):
                    await self._now.wait()
                await asyncio.sleep(AWAY_S if tries else 0)
            except TimeoutError:
                continue

    async def _check(self) -> bool:
        try:
            info = await self._who()
            network = read_status(await self._options.run("Status", b"", STATUS_S))
        except (BusError, RuntimeRefused) as error:
            self._bad(error)
            return False
        self._last_good, self._told_silent = time.monotonic(), False
        self._good += 1
        self._options.on_good(info, network)
        return True

    async def _who(self) -> RuntimeInfo:
        now = time.monotonic()
        if self._info is None or now - self._asked >= VERSION_S:
            self._info = read_version(await self._options.run("Version", b"", STATUS_S))
            self._asked = now
        return self._info

    def _bad(self, error: Exception) -> None:
        self._info, self._good = None, 0
        self._options.on_bad(str(error))
        if not self._told_silent and time.monotonic() - self._last_good >= SILENCE_S:
            self._told_silent = True
            self._options.on_silent()
