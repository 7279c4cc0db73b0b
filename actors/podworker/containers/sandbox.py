"""PodSandboxConfig: what RunPodSandbox gets. Pure."""

from pathlib import Path

from actors.podworker.containers.names import dns_config, hostname
from actors.podworker.types import Object, PodSpec
from protocols.wire import cri_pb2

POD_NAME, POD_NAMESPACE, POD_UID = "io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid"
_PROTOCOLS = {"TCP": cri_pb2.TCP, "UDP": cri_pb2.UDP, "SCTP": cri_pb2.SCTP}


def pod_log_directory(base: Path, spec: PodSpec) -> Path:
    return base / f"{spec.namespace}_{spec.name}_{spec.uid}"


def pod_labels(spec: PodSpec) -> dict[str, str]:
    return {POD_NAME: spec.name, POD_NAMESPACE: spec.namespace, POD_UID: spec.uid}


def sandbox_config(spec: PodSpec, attempt: int, logs: Path, resolv: str = "") -> "cri_pb2.PodSandboxConfig":
    """`resolv`: what the node's /etc/resolv.conf says, if the pod adds to it."""
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
            security_context=cri_pb2.LinuxSandboxSecurityContext(namespace_options=namespaces(spec)),
        ),
    )


def namespaces(spec: PodSpec) -> "cri_pb2.NamespaceOption":
    pod = spec.raw.get("spec") or {}
    shared = cri_pb2.POD if pod.get("shareProcessNamespace") else cri_pb2.CONTAINER
    return cri_pb2.NamespaceOption(
        network=cri_pb2.NODE if spec.host_network else cri_pb2.POD,
        pid=cri_pb2.NODE if pod.get("hostPID") else shared,
        ipc=cri_pb2.NODE if pod.get("hostIPC") else cri_pb2.POD,
    )


def _port(port: Object) -> "cri_pb2.PortMapping":
    return cri_pb2.PortMapping(
        protocol=_PROTOCOLS.get(port.get("protocol") or "TCP", cri_pb2.TCP),
        container_port=port.get("containerPort") or 0,
        host_port=port["hostPort"],
        host_ip=port.get("hostIP") or "",
    )
