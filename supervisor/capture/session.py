"""Record between a kubelet and its plugins until a time or a signal; follow a driver's ResourceSlices meanwhile."""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from protocols.kinds.table import RESOURCESLICES
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler
from protocols.kubeclient.kubeconfig import client_options
from protocols.messages.calls import CallRecord
from protocols.process.tasks import awaited, cancel, restarted
from protocols.process.texts import listed, printable
from supervisor.base.errors import UsageError
from supervisor.capture.beside import PLUGINS, REGISTRY, Beside
from supervisor.capture.devices import MOST_CHANGES, Version
from supervisor.capture.driver import calls_of
from supervisor.capture.parts import NothingToCapture
from supervisor.capture.recording import Recording
from supervisor.dra.sources import TIMEOUT_S

TOGETHER_NS = 100_000_000
"""Changes within this time are one version: a list has many objects, and an update several slices."""


class SliceVersions(ResourceEventHandler):
    """Handler of an informer. Of more than MOST_CHANGES versions the last ones are replaced by the newest."""

    def __init__(self, client: ApiClient, driver: str) -> None:
        self.found: list[Version] = []
        self.informer = Informer(client, RESOURCESLICES, InformerOptions(field_selector=f"spec.driver={driver}"), self)

    def on_add(self, obj: Object) -> None:
        self._note()

    def on_delete(self, obj: Object) -> None:
        self._note()

    def _note(self) -> None:
        now_ns, slices = time.time_ns(), list(self.informer.items.values())
        last_ns = self.found[-1][0] if self.found else 0
        if now_ns - last_ns < TOGETHER_NS:
            self.found[-1] = last_ns, slices
            return
        del self.found[MOST_CHANGES - 1 :]
        self.found.append((now_ns, slices))


@asynccontextmanager
async def followed(kubeconfig: Path | None, driver: str) -> AsyncIterator[list[Version]]:
    """Yield the list to which versions are appended; it stays empty without an API that answers. Raises UsageError."""
    if kubeconfig is None:
        yield []
        return
    with client_options(kubeconfig, timeout=TIMEOUT_S) as options:
        client = ApiClient(options)
        await client.start()
        try:
            versions = SliceVersions(client, driver)
            following = awaited(restarted(versions.informer.run, "informer"))
            try:
                yield versions.found
            finally:
                await cancel(following)
        finally:
            await client.close()


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
    calls = calls_of(peer, recording.records)
    if not calls:
        names = sorted({record.peer for record in recording.records})
        raise NothingToCapture(f"{peer} did not register; there were calls of: {listed(names, MOST_NAMED) or 'nobody'}")
    return calls, versions


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
