"""Probes of a container, with the API's defaults. Pure."""

from actors.podworker.probes.types import FIELDS, Probe, Target
from actors.podworker.types import INIT, ContainerSpec, Object, PodSpec

HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


def probes_of(container: ContainerSpec) -> tuple[Probe, ...]:
    """Plain init containers have none."""
    if container.kind == INIT:
        return ()
    found = ((kind, container.raw.get(field)) for kind, field in FIELDS.items())
    return tuple(_probe(kind, raw) for kind, raw in found if raw and any(raw.get(h) for h in HANDLERS))


def probed(spec: PodSpec) -> bool:
    return any(container.raw.get(field) for container in spec.containers for field in FIELDS.values())


def target(container: ContainerSpec, container_id: str, ip: str) -> Target:
    ports = {p["name"]: int(p.get("containerPort") or 0) for p in container.raw.get("ports") or () if p.get("name")}
    return Target(container_id, ip, ports)


def _probe(kind: str, raw: Object) -> Probe:
    return Probe(
        kind=kind,
        handler={key: raw[key] for key in HANDLERS if raw.get(key)},
        initial_delay=float(raw.get("initialDelaySeconds") or 0),
        period=max(1.0, float(raw.get("periodSeconds") or 10)),
        timeout=max(1.0, float(raw.get("timeoutSeconds") or 1)),
        success=int(raw.get("successThreshold") or 1),
        failure=int(raw.get("failureThreshold") or 3),
        grace=int(raw.get("terminationGracePeriodSeconds") or 0),
    )
