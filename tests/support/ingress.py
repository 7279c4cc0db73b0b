"""traefik as somebody would run it on this API: its resource definitions, one service behind one route, its process."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.apiserver_plane import Plane
from tests.support.ports import free_port

PROGRAM = Path(sys.executable).parent / "traefik"
GROUP, VERSION = "traefik.io", "v1alpha1"
KINDS = [
    "IngressRoute",
    "IngressRouteTCP",
    "IngressRouteUDP",
    "Middleware",
    "MiddlewareTCP",
    "ServersTransport",
    "ServersTransportTCP",
    "TLSOption",
    "TLSStore",
    "TraefikService",
]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
ROUTES = f"/apis/{GROUP}/{VERSION}/namespaces/default/ingressroutes"
INFORMERS = len(KINDS) + 5
"""Beside its own kinds it follows services, endpoint slices, secrets, config maps and nodes."""


def definition(kind: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": VERSION, "served": True, "storage": True, "schema": schema}
    spec = {"group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}


SERVICE = {"metadata": {"name": "web"}, "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 80}]}}
ROUTE = {
    "apiVersion": f"{GROUP}/{VERSION}",
    "kind": "IngressRoute",
    "metadata": {"name": "web"},
    "spec": {"routes": [{"kind": "Rule", "match": "Host(`a.example`)", "services": [{"name": "web", "port": 80}]}]},
}


def endpoints(name: str, address: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }


class Traefik:
    def __init__(self, log: Path) -> None:
        self.log = log
        self.port = free_port()

    def servers(self) -> set[str]:
        """The addresses it sends requests for the route to."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/http/services", timeout=20) as answer:
            found = [each.get("loadBalancer", {}).get("servers", []) for each in json.load(answer)]
        return {server["url"].split("/")[2].partition(":")[0] for servers in found for server in servers}


@contextmanager
def traefik(plane: Plane) -> Iterator[Traefik]:
    running = Traefik(plane.root / "traefik.log")
    provider = "--providers.kubernetescrd"
    flags = [f"{provider}=true", f"{provider}.endpoint={plane.url}", f"{provider}.throttleduration=50ms"]
    flags += ["--api.insecure=true", f"--entrypoints.traefik.address=127.0.0.1:{running.port}"]
    flags += ["--entrypoints.web.address=127.0.0.1:0", "--global.checknewversion=false", "--log.level=ERROR"]
    environment = {**plane.environment, "KUBECONFIG": str(plane.root / "kubeconfig")}
    with running.log.open("w") as out:
        process = subprocess.Popen([str(PROGRAM), *flags], env=environment, stdout=out, stderr=out)
        try:
            yield running
            assert process.poll() is None, running.log.read_text()[-2000:]
        finally:
            process.kill()
            process.wait(30)
