"""A container's environment: literals, downward API fields, `$(NAME)` expansion. Pure."""

from collections.abc import Mapping

import msgspec

from actors.podworker.errors import ContainerConfigInvalid
from actors.podworker.expand import expand
from actors.podworker.types import ContainerSpec, Object, PodSpec


class Node(msgspec.Struct, frozen=True):
    """What the downward API can say of where the pod runs."""

    name: str
    host_ip: str = ""
    pod_ip: str = ""


def build_environment(
    spec: PodSpec, container: ContainerSpec, node: Node, granted: Mapping[str, str]
) -> dict[str, str]:
    """In order: the spec's variables, then what device plugins grant (theirs win)."""
    if container.raw.get("envFrom"):
        raise ContainerConfigInvalid(
            f"container {container.name}: envFrom is not supported yet; list the variables in env"
        )
    variables: dict[str, str] = {}
    for entry in container.raw.get("env") or ():
        variables[entry.get("name", "")] = _value(entry, spec, container, node, variables)
    return {**variables, **granted}


def needs_pod_ip(container: ContainerSpec) -> bool:
    fields = (
        ((e.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "") for e in container.raw.get("env") or ()
    )
    return any(field.startswith("status.podIP") for field in fields)


def _value(entry: Object, spec: PodSpec, container: ContainerSpec, node: Node, known: Mapping[str, str]) -> str:
    source = entry.get("valueFrom")
    if not source:
        return expand(entry.get("value") or "", known)
    if "fieldRef" in source:
        return _field(source["fieldRef"].get("fieldPath", ""), spec, container, node)
    kind = next(iter(source), "valueFrom")
    name = f"container {container.name}: env {entry.get('name', '')}"
    raise ContainerConfigInvalid(f"{name} takes its value from {kind}, which is not supported yet")


def _field(path: str, spec: PodSpec, container: ContainerSpec, node: Node) -> str:
    metadata, pod = spec.raw.get("metadata") or {}, spec.raw.get("spec") or {}
    simple = {
        "metadata.name": spec.name,
        "metadata.namespace": spec.namespace,
        "metadata.uid": spec.uid,
        "spec.nodeName": node.name,
        "spec.serviceAccountName": pod.get("serviceAccountName") or "default",
        "status.hostIP": node.host_ip,
        "status.hostIPs": node.host_ip,
        "status.podIP": node.pod_ip or node.host_ip,
        "status.podIPs": node.pod_ip or node.host_ip,
    }
    if path in simple:
        return simple[path]
    for kind in ("labels", "annotations"):
        prefix = f"metadata.{kind}['"
        if path.startswith(prefix) and path.endswith("']"):
            return str((metadata.get(kind) or {}).get(path[len(prefix) : -2], ""))
    raise ContainerConfigInvalid(f"container {container.name}: field {path!r} is not supported in the downward API")
