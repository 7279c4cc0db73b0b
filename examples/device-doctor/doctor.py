"""Gives a pod whose device broke another try on a good one. An operator on kopf; it writes with kr8s.

    kubectl label pod NAME device-doctor=replace
    kopf run --standalone -n default examples/device-doctor/doctor.py

It acts on pods with that label that show an Unhealthy device for PATIENCE seconds (5). A pod that a controller owns is
deleted, for its owner makes the replica; for any other a replica is made first, so that nothing is lost if the doctor
dies in between: NAME-2, NAME-3 and so on, TRIES (5) at most. Claimed devices (DRA) are tainted before, for nothing else
keeps the scheduler from choosing them again; what a device plugin calls unhealthy is not given away anyway.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import kopf
import kr8s
from kr8s.asyncio.objects import Pod, new_class

from protocols.kube.meta import Object

PATIENCE = float(os.environ.get("PATIENCE", "5"))
TRIES = int(os.environ.get("TRIES", "5"))
LABEL, NTH, FIRST = "device-doctor", "device-doctor/try", "device-doctor/first"
TAINT = {"key": "device-doctor/unhealthy", "effect": "NoSchedule"}
STATUSES = ("containerStatuses", "initContainerStatuses")
TaintRule = new_class("DeviceTaintRule", version="resource.k8s.io/v1beta2", namespaced=False)


@kopf.on.event("pods", labels={LABEL: "replace"})
async def seen(body: kopf.Body, name: str, namespace: str, logger: kopf.Logger, **_: Any) -> None:
    """Called with each state of a pod, one after another: the latest is looked at once patience is over."""
    if body.metadata.get("deletionTimestamp") or not any(unhealthy(dict(body))):
        return
    await asyncio.sleep(PATIENCE)
    await patiently(lambda: treat(name, namespace, logger), logger)


async def treat(name: str, namespace: str, logger: kopf.Logger) -> None:
    try:
        pod = await Pod.get(name, namespace=namespace)
    except kr8s.NotFoundError:
        return
    broken = sorted(set(unhealthy(pod.raw)))
    if not broken or pod.raw["metadata"].get("deletionTimestamp"):
        return
    if nth(pod.raw) > TRIES:
        logger.warning("%s has an unhealthy device again, and had its %d tries", name, TRIES)
        return
    for resource, device in broken:
        if resource.startswith("claim:") or resource in by_claim(pod.raw):
            await made(await TaintRule(taint_rule(device)))
    if not owned(pod.raw):
        await made(await Pod(replica(pod.raw)))
    await pod.delete()
    logger.info("%s is replaced: %s", name, ", ".join(device for _, device in broken))


def unhealthy(pod: Object) -> Iterator[tuple[str, str]]:
    """(entry's name, resourceID) of each broken device a pod shows."""
    status = pod.get("status") or {}
    for owner in (status, *(one for field in STATUSES for one in status.get(field) or ())):
        for entry in owner.get("allocatedResourcesStatus") or ():
            for device in entry.get("resources") or ():
                if device.get("health") == "Unhealthy":
                    yield entry["name"], device["resourceID"]


def by_claim(pod: Object) -> set[str]:
    """Extended resources that the pod has through a claim: a DeviceClass provides them."""
    mappings = (pod["status"].get("extendedResourceClaimStatus") or {}).get("requestMappings") or ()
    return {mapping["resourceName"] for mapping in mappings}


def owned(pod: Object) -> bool:
    return any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or ())


def nth(pod: Object) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(NTH, "1")) + 1


def replica(pod: Object) -> Object:
    """The same pod for another place. Its name tells which try it is, so making it twice makes one."""
    metadata = pod["metadata"]
    first = (metadata.get("annotations") or {}).get(FIRST, metadata["name"])
    notes = {**(metadata.get("annotations") or {}), NTH: str(nth(pod)), FIRST: first}
    named = {"name": f"{first}-{nth(pod)}", "namespace": metadata["namespace"], "annotations": notes}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    labels = metadata.get("labels") or {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, "labels": labels}, "spec": spec}


def taint_rule(device: str) -> Object:
    driver, _, rest = device.partition("/")
    pool, _, one = rest.rpartition("/")
    spec = {"deviceSelector": {"driver": driver, "pool": pool, "device": one}, "taint": TAINT}
    name = f"unhealthy.{device}".replace("/", ".").lower()[:253]
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name, "labels": {LABEL: "taint"}},
        "spec": spec,
    }


async def made(obj: Any) -> None:
    """Create it, unless an earlier try did."""
    try:
        await obj.create()
    except kr8s.ServerError as error:
        if error.response is None or error.response.status_code != 409:
            raise


async def patiently(act: Callable[[], Awaitable[None]], logger: kopf.Logger) -> None:
    """Every step can be done again, so an API that is away for a moment is no harm."""
    for pause in (0.5, 1, 2, 4, 8, 16, 0):
        try:
            await act()
            return
        except (kr8s.ServerError, kr8s.APITimeoutError, httpx.HTTPError) as error:
            logger.warning("tried in vain: %s", error)
            await asyncio.sleep(pause)
