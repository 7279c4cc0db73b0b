"""Use the API of a plane as its kubeconfig says, with the admin's certificate and without a process of kubectl.

Tests poll and apply: a kubectl for each takes the processors from the plane that is tested.
"""

import contextlib
import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.support.waiting import saw

PATHS = {
    "configmap": "/api/v1/namespaces/{namespace}/configmaps",
    "daemonset": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "deviceclass": "/apis/resource.k8s.io/v1/deviceclasses",
    "devicetaintrule": "/apis/resource.k8s.io/v1beta2/devicetaintrules",
    "event": "/api/v1/namespaces/{namespace}/events",
    "job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "lease": "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
    "node": "/api/v1/nodes",
    "pod": "/api/v1/namespaces/{namespace}/pods",
    "replicaset": "/apis/apps/v1/namespaces/{namespace}/replicasets",
    "replicationcontroller": "/api/v1/namespaces/{namespace}/replicationcontrollers",
    "resourceclaim": "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
    "resourceclaimtemplate": "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates",
    "resourceslice": "/apis/resource.k8s.io/v1/resourceslices",
    "resourceslicepatch": "/apis/resource.k8s.io/v1alpha3/resourceslicepatches",
    "secret": "/api/v1/namespaces/{namespace}/secrets",
    "service": "/api/v1/namespaces/{namespace}/services",
    "serviceaccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
}
"""Collections by the name that kubectl has for the kind."""


class _ClosedSocket(ssl.SSLSocket):
    """Closes itself: wrap_socket loses a socket whose peer resets it before the handshake (CPython 3.11)."""

    def __del__(self) -> None:
        self.close()


def connect(root: Path, timeout: float = 30.0) -> http.client.HTTPSConnection:
    """Return a connection to the API of the plane below `root`."""
    config = yaml.load((root / "kubeconfig").read_text(), Loader=yaml.CSafeLoader)
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    context = ssl.create_default_context(cafile=str(root / "pki" / "ca.crt"))
    context.sslsocket_class = _ClosedSocket
    context.load_cert_chain(str(root / "pki" / "admin.crt"), str(root / "pki" / "admin.key"))
    return http.client.HTTPSConnection(server.hostname or "", server.port, timeout=timeout, context=context)


_kept: dict[Path, tuple[list[int], http.client.HTTPSConnection]] = {}
"""An idle connection by root, with the time of what it was made with: each handshake costs 6 ms of a processor."""


def read(root: Path, path: str) -> bytes:
    """Return the body of a GET, or b"" while nobody serves it."""
    status, body = ask(root, "GET", path)
    if status not in (0, 200):
        saw(f"GET {path}: {status} {body.decode(errors='replace')}")
    return body if status == 200 else b""


def ask(root: Path, method: str, path: str, body: str = "") -> tuple[int, bytes]:
    """Return the status and the body of the answer, or 0 while nobody serves it."""
    try:
        stamps = [(root / name).stat().st_mtime_ns for name in ("kubeconfig", "pki/ca.crt", "pki/admin.crt")]
        made, connection = _kept.pop(root, ([], None))
        if connection and made == stamps:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return _answer(root, stamps, connection, method, path, body)
        elif connection:
            connection.close()
        return _answer(root, stamps, connect(root), method, path, body)
    except (OSError, http.client.HTTPException) as error:
        saw(f"{method} {path}: {error!r}")
        return 0, b""


def _answer(
    root: Path, stamps: list[int], connection: http.client.HTTPSConnection, method: str, path: str, body: str
) -> tuple[int, bytes]:
    try:
        connection.request(method, path, body or None, {"Content-Type": "application/json"} if body else {})
        with connection.getresponse() as answer:
            found = answer.read()
    except BaseException:
        connection.close()
        raise
    if not connection.sock or _kept.setdefault(root, (stamps, connection))[1] is not connection:
        connection.close()  # the server ended it, or another thread's is kept
    return answer.status, found


def forget(root: Path) -> None:
    """Close the idle connection to the plane below `root`."""
    _, connection = _kept.pop(root, ([], None))
    if connection:
        connection.close()


def read_object(root: Path, path: str) -> dict[str, Any]:
    """Return the object or list at `path`, or {} while nobody serves it."""
    body = read(root, path)
    return dict(json.loads(body)) if body else {}


def create(root: Path, manifest: dict[str, Any]) -> bool:
    """Create an object as the first `kubectl apply` of it does; False where that takes kubectl."""
    kind, metadata = str(manifest.get("kind", "")).lower(), manifest.get("metadata", {})
    path = PATHS.get(kind, "").format(namespace=metadata.get("namespace", "default"))
    if f"/{manifest.get('apiVersion')}/" not in path:
        return False
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(manifest, separators=(",", ":")) + "\n"}
    noted = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **applied}}
    query = "fieldManager=kubectl-client-side-apply&fieldValidation=Strict"
    return ask(root, "POST", f"{path}?{query}", json.dumps({**manifest, "metadata": noted}))[0] == 201
