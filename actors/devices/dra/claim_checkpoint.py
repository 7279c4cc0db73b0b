"""The claims on disk, in kubelet's own file and format, so that a kubelet can take the node over and back.

Loaded claims count as not prepared: before the next sandbox their drivers are called again.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from actors.devices.dra.errors import ClaimsNotWritten, ClaimStateCorrupt
from protocols.lifecycle.devices.types import ClaimInfo, PreparedDevice
from protocols.process.files import UNREADABLE, NotAFile, make_directory, read_state, set_aside, write_atomic
from protocols.process.tasks import shared

KIND: Literal["DRACheckpoint"] = "DRACheckpoint"
VERSION: Literal["checkpoint.dra.kubelet.k8s.io/v1"] = "checkpoint.dra.kubelet.k8s.io/v1"


class CheckpointDevice(msgspec.Struct, frozen=True, rename="pascal"):
    """A device that a driver has prepared."""

    pool_name: str
    device_name: str
    share_id: str | None = msgspec.field(name="ShareID", default=None)
    request_names: tuple[str, ...] | None = None
    cdi_device_ids: tuple[str, ...] | None = msgspec.field(name="CDIDeviceIDs", default=None)


class CheckpointDriver(msgspec.Struct, frozen=True, rename="pascal"):
    """The devices of one driver."""

    devices: tuple[CheckpointDevice, ...] | None = None


class CheckpointClaim(msgspec.Struct, frozen=True, rename="pascal"):
    """A claim in use; its pods are the keys of `pod_uids`."""

    claim_uid: str = msgspec.field(name="ClaimUID")
    claim_name: str
    namespace: str
    pod_uids: dict[str, dict[str, str]] | None = msgspec.field(name="PodUIDs", default=None)
    driver_state: dict[str, CheckpointDriver] | None = None


class Inner(msgspec.Struct, frozen=True):
    """The checkpoint, which the file holds as a text."""

    kind: Literal["DRACheckpoint"]
    api_version: Literal["checkpoint.dra.kubelet.k8s.io/v1"] = msgspec.field(name="apiVersion")
    claims: tuple[CheckpointClaim, ...] | None = msgspec.field(name="ClaimInfoStateList", default=None)


class Outer(msgspec.Struct, frozen=True, rename="pascal"):
    """The file."""

    data: str
    checksum: int
    """CRC-32 (IEEE) of `data`."""


def encode(claims: Iterable[ClaimInfo]) -> bytes:
    """Return the file, claims in the order of their keys."""
    ordered = tuple(_claim(claim) for claim in sorted(claims, key=lambda claim: claim.key))
    inner = msgspec.json.encode(Inner(KIND, VERSION, ordered or None))
    return msgspec.json.encode(Outer(data=inner.decode(), checksum=zlib.crc32(inner)))


def decode(raw: bytes) -> list[ClaimInfo]:
    """Raises ClaimStateCorrupt."""
    try:
        outer = msgspec.json.decode(raw, type=Outer)
        if zlib.crc32(outer.data.encode()) != outer.checksum:
            raise ClaimStateCorrupt("its checksum does not match")
        inner = msgspec.json.decode(outer.data, type=Inner)
    except UNREADABLE as error:
        raise ClaimStateCorrupt(str(error)) from None
    return [_info(claim) for claim in inner.claims or ()]


class ClaimFile:
    """Its methods block: call them in a thread once the event loop runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> tuple[list[ClaimInfo] | None, str]:
        """Return the claims, or None without a usable file; and a warning, or "". A corrupt file is renamed."""
        make_directory(self.path.parent, 0o700)
        try:
            return decode(read_state(self.path)), ""
        except FileNotFoundError:
            return None, ""
        except NotAFile as error:
            why = str(error.strerror)
        except ClaimStateCorrupt as error:
            why = str(error)
        return None, f"claim state {self.path} is corrupt: {why}; renamed to {set_aside(self.path)}"

    def save(self, raw: bytes) -> None:
        write_atomic(self.path, raw, mode=0o600)


def _claim(claim: ClaimInfo) -> CheckpointClaim:
    drivers = {
        name: CheckpointDriver(tuple(_device(item) for item in devices) or None)
        for name, devices in sorted(claim.drivers.items())
    }
    return CheckpointClaim(claim.uid, claim.name, claim.namespace, {uid: {} for uid in sorted(claim.pods)}, drivers)


def _device(device: PreparedDevice) -> CheckpointDevice:
    return CheckpointDevice(
        pool_name=device.pool,
        device_name=device.device,
        share_id=device.share_id or None,
        request_names=device.requests or None,
        cdi_device_ids=device.cdi_devices or None,
    )


def _info(claim: CheckpointClaim) -> ClaimInfo:
    drivers = {
        name: tuple(_prepared(item) for item in driver.devices or ())
        for name, driver in (claim.driver_state or {}).items()
    }
    return ClaimInfo(claim.namespace, claim.claim_name, claim.claim_uid, set(claim.pod_uids or ()), drivers)


def _prepared(device: CheckpointDevice) -> PreparedDevice:
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        requests=device.request_names or (),
        cdi_devices=device.cdi_device_ids or (),
        share_id=device.share_id or "",
    )


class ClaimWriterOptions(msgspec.Struct, frozen=True):
    """Content and target of the checkpoint."""

    claims: Callable[[], list[ClaimInfo]]
    save: Callable[[bytes], None]
    """Blocks until the bytes are on disk; raises OSError."""
    log: Callable[[str], None]


class ClaimWriter:
    """Writes the checkpoint, one write at a time: changes during a write share the next one."""

    def __init__(self, options: ClaimWriterOptions) -> None:
        self._options = options
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._requested = 0
        self._written = 0
        self._logged_error = ""

    async def write(self) -> None:
        """Return once the present state of the claims is on disk. Raises ClaimsNotWritten."""
        self._requested += 1
        writing = shared(self._write_up_to(self._requested), "claim checkpoint")
        self._tasks.add(writing)
        writing.add_done_callback(self._tasks.discard)
        await asyncio.shield(writing)  # a cancelled caller must not let the next write overlap

    async def settle(self) -> None:
        """Write again what could not be written. Raises ClaimsNotWritten."""
        if self._written < self._requested:
            await self.write()

    async def close(self) -> None:
        """Wait for writes in progress."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _write_up_to(self, mine: int) -> None:
        async with self._lock:
            if self._written >= mine:  # another caller's write included this state
                return
            upto = self._requested
            await self._write(encode(self._options.claims()))
            self._written = upto

    async def _write(self, raw: bytes) -> None:
        try:
            await asyncio.to_thread(self._options.save, raw)
        except OSError as error:
            text = f"cannot write the claim checkpoint: {error.strerror}; no claim is prepared"
            if text != self._logged_error:  # once: the log may be on the same full disk
                self._options.log(text)
            self._logged_error = text
            raise ClaimsNotWritten(text) from None
        if self._logged_error:
            self._options.log("claim checkpoint writable again")
        self._logged_error = ""
