"""What a pod asks for that is not done here: said in an event, for nobody should believe it done. Pure.

Containers of the embedded runtime are processes of the host, on the host's network.
"""

from collections.abc import Iterator

from actors.podworker.containers.security import effective, sysctls
from actors.podworker.types import ContainerSpec, Object, PodSpec

REASON = "NotEnforced"


def shortfalls(spec: PodSpec, embedded: bool, root: bool) -> str:
    """`root`: the plane runs as root. One line; empty: all is done."""
    found = [*_of_any(spec)]
    if embedded:
        found += _of_pod(spec)
        found += [part for container in spec.containers for part in _of_container(spec, container, root)]
    return f"not enforced on this node: {', '.join(dict.fromkeys(found))}" if found else ""


def _of_any(spec: PodSpec) -> Iterator[str]:
    """Pods have no cgroup of their own, whatever the runtime."""
    pod = spec.raw.get("spec") or {}
    if (pod.get("resources") or {}).get("limits") and len(spec.apps) > 1:
        yield "limits of the pod as a whole (each container is held to them for itself)"
    if pod.get("hostUsers") is False:
        yield "hostUsers: false"


def _of_pod(spec: PodSpec) -> Iterator[str]:
    if sysctls(spec):
        yield "sysctls"


def _of_container(spec: PodSpec, container: ContainerSpec, root: bool) -> Iterator[str]:
    merged = effective(spec, container)
    name = container.name
    for field in ("seccompProfile", "appArmorProfile"):
        kind = (merged.get(field) or {}).get("type")
        if kind and kind != "Unconfined":
            yield f"{field} {kind} of container {name}"
    if merged.get("seLinuxOptions"):
        yield f"seLinuxOptions of container {name}"
    if not root:
        yield from (f"{what} of container {name} (it needs root)" for what in _of_root(merged))
    yield from (f"hostPort {port} of container {name} (it listens on {own})" for port, own in _moved(container))


def _of_root(merged: Object) -> Iterator[str]:
    if merged.get("readOnlyRootFilesystem"):
        yield "readOnlyRootFilesystem"
    for side in ("add", "drop"):
        if (merged.get("capabilities") or {}).get(side):
            yield f"capabilities.{side}"
    if merged.get("privileged"):
        yield "privileged"


def _moved(container: ContainerSpec) -> Iterator[tuple[int, int]]:
    for port in container.raw.get("ports") or ():
        if port.get("hostPort") and port["hostPort"] != port.get("containerPort"):
            yield int(port["hostPort"]), int(port.get("containerPort") or 0)
