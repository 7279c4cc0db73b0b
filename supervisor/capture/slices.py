"""Follow the ResourceSlices of a driver while its calls are recorded beside a kubelet."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from protocols.kinds.table import RESOURCESLICES
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions
from protocols.kubeclient.kubeconfig import client_options
from protocols.process.tasks import awaited, cancel, restarted
from supervisor.capture.devices import MOST_CHANGES, Version
from supervisor.dra.sources import TIMEOUT_S

TOGETHER_NS = 100_000_000
"""Changes within this time are one version: a list has many objects, and an update several slices."""


class SliceVersions:
    """Handler of an informer. Of more than MOST_CHANGES versions the last ones are replaced by the newest."""

    def __init__(self, client: ApiClient, driver: str) -> None:
        self.found: list[Version] = []
        self.informer = Informer(client, RESOURCESLICES, InformerOptions(field_selector=f"spec.driver={driver}"), self)

    def on_add(self, obj: Object) -> None:
        self._note()

    def on_update(self, old: Object, new: Object) -> None:
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
