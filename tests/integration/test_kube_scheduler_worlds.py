"""A real kube-scheduler and ours, one after the other over the same random worlds, agree on what fits.

Runs where the binary is given: NODEPLANE_KUBE_SCHEDULER=/path/to/kube-scheduler. Everywhere, ours alone is held to an
oracle over the same API, so that worlds and comparison are known to work.
"""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from protocols.kinds.table import NODES, PODS
from protocols.kube.meta import Object, condition, meta
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.plane import stop
from tests.support.scheduling_worlds import World, feasible, objects, world

VARIABLE = "NODEPLANE_KUBE_SCHEDULER"
BINARY = os.environ.get(VARIABLE, "")
WORLDS = 500
DECIDED_S = 300.0


@contextlib.contextmanager
def ours(plane: Plane) -> Iterator[None]:
    plane.spawn("scheduler")
    yield


@contextlib.contextmanager
def theirs(plane: Plane) -> Iterator[None]:
    config = plane.root / "kube-scheduler.kubeconfig"
    config.write_text(kubeconfig(plane))
    flags = [f"--{kind}kubeconfig={config}" for kind in ("", "authentication-", "authorization-")]
    with (plane.root / "kube-scheduler.log").open("wb") as log:
        process = subprocess.Popen([BINARY, *flags, "--secure-port=0", "--leader-elect=false"], stdout=log, stderr=log)
    try:
        yield
    finally:
        stop(process)


def kubeconfig(plane: Plane) -> str:
    cert, key = plane.settings.layout.client_cert("scheduler")
    cluster = {"server": plane.url, "certificate-authority": str(plane.settings.layout.ca_cert)}
    user = {"client-certificate": str(cert), "client-key": str(key)}
    named = {
        "clusters": [{"name": "plane", "cluster": cluster}],
        "users": [{"name": "scheduler", "user": user}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "scheduler"}}],
    }
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "plane", **named})


async def placed(plane: Plane, worlds: list[World]) -> dict[str, bool]:
    """Create the worlds; return which pods were bound once each is bound or reported unschedulable."""
    cert, key = plane.settings.layout.client_cert("admin")
    client = ApiClient(ClientOptions(server=plane.url, ca=plane.settings.layout.ca_cert, cert=cert, key=key))
    await client.start()
    try:
        for each in worlds:
            await create(client, each)
        return await decided(client, len(worlds))
    finally:
        await client.close()


async def create(client: ApiClient, each: World) -> None:
    for resource, obj in objects(each):
        namespace = "default" if resource.namespaced else ""
        made = await client.create(resource, obj, namespace)
        if "status" in obj:
            await client.update(resource, {**made, "status": obj["status"]}, namespace, "status")
        if resource is NODES:  # no controllers run that take away the taint of new nodes
            await client.patch(resource, meta(obj)["name"], "", {"spec": {"taints": obj["spec"]["taints"] or None}})


async def decided(client: ApiClient, count: int) -> dict[str, bool]:
    found: dict[str, bool] = {}

    async def all_decided() -> bool:
        pods = (await client.list(PODS, "default"))["items"]
        found.update({meta(pod)["name"]: is_bound(pod) for pod in pods if is_bound(pod) or waits(pod)})
        return len(found) == count

    end = asyncio.get_running_loop().time() + DECIDED_S
    while not await all_decided():
        assert asyncio.get_running_loop().time() < end, f"{len(found)} of {count} pods were decided"
        await asyncio.sleep(0.5)
    return found


def is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def waits(pod: Object) -> bool:
    return (condition(pod, "PodScheduled") or {}).get("reason") == "Unschedulable"


def run(scheduler: contextlib.AbstractContextManager[None], plane: Plane, worlds: list[World]) -> dict[str, bool]:
    with scheduler:
        return asyncio.run(placed(plane, worlds))


def differences(one: dict[str, bool], other: dict[str, bool]) -> dict[str, tuple[bool, bool]]:
    """Return what fits for one and not for the other, by world."""
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


def oracle(worlds: list[World]) -> dict[str, bool]:
    return {each.name: feasible(each) for each in worlds}


@pytest.mark.heavy
def test_ours_agrees_with_the_oracle_over_the_api() -> None:
    worlds = [world(number) for number in range(30)]
    with running_plane() as plane:
        assert differences(run(ours(plane), plane, worlds), oracle(worlds)) == {}


@pytest.mark.skipif(not BINARY, reason=f"set {VARIABLE} to a kube-scheduler of 1.36")
def test_kube_scheduler_and_ours_agree_on_500_random_worlds() -> None:
    worlds = [world(number) for number in range(WORLDS)]
    with running_plane() as plane:
        own = run(ours(plane), plane, worlds)
    with running_plane() as plane:
        real = run(theirs(plane), plane, worlds)
    assert differences(own, real) == {}
    assert differences(own, oracle(worlds)) == {}


def test_difference_of_two_schedulers_is_named() -> None:
    assert differences({"a": True, "b": False}, {"a": True, "b": True}) == {"b": (False, True)}
