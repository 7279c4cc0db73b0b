"""Serve kubelet's pages about this node: /pods, /runningpods, /configz and /healthz."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from actors.podworker.endpoint.errors import NotSynced, StreamTargetMissing
from actors.podworker.endpoint.healthz import NodeHealth
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.messages.pleg import PodStatus
from protocols.process.settings import Settings

JSON = "application/json"


class PodPages:
    """/pods and /runningpods."""

    def __init__(
        self, pods: Mapping[str, views.Pod], statuses: Callable[[], Iterable[PodStatus]], complete: Callable[[], bool]
    ) -> None:
        self._pods = pods
        self._statuses = statuses
        self._complete = complete

    async def pods(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        """Return the pods that are bound to this node, as the API has them."""
        self._check(path, "pods")
        pods = list(self._pods.values())
        return await _send_list(
            request, ({key: value for key, value in pod.items() if key not in TYPE} for pod in pods)
        )

    async def running(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        """Return the pods that have a ready sandbox or a running container, as the runtime has them."""
        self._check(path, "runningpods/")
        return await _send_list(request, running_pods(self._statuses()))

    def _check(self, path: list[str], page: str) -> None:
        if any(path):
            raise StreamTargetMissing(f"the node has one page of that kind, /{page}")
        if not self._complete():
            raise NotSynced("the node has just started and does not know its pods yet")


TYPE = ("apiVersion", "kind")


async def _send_list(request: web.BaseRequest, pods: Iterable[Mapping[str, Any]]) -> web.StreamResponse:
    """Send a PodList, encoded pod by pod: each may have a megabyte."""
    response = web.StreamResponse(headers={"Content-Type": JSON})
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[')
    for number, pod in enumerate(pods):
        await response.write((b"," if number else b"") + msgspec.json.encode(pod))
        await asyncio.sleep(0)
    await response.write_eof(b"]}\n")
    return response


def running_pods(statuses: Iterable[PodStatus]) -> list[Object]:
    """Return the pods that the runtime has, by names and images only, as kubelet shows them."""
    pods = []
    for status in statuses:
        running = [run for run in status.containers if run.state == "running"]
        if running or any(sandbox.ready for sandbox in status.sandboxes):
            containers = [{"name": run.name, "image": run.image, "resources": {}} for run in running]
            metadata = {"name": status.name, "namespace": status.namespace, "uid": status.uid}
            pods.append({"metadata": metadata, "spec": {"containers": containers}, "status": {}})
    return pods


class ConfigPage:
    """/configz."""

    def __init__(self, settings: Settings, port: Callable[[], int]) -> None:
        self._settings = settings
        self._port = port

    async def serve(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        return _json({"kubeletconfig": kubelet_configuration(self._settings, self._port())})


def kubelet_configuration(settings: Settings, port: int) -> dict[str, Any]:
    """Return the effective settings as a KubeletConfiguration. Fields that this node has no use for are missing."""
    layout, alignment = settings.layout, settings.alignment
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "enableServer": True,
        "staticPodPath": str(layout.kubelet / "manifests"),
        "syncFrequency": "1m0s",
        "fileCheckFrequency": "20s",
        "address": settings.node_ip or "127.0.0.1",
        "port": port,
        "tlsCertFile": str(layout.client_cert("node-serving")[0]),
        "tlsPrivateKeyFile": str(layout.client_cert("node-serving")[1]),
        "authentication": {
            "x509": {"clientCAFile": str(layout.ca_cert)},
            "webhook": {"enabled": True, "cacheTTL": "2m0s"},
            "anonymous": {"enabled": False},
        },
        "authorization": {
            "mode": "Webhook",
            "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
        },
        "healthzPort": settings.healthz_port,
        "healthzBindAddress": "127.0.0.1",
        "nodeStatusUpdateFrequency": "10s",
        "nodeStatusReportFrequency": "5m0s",
        "nodeLeaseDurationSeconds": 40,
        "cpuManagerPolicy": alignment.cpuManagerPolicy,
        "cpuManagerPolicyOptions": alignment.cpuManagerPolicyOptions,
        "memoryManagerPolicy": alignment.memoryManagerPolicy,
        "topologyManagerPolicy": alignment.topologyManagerPolicy,
        "topologyManagerScope": alignment.topologyManagerScope,
        "topologyManagerPolicyOptions": alignment.topologyManagerPolicyOptions,
        "reservedSystemCPUs": alignment.reservedSystemCPUs,
        "kubeReserved": alignment.kubeReserved,
        "systemReserved": alignment.systemReserved,
        "reservedMemory": [
            {"numaNode": int(node), "limits": limits} for node, limits in sorted(alignment.reservedMemory.items())
        ],
        "allowedUnsafeSysctls": list(settings.allowed_unsafe_sysctls),
        "maxPods": settings.max_pods,
        "containerLogMaxSize": str(settings.container_log_max_size),
        "containerLogMaxFiles": settings.container_log_max_files,
        "containerRuntimeEndpoint": settings.runtime_endpoint,
        "featureGates": settings.feature_gates,
        "registerNode": True,
    }


class HealthPage:
    """/healthz and the pages of single checks below it."""

    def __init__(self, health: NodeHealth) -> None:
        self._health = health

    async def serve(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        status, text = await self._health.answer(path, "verbose" in request.query)
        return web.Response(text=text, status=status)


def _json(body: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type=JSON)
