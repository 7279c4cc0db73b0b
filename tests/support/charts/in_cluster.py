"""The API from inside a pod, by the token, certificate and variables that kubelet gives. Standard library only."""

import json
import os
import ssl
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MERGE = "application/merge-patch+json"
DRIVERS = "/apis/resource.k8s.io/v1"


class Api:
    def __init__(self) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        self.namespace = (FOLDER / "namespace").read_text()
        self._url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self._trust = ssl.create_default_context(cafile=str(FOLDER / "ca.crt"))

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> dict[str, Any]:
        """Raises HTTPError, with what the server says as its reason."""
        headers = {"Authorization": f"Bearer {(FOLDER / 'token').read_text()}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10, context=self._trust) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except HTTPError as error:
            raise HTTPError(path, error.code, error.read().decode(errors="replace"), error.headers, None) from None

    def apply(self, collection: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Create the object, or replace what is there."""
        try:
            return self.call("POST", collection, obj)
        except HTTPError as error:
            if error.code != 409:
                raise
        path = f"{collection}/{obj['metadata']['name']}"
        version = self.call("GET", path)["metadata"]["resourceVersion"]
        return self.call("PUT", path, {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}})
