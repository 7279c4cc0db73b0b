"""A plane full of hollow pods that hold devices of a plugin or driver in the bench's own process, and a watch of it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from protocols.kinds.table import PODS
from protocols.kube.errors import ApiAway
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.process.settings import load_settings
from tests.bench.health_sources import DriverSource, PluginSource, Source
from tests.bench.pods_load import HOLLOW
from tests.support.plane import Plane
from tests.support.waiting import until_async

WRITERS = 8
PATIENCE_S = 120.0


class HealthLab:
    """`pods` pods of `each` devices. Watch events are handed to `on_pod(name)` when they show other health."""

    def __init__(self, plane: Plane, source: type[PluginSource] | type[DriverSource], pods: int, each: int) -> None:
        settings = load_settings(plane.root / "run" / "settings.json")
        certificate, key = settings.layout.client_cert("admin")
        options = ClientOptions(server=settings.api_url, ca=settings.layout.ca_cert, cert=certificate, key=key)
        self.client = ApiClient(options)
        self.names = [f"pod-{number}" for number in range(pods)]
        self.each = each
        self.health: dict[str, dict[str, str]] = {}
        """What the watch last showed: by pod, by device."""
        self.owner: dict[str, str] = {}
        """By device, its pod."""
        self.on_pod: Callable[[str], None] = lambda name: None
        self.on_event: Callable[[str], None] = lambda name: None
        self.source: Source = source(settings.layout.kubelet, pods * each)
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self.client.start()
        await self.source.start()
        self._watching = asyncio.create_task(self._watch())
        await self.until("devices on the node", lambda: self.source.ready(self.client))
        left = iter(self.names)
        await asyncio.gather(*(self._create(left) for _ in range(WRITERS)))
        whole = len(self.source.truth)
        await self.until("every device shown", lambda: sum(map(len, self.health.values())) == whole)
        self.owner = {device: pod for pod, devices in self.health.items() for device in devices}

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await self.source.stop()
        await self.client.close()

    async def until(self, what: str, holds: Callable[[], Any], seconds: float = PATIENCE_S) -> None:
        await until_async(what, holds, seconds)

    def is_shown(self, device: str) -> bool:
        """The watch has shown it as it is."""
        shown = self.health[self.owner[device]].get(device)
        return shown == ("Healthy" if self.source.truth[device] else "Unhealthy")

    def truth_is_shown(self) -> bool:
        return all(map(self.is_shown, self.source.truth))

    async def bystanders(self, count: int) -> list[str]:
        """Pods that no scheduler and no node cares for."""
        names = [f"bystander-{number}" for number in range(count)]
        for name in names:
            spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "busybox:1"}]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            await self.client.create(PODS, pod, "default")
        return names

    async def _create(self, names: Any) -> None:
        for name in names:
            spec = {"terminationGracePeriodSeconds": 0, **await self.source.spec(self.client, name, self.each)}
            spec["containers"][0] |= {"name": "main", "image": "busybox:1"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": HOLLOW}, "spec": spec}
            await self.client.create(PODS, pod, "default")

    async def _watch(self) -> None:
        while True:
            with suppress(ApiAway):
                async for event in self.client.watch(PODS, "default", query={}, silence=60):
                    self._take(event["object"])

    def _take(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        entries = (entry for status in statuses for entry in status.get("allocatedResourcesStatus") or ())
        shown = {device["resourceID"]: device["health"] for entry in entries for device in entry["resources"]}
        self.on_event(name)
        if shown != self.health.get(name):
            self.health[name] = shown
            self.on_pod(name)
