"""From a pod object to PodSpec. Pure."""

import hashlib

from actors.podworker.errors import PodInvalid
from actors.podworker.types import ALWAYS, APP, EPHEMERAL, INIT, SIDECAR, ContainerSpec, Object, PodSpec

DEFAULT_GRACE = 30
TERMINAL = ("Succeeded", "Failed")


def read_pod(pod: Object) -> PodSpec:
    """Typed view of an API pod; missing fields get the API's defaults. Raises PodInvalid."""
    try:
        return _read(pod)
    except (AttributeError, TypeError, ValueError) as error:
        raise PodInvalid(f"not a pod that can be run: {error}") from None


def _read(pod: Object) -> PodSpec:
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    return PodSpec(
        uid=metadata.get("uid", ""),
        name=metadata.get("name", ""),
        namespace=metadata.get("namespace", ""),
        restart_policy=spec.get("restartPolicy") or ALWAYS,
        host_network=bool(spec.get("hostNetwork")),
        containers=_containers(spec),
        ephemeral=tuple(_container(c, EPHEMERAL) for c in spec.get("ephemeralContainers") or ()),
        deleting=bool(metadata.get("deletionTimestamp")),
        grace=_grace(metadata, spec),
        terminal=(pod.get("status") or {}).get("phase") in TERMINAL,
        raw=pod,
    )


def container_hash(name: str, image: str) -> str:
    return hashlib.sha256(f"{name}\0{image}".encode()).hexdigest()[:8]


def _containers(spec: Object) -> tuple[ContainerSpec, ...]:
    inits = [
        _container(c, SIDECAR if c.get("restartPolicy") == ALWAYS else INIT) for c in spec.get("initContainers") or ()
    ]
    return (*inits, *(_container(c, APP) for c in spec.get("containers") or ()))


def _container(raw: Object, kind: str) -> ContainerSpec:
    name, image = raw.get("name", ""), raw.get("image", "")
    return ContainerSpec(name=name, image=image, kind=kind, hash=container_hash(name, image), raw=raw)


def _grace(metadata: Object, spec: Object) -> int:
    """Seconds a pod gets to end; never below 1 (a forced deletion asks for 0)."""
    for value in (metadata.get("deletionGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")):
        if value is not None:
            return max(1, int(value))
    return DEFAULT_GRACE


def is_static(pod: Object) -> bool:
    """It comes from a manifest on this node, not from the API."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get("kubernetes.io/config.source") == "file")
