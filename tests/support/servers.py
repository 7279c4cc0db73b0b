"""Servers of KEP-1904's scenarios: a watch cache and an API process each, all on one store, sharing CA and keys."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.support.apiserver_plane import Plane

X, Y = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
KINDS = {X: ("v1", "ConfigMap"), Y: ("v1", "Secret"), LEASES: ("coordination.k8s.io/v1", "Lease")}
MERGE = {"Content-Type": "application/merge-patch+json"}
GATE = "EfficientWatchResumption"


class Server:
    """One of them, as its clients see it."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane

    @property
    def gate(self) -> bool:
        return self.plane.settings.gate(GATE)

    def restart(self, gate: bool | None = None, number: int = signal.SIGKILL) -> None:
        """Both processes, `number` to the API process; the gate may change with it."""
        self.stop(number)
        self.start(gate)

    def stop(self, number: int = signal.SIGKILL) -> None:
        self.plane.kill("apiserver-0", number)
        self.plane.kill("watchcache")

    def start(self, gate: bool | None = None) -> None:
        if gate not in (None, self.gate):
            self.plane.change(feature_gates={GATE: bool(gate)})
        self.plane.spawn("watchcache")
        self.plane.spawn("apiserver-0")
        self.plane.wait_ready()

    def signal(self, instance: str, number: int) -> None:
        self.plane.processes[instance].send_signal(number)

    async def metric(self, instance: str, name: str, resource: str = "configmaps") -> float:
        """0 when it is not there."""
        head = f'{name}{{group="",resource="{resource}"}}'
        lines = (await self.plane.metrics(instance)).splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(head)), 0.0)

    async def replica_rv(self, resource: str = "configmaps") -> int:
        """Of the API process's own copy, which follows the watch cache: watches and their bookmarks stand on it."""
        return int(await self.metric("apiserver-0", "nodeplane_replica_revision", resource))

    async def cache_rv(self, resource: str = "configmaps") -> int:
        """Of the watch cache, as its metric tells."""
        return int(await self.metric("watchcache", "apiserver_watch_cache_resource_version", resource))


class Session:
    """Requests to one server."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http

    async def create(self, path: str, name: str) -> int:
        version, kind = KINDS[path]
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
        async with self.http.post(path, json=body) as answer:
            return version_of(await told(answer, 201))

    async def touch(self, path: str, name: str, value: str) -> int:
        body = {"metadata": {"annotations": {"touched": value}}}
        async with self.http.patch(f"{path}/{name}", data=json.dumps(body), headers=MERGE) as answer:
            return version_of(await told(answer, 200))

    async def version(self, path: str = X, **query: str) -> int:
        async with self.http.get(path, params=query) as answer:
            return version_of(await told(answer, 200))

    @asynccontextmanager
    async def watch(self, rv: int, path: str = X, **query: str) -> AsyncIterator["Stream"]:
        wanted = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": str(rv), **query}
        async with self.http.get(path, params=wanted) as answer:
            assert answer.status == 200, await answer.text()
            yield Stream(answer)


class Stream:
    """One watch's events."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self, within: float = 30.0) -> tuple[str, int, str]:
        """(type, version, name); ("", 0, "") at a clean end; an ERROR is ("ERROR", code, message)."""
        line = await asyncio.wait_for(self._answer.content.readline(), within)
        if not line:
            return "", 0, ""
        event = json.loads(line)
        obj = event["object"]
        if event["type"] == "ERROR":
            return "ERROR", int(obj["code"]), str(obj["message"])
        return event["type"], version_of(obj), str(obj["metadata"].get("name", ""))

    async def rest(self) -> list[tuple[str, int, str]]:
        """All that still comes, up to a clean end."""
        found = []
        while (event := await self.next())[0]:
            found.append(event)
        return found


@asynccontextmanager
async def session(server: Server) -> AsyncIterator[Session]:
    async with server.plane.client() as http:
        yield Session(http)


async def told(answer: aiohttp.ClientResponse, status: int) -> dict[str, Any]:
    body = dict(await answer.json())
    assert answer.status == status, body
    return body


def version_of(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


async def reaches(server: Server, rv: int, resource: str = "configmaps", within: float = 60.0) -> None:
    """Its watch cache and its API process come to this version."""
    deadline = time.monotonic() + within
    while (seen := min(await server.cache_rv(resource), await server.replica_rv(resource))) < rv:
        assert time.monotonic() < deadline, f"{resource} stay at {seen}, below {rv}"
        await asyncio.sleep(0.05)
