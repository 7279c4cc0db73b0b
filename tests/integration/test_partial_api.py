"""Scheduler and controllers at an API without our own resources, as a kube-apiserver is: they sync, and work."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.apiserver_plane import Plane
from tests.support.partial_api import PartialApi

OURS = ("resourceslicepatches", "devicetaintrules")
AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "110"}


@asynccontextmanager
async def api_without(plane: Plane, actor: str, code: int) -> AsyncIterator[PartialApi]:
    """Run the actor at an API that refuses our own resources with `code`."""
    async with PartialApi(plane, actor, dict.fromkeys(OURS, code)).running() as api:
        own = plane.settings.api_url
        plane.change(api_url=api.url)
        plane.spawn(actor)
        try:
            yield api
        finally:
            await asyncio.to_thread(plane.kill, actor)
            plane.change(api_url=own)


async def create(plane: Plane, *objects: dict[str, Any]) -> None:
    text = "\n---\n".join(map(json.dumps, objects))
    await asyncio.to_thread(plane.kubectl, "create", "-f", "-", stdin=text)


async def until(plane: Plane, what: str, *command: str, shows: str) -> None:

    def said() -> str:
        return plane.kubectl(*command, check=False)

    await asyncio.to_thread(plane.until, what, said, good=lambda text: text == shows)


def node(name: str) -> dict[str, Any]:
    status = {"capacity": AMOUNTS, "allocatable": AMOUNTS, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"name": name}}, "status": status}


def pod(name: str, namespace: str, node: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeSelector": {"name": node}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def owned(name: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "11111111-1111-1111-1111-111111111111"}
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def complaints(plane: Plane, actor: str, resource: str) -> int:
    text = (plane.root / f"{actor}.log").read_text()
    return sum(1 for line in text.splitlines() if "not served" in line and f"resource={resource}." in line)


@pytest.mark.parametrize("code", [404, 403])
async def test_controllers_at_an_api_without_our_resources_collect_garbage(plane: Plane, code: int) -> None:
    log = plane.root / "controllers.log"
    before = complaints(plane, "controllers", OURS[0]) if log.exists() else 0
    async with api_without(plane, "controllers", code) as api:
        await create(plane, owned(f"orphan-{code}"))
        await until(plane, "collection", "get", "configmap", f"orphan-{code}", "--ignore-not-found", shows="")
        assert set(api.seen) == set(OURS)
    assert complaints(plane, "controllers", OURS[0]) - before in (1, 2)  # one each of the tracker and of collection


@pytest.mark.parametrize("code", [404, 403])
async def test_scheduler_at_an_api_without_our_resources_binds_pods(plane: Plane, code: int) -> None:
    async with api_without(plane, "scheduler", code) as api:
        await create(plane, node(f"n-{code}"))
        untainted = json.dumps({"spec": {"taints": None}})  # no controller runs here that would do so
        await asyncio.to_thread(plane.kubectl, "patch", "node", f"n-{code}", "-p", untainted)
        await create(plane, pod(f"p-{code}", namespace="default", node=f"n-{code}"))
        place = ("get", "pod", f"p-{code}", "-o", "jsonpath={.spec.nodeName}")
        await until(plane, "binding", *place, shows=f"n-{code}")
        assert set(api.seen) == set(OURS)
