"""Content, not positions: what every face answers from its replica is what the owner has on disk, and what is on disk
belongs to somebody."""

import base64
import json
import time
from pathlib import Path
from typing import Any

import grpc

from protocols.wire import etcd_pb2
from tests.support import oracle
from tests.support.plane import Plane, until
from tests.support.plane_client import read_object
from tests.support.podwatch import Holdings, PodWatch
from tests.support.stubs import call

COLLECTIONS = {
    "/registry/pods/": "/api/v1/pods",
    "/registry/configmaps/": "/api/v1/configmaps",
    "/registry/minions/": "/api/v1/nodes",
    "/registry/namespaces/": "/api/v1/namespaces",
    "/registry/leases/": "/apis/coordination.k8s.io/v1/leases",
}
Versions = dict[str, int]
"""namespace/name -> revision."""


def replicas_equal(plane: Plane, watch: PodWatch) -> None:
    """Who goes on being written to meets its owner's state within seconds, and never stays apart."""
    for prefix, path in COLLECTIONS.items():
        until(f"{path} equal to the store", lambda prefix=prefix, path=path: not _apart(plane, prefix, path), 60)  # type: ignore[misc] # bound at once
    until("the front door equal to the device manager's checkpoint", lambda: watch.listed() == checkpointed(plane), 60)
    given, running = checkpointed(plane), _running(plane)
    assert all(devices <= given.get(pod, frozenset()) for pod, devices in running.items()), (given, running)


def _apart(plane: Plane, prefix: str, path: str) -> dict[str, Any]:
    """Asked of whatever API process answers, from its replica as it stands."""
    stored, served = _stored(plane, prefix), _served(plane, path)
    return {name: (stored.get(name), served.get(name)) for name in stored.keys() | served if stored != served}


def _stored(plane: Plane, prefix: str) -> Versions:
    key = prefix.encode()
    with grpc.insecure_channel(plane.store, [("grpc.default_authority", "localhost")]) as channel:
        request = etcd_pb2.RangeRequest(key=key, range_end=key[:-1] + b"0", keys_only=True)
        list_keys = call(channel, etcd_pb2.DESCRIPTOR.services_by_name["KV"], "Range")
        found = list_keys(request, timeout=20, wait_for_ready=True).kvs
    return {each.key.decode().removeprefix(prefix): each.mod_revision for each in found}


def _served(plane: Plane, path: str) -> Versions:
    metas = [item["metadata"] for item in read_object(plane.root, f"{path}?resourceVersion=0").get("items", ())]
    return {"/".join(filter(None, (m.get("namespace"), m["name"]))): int(m["resourceVersion"]) for m in metas}


def checkpointed(plane: Plane) -> dict[str, Holdings]:
    """Pod -> devices, as the device manager would find them if it were killed now."""
    path = plane.root / "devices" / "checkpoint.json"
    if not path.exists():
        return {}  # no device was ever here
    whole = json.loads(path.read_text())
    allocations = [pod["allocation"] for pod in whole["data"].get("pods", [])]
    return {
        allocation["name"]: frozenset(
            (device["resource"], device["id"])
            for box in allocation.get("containers", [])
            for device in box.get("devices", [])
        )
        for allocation in allocations
    }


def _running(plane: Plane) -> dict[str, Holdings]:
    """Pod -> devices of its containers, by their own environments."""
    found: dict[str, Holdings] = {}
    for around in oracle.containers(plane).values():
        held = frozenset(("example.com/gpu", id_) for id_ in around["EXAMPLE_COM_GPU"].split(","))
        found[around["HOSTNAME"]] = found.get(around["HOSTNAME"], frozenset()) | held
    return found


def nothing_left(plane: Plane) -> None:
    """No file of a pod that is gone, and none half written."""
    deadline = time.monotonic() + 60
    while (left := strays(plane)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left, f"files without an owner: {[str(path) for path in left]}"


def strays(plane: Plane) -> list[Path]:
    uids = {item["metadata"]["uid"] for item in read_object(plane.root, "/api/v1/pods").get("items", ())}
    root = plane.root
    named = [*(root / "pods").glob("*"), *(root / "pods-logs").glob("*")]
    records = [*(root / "runtime").glob("sandboxes/*.json"), *(root / "runtime").glob("containers/*.json")]
    return [
        *(path for path in named if path.name.rpartition("_")[2] not in uids),
        *(path for path in records if not any(uid in _text(path) for uid in uids)),
        *root.rglob("*.tmp"),
    ]


def _text(path: Path) -> str:
    """What a record of the runtime was made from; the pod's uid is in it."""
    try:
        return base64.b64decode(json.loads(path.read_bytes())["config"]).decode(errors="replace")
    except (OSError, ValueError):
        return ""
