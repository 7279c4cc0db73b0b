"""Record between a kubelet and its plugins for a time, or until a signal."""

import asyncio
import signal
import sys
import time
from pathlib import Path

from protocols.messages.calls import CallRecord
from protocols.process.texts import listed, printable
from supervisor.base.errors import UsageError
from supervisor.capture.beside import PLUGINS, REGISTRY, Beside
from supervisor.capture.devices import Version
from supervisor.capture.driver import calls_of
from supervisor.capture.parts import NothingToCapture
from supervisor.capture.recording import Recording
from supervisor.capture.slices import followed

MOST_NAMED = 20


def record_beside(
    peer: str, kubelet: Path, served: Path, seconds: int | None, kubeconfig: Path | None = None
) -> tuple[list[CallRecord], list[Version]]:
    """Return the calls of a plugin or driver, and the versions of its ResourceSlices by the API of a kubeconfig.

    Raises NothingToCapture, UsageError, SocketInUse.
    """
    for name in (PLUGINS, REGISTRY):
        if not (kubelet / name).is_dir():
            raise UsageError(f"{kubelet} has no directory {name}; give the kubelet's --root-dir")
    if served == kubelet:
        raise UsageError("--serve must be another directory than --kubelet")
    recording = Recording()
    _say(f"point the plugin's kubelet directory at {served}; {'Ctrl-C' if seconds is None else f'{seconds} s'} ends it")
    versions = asyncio.run(_follow(Beside(kubelet, served, recording, _say), seconds, kubeconfig, peer))
    if recording.left_out:
        _say(f"{recording.left_out} later calls and messages found no room in the record")
    found = calls_of(peer, recording.records)
    if not found:
        names = sorted({record.peer for record in recording.records})
        raise NothingToCapture(f"{peer} did not register; there were calls of: {listed(names, MOST_NAMED) or 'nobody'}")
    return found, versions


async def _follow(beside: Beside, seconds: int | None, kubeconfig: Path | None, driver: str) -> list[Version]:
    async with followed(kubeconfig, driver) as versions:
        await _record(beside, seconds)
    return versions


async def _record(beside: Beside, seconds: int | None) -> None:
    ended, end = asyncio.Event(), time.monotonic() + seconds if seconds is not None else float("inf")

    def finish() -> None:
        ended.set()
        beside.wake()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, finish)
    try:
        await beside.serve(lambda: ended.is_set() or time.monotonic() >= end)
    finally:
        await beside.stop()


def _say(line: str) -> None:
    print(printable(f"nodeplane: {line}"), file=sys.stderr, flush=True)
