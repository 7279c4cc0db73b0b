"""Values of the downward API: fields of the pod, its node and container resources. Pure."""

from collections.abc import Mapping

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid
from protocols.kinds import views
from protocols.lifecycle.pods.resources import SIDES, Side, container_resources, milli
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec

ESCAPES = {char: f"\\{letter}" for char, letter in zip('\\"\a\b\f\n\r\t\v', '\\"abfnrtv', strict=True)}
"""By character; others that are not printable are written as numbers."""


def field_value(path: str, spec: PodSpec, node: NodeFields) -> str:
    """Return the value of a pod field. Raises ContainerConfigInvalid for an unsupported one."""
    simple = _simple(spec, node)
    if path in simple:
        return simple[path]
    metadata = spec.raw.get("metadata") or {}
    for kind, mapping in (("labels", metadata.get("labels")), ("annotations", metadata.get("annotations"))):
        prefix, entries = f"metadata.{kind}", mapping or {}
        if path == prefix:
            return "\n".join(f"{key}={_quoted(str(entries[key]))}" for key in sorted(entries))
        if path.startswith(f"{prefix}['") and path.endswith("']"):
            return str(entries.get(path[len(prefix) + 2 : -2], ""))
    raise ContainerConfigInvalid(f"field {path!r} is not supported in the downward API")


def _simple(spec: PodSpec, node: NodeFields) -> dict[str, str]:
    pod = spec.raw.get("spec") or {}
    pod_ips = node.pod_ips or (node.host_ip,)
    return {
        "metadata.name": spec.name,
        "metadata.namespace": spec.namespace,
        "metadata.uid": spec.uid,
        "spec.nodeName": node.name,
        "spec.serviceAccountName": pod.get("serviceAccountName") or "default",
        "status.hostIP": node.host_ip,
        "status.hostIPs": node.host_ip,
        "status.podIP": pod_ips[0],
        "status.podIPs": ",".join(pod_ips),
    }


def _quoted(text: str) -> str:
    """Return the text as Go's %q writes it, so that strconv.Unquote reads the file's lines."""
    return (
        '"' + "".join(ESCAPES.get(char) or (char if char.isprintable() else _coded(ord(char))) for char in text) + '"'
    )


def _coded(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def resource_value(
    reference: views.ResourceFieldSelector,
    containers: Mapping[str, ContainerSpec],
    container: ContainerSpec | None,
    pod: views.PodSpec,
    node: NodeFields,
) -> str:
    """Return a limit or request in units of the divisor, rounded up. Raises ContainerConfigInvalid.

    `pod`: its spec, whose own limits apply to containers without any.
    """
    name = reference.get("containerName")
    owner = containers.get(name) if name else container
    if owner is None:
        raise ContainerConfigInvalid(f"resourceFieldRef names container {name!r}, which the pod has not")
    named, _, resource = str(reference.get("resource") or "").partition(".")
    side = next((known for known in SIDES if known == named), None)
    if side is None or not resource:
        raise ContainerConfigInvalid(f"resource {reference.get('resource')!r} is not limits.NAME or requests.NAME")
    divisor = milli(reference.get("divisor")) or 1000
    given = container_resources(pod, owner.raw) if side == "limits" else owner.raw.get("resources") or {}
    amount = _amount(given, side, resource, node)
    return str(-(-amount // divisor))


def _amount(resources: views.ResourceRequirements, side: Side, resource: str, node: NodeFields) -> int:
    """Return thousandths. A missing limit is what the node can allocate, a missing request is 0."""
    kinds: tuple[Side, ...] = (side, "limits")
    for kind in kinds:
        if (quantity := (resources.get(kind) or {}).get(resource)) is not None:
            return milli(quantity)
    machine = {"cpu": node.cpus, "memory": node.memory, "ephemeral-storage": node.storage}
    if side == "requests" or resource not in machine:
        return 0
    given = node.allocatable.get(resource)
    return milli(given) if given is not None else machine[resource] * 1000
