"""Read an API server's objects by the words of `kubectl get`: tests poll, and a kubectl costs 80 ms of a processor."""

import json
from typing import Any
from urllib.parse import quote

from tests.support.api_judge import Client
from tests.support.apiserver_plane import Plane

KINDS = {
    "cm": "/api/v1/namespaces/{0}/configmaps",
    "events": "/api/v1/namespaces/{0}/events",
    "namespace": "/api/v1/namespaces",
    "node": "/api/v1/nodes",
    "pod": "/api/v1/namespaces/{0}/pods",
    "pods": "/api/v1/namespaces/{0}/pods",
    "resourceclaims": "/apis/resource.k8s.io/v1/namespaces/{0}/resourceclaims",
    "sa": "/api/v1/namespaces/{0}/serviceaccounts",
}
SELECTOR = "--field-selector="


def get(plane: Plane, *words: str) -> Any:
    """Return the object or list, None where there is none. What KINDS does not name, kubectl reads."""
    kind, *rest = [word for word in words if word != "-n"]
    namespace = "default"
    if "-n" in words:
        namespace = words[words.index("-n") + 1]
        kind, *rest = [word for word in (kind, *rest) if word != namespace]
    if kind not in KINDS or len(rest) > 1:
        text = plane.kubectl("get", *words, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text else None
    return _read(plane, KINDS[kind].format(namespace), *rest)


def _read(plane: Plane, path: str, word: str = "") -> Any:
    if word.startswith(SELECTOR):
        path += f"?fieldSelector={quote(word.removeprefix(SELECTOR))}"
    elif word:
        path += f"/{word}"
    client = Client(plane.port, plane.tls())
    try:
        answer = client.ask("GET", path)
    finally:
        client.close()
    assert answer.status in (200, 404), f"{path}: {answer}\n{plane.logs()}"
    return answer.json if answer.status == 200 else None
