"""Read the API of a plane as its kubeconfig says, with the admin's certificate and without a process of kubectl.

Tests poll: a kubectl for each poll takes the processors from the plane that is tested.
"""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

PATHS = {
    "configmap": "/api/v1/namespaces/{namespace}/configmaps",
    "devicetaintrule": "/apis/resource.k8s.io/v1beta2/devicetaintrules",
    "lease": "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
    "node": "/api/v1/nodes",
    "pod": "/api/v1/namespaces/{namespace}/pods",
    "resourceclaim": "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
    "serviceaccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
}
"""Collections by the name that kubectl has for the kind."""


def connect(root: Path, timeout: float = 30.0) -> http.client.HTTPSConnection:
    """Return a connection to the API of the plane below `root`."""
    config = yaml.load((root / "kubeconfig").read_text(), Loader=yaml.CSafeLoader)
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    context = ssl.create_default_context(cafile=str(root / "pki" / "ca.crt"))
    context.load_cert_chain(str(root / "pki" / "admin.crt"), str(root / "pki" / "admin.key"))
    return http.client.HTTPSConnection(server.hostname or "", server.port, timeout=timeout, context=context)


def read(root: Path, path: str) -> bytes:
    """Return the body of a GET, or b"" while nobody serves it."""
    try:
        connection = connect(root)
    except OSError:
        return b""
    try:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            body = answer.read()
        return body if answer.status == 200 else b""
    except (OSError, http.client.HTTPException):
        return b""
    finally:
        connection.close()


def read_object(root: Path, path: str) -> dict[str, Any]:
    """Return the object or list at `path`, or {} while nobody serves it."""
    body = read(root, path)
    return dict(json.loads(body)) if body else {}
