"""PodSandboxConfig for RunPodSandbox, and the runtime handler of the pod's RuntimeClass."""

import re
from pathlib import Path

from actors.podworker.model.dependencies import ObjectReader
from actors.podworker.model.errors import RuntimeClassUnknown
from actors.podworker.pods.containers.names import dns_config, hostname
from actors.podworker.pods.containers.security import sandbox_security, sysctls
from actors.podworker.pods.volumes.paths import pod_log_directory
from protocols.kinds import views
from protocols.lifecycle.pods.resources import GUARANTEED, linux_resources, pod_resources, qos_class
from protocols.lifecycle.pods.types import PodSpec
from protocols.wire import cri_pb2

POD_NAME, POD_NAMESPACE, POD_UID = "io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid"
_PROTOCOLS = {"TCP": cri_pb2.TCP, "UDP": cri_pb2.UDP, "SCTP": cri_pb2.SCTP}
KIND = "RuntimeClass"
_STRANGE = re.compile(r"[^A-Za-z0-9_.:-]")
"""Characters that only uids of manifests have."""


def pod_labels(spec: PodSpec) -> dict[str, str]:
    """Return the labels by which a sandbox or container names its pod."""
    return {POD_NAME: spec.name, POD_NAMESPACE: spec.namespace, POD_UID: spec.uid}


def sandbox_config(
    spec: PodSpec, attempt: int, logs: Path, resolv: str = "", embedded: bool = False
) -> "cri_pb2.PodSandboxConfig":
    """Return the PodSandboxConfig. Raises HostnameTooLong.

    `resolv`: the node's resolv.conf, if the pod extends it. `embedded`: the runtime makes the pod's cgroup itself.
    """
    pod = spec.raw.get("spec") or {}
    metadata = spec.raw.get("metadata") or {}
    return cri_pb2.PodSandboxConfig(
        metadata=cri_pb2.PodSandboxMetadata(name=spec.name, uid=spec.uid, namespace=spec.namespace, attempt=attempt),
        hostname=hostname(spec),
        log_directory=str(pod_log_directory(logs, spec)),
        dns_config=dns_config(spec, resolv),
        port_mappings=[_port(p) for c in spec.apps for p in c.raw.get("ports") or () if p.get("hostPort")],
        labels={**(metadata.get("labels") or {}), **pod_labels(spec)},
        annotations={"kubernetes.io/config.source": "api", **(metadata.get("annotations") or {})},
        linux=cri_pb2.LinuxPodSandboxConfig(
            security_context=sandbox_security(spec),
            sysctls=sysctls(spec),
            overhead=_overhead(spec),
            cgroup_parent=cgroup_parent(spec.uid, pod) if embedded else "",
            resources=_resources(pod),
        ),
    )


def cgroup_parent(uid: str, spec: views.PodSpec) -> str:
    """Return the path of a pod's cgroup in kubelet's layout: `/kubepods/burstable/podUID`."""
    quality = qos_class(spec)
    folder = "" if quality == GUARANTEED else f"/{quality.lower()}"
    return f"/kubepods{folder}/pod{_STRANGE.sub('_', uid)[:128]}"


def _resources(spec: views.PodSpec) -> "cri_pb2.LinuxContainerResources":
    """Return the resources of the whole pod; `unified` has those it sets itself, for its cgroup. No limit if 0."""
    resources = linux_resources(pod_resources(spec))
    own = spec.get("resources") or {}
    limits, requests = own.get("limits") or {}, own.get("requests") or {}
    if "cpu" in limits and resources.cpu_quota:
        resources.unified["cpu.max"] = f"{resources.cpu_quota} {resources.cpu_period}"
    if "memory" in limits and resources.memory_limit_in_bytes:
        resources.unified["memory.max"] = str(resources.memory_limit_in_bytes)
    if "cpu" in requests:
        resources.unified["cpu.weight"] = str(1 + (resources.cpu_shares - 2) * 9999 // 262142)
    return resources


def _overhead(spec: PodSpec) -> "cri_pb2.LinuxContainerResources | None":
    overhead = (spec.raw.get("spec") or {}).get("overhead")
    return linux_resources({"requests": overhead, "limits": overhead}) if overhead else None


def _port(port: views.ContainerPort) -> "cri_pb2.PortMapping":
    return cri_pb2.PortMapping(
        protocol=_PROTOCOLS.get(port.get("protocol") or "TCP", cri_pb2.TCP),
        container_port=port.get("containerPort") or 0,
        host_port=port["hostPort"],
        host_ip=port.get("hostIP") or "",
    )


async def runtime_handler(objects: ObjectReader, spec: PodSpec) -> str:
    """Return the handler of the pod's RuntimeClass, empty for the default.

    Raises RuntimeClassUnknown; NodeplaneError when the API does not answer.
    """
    name = str((spec.raw.get("spec") or {}).get("runtimeClassName") or "")
    if not name:
        return ""
    runtime_class = await objects.read(KIND, "", name)
    if runtime_class is None:
        raise RuntimeClassUnknown(f'RuntimeClass "{name}" not found')
    return str(runtime_class.get("handler") or "")
