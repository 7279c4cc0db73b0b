"""Admission request of a pod to the device manager, and the meaning of its rejection. Pure."""

from collections.abc import Sequence

import msgspec

from protocols.bus import BusError, FailedPrecondition, InvalidArgument
from protocols.kinds import views
from protocols.lifecycle.pods.resources import GUARANTEED, HUGE, extended_resources, has_own, milli, qos_class
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec, Waiting
from protocols.messages.devices import AdmitPod, ContainerRequest
from protocols.messages.pleg import ContainerStatus
from protocols.node.sysctls import SysctlAllowlist

REASON, SYSCTL_FORBIDDEN = "UnexpectedAdmissionError", "SysctlForbidden"
REJECTED = "Pod was rejected: "


def admit_request(spec: PodSpec, live: Sequence[ContainerStatus], present: bool = False) -> AdmitPod:
    """Return the admission request.

    `live`: running containers, newest first, which carry what they were started with. `present`: the pod
    has a live sandbox.
    """
    held = {container.name: _held(container.devices) for container in reversed(live)}
    claimed = claimed_resources(spec)
    return AdmitPod(
        uid=spec.uid,
        namespace=spec.namespace,
        name=spec.name,
        containers=tuple(_request(container, held.get(container.name, {}), claimed) for container in spec.containers),
        guaranteed=_guaranteed(spec.raw.get("spec") or {}),
        running=bool(live),
        present=present,
    )


def _guaranteed(spec: views.PodSpec) -> bool:
    """Return True for exclusive CPUs and memory. Upstream gives none to pods with resources of their own."""
    return qos_class(spec) == GUARANTEED and not has_own(spec)


def claimed_resources(spec: PodSpec) -> set[tuple[str, str]]:
    """Return container and resource of extended resources that a claim provides instead of a device plugin."""
    status = (spec.raw.get("status") or {}).get("extendedResourceClaimStatus") or {}
    mappings = status.get("requestMappings") or ()
    return {(str(item.get("containerName")), str(item.get("resourceName"))) for item in mappings}


def _request(
    container: ContainerSpec, held: dict[str, tuple[str, ...]], claimed: set[tuple[str, str]]
) -> ContainerRequest:
    """Return the request of one container; a limit without a request counts as the request."""
    given = container.raw.get("resources") or {}
    asked = {**(given.get("limits") or {}), **(given.get("requests") or {})}
    memory = {name: milli(size) // 1000 for name, size in asked.items() if name == "memory" or name.startswith(HUGE)}
    return ContainerRequest(
        name=container.name,
        kind=container.kind,
        resources={
            name: count
            for name, count in extended_resources(container).items()
            if (container.name, name) not in claimed
        },
        held=held,
        cpu=milli(asked.get("cpu")),
        memory=memory,
    )


def _held(text: str) -> dict[str, tuple[str, ...]]:
    """Parse the device annotation of a running container; empty if it is missing or malformed."""
    try:
        return msgspec.json.decode(text, type=dict[str, tuple[str, ...]]) if text else {}
    except msgspec.DecodeError:
        return {}


def rejection(error: BusError) -> Waiting | None:
    """Return reason and message of the Failed pod; None when the admission is to be retried."""
    if not isinstance(error, (FailedPrecondition, InvalidArgument)):
        return None
    text = str(error)
    reason = error.details.get("reason") or REASON
    if reason == REASON and not text.startswith("Allocate failed due to"):
        text = f"Allocate failed due to {text}, which is unexpected"
    return Waiting(reason, f"{REJECTED}{text}")


def forbidden_sysctl(spec: PodSpec, allowed: SysctlAllowlist) -> Waiting | None:
    """Return reason and message of a pod that may not set its sysctls, None if it may."""
    pod = spec.raw.get("spec") or {}
    for item in (pod.get("securityContext") or {}).get("sysctls") or ():
        if fault := allowed.fault(str(item.get("name") or ""), spec.host_network, bool(pod.get("hostIPC"))):
            return Waiting(SYSCTL_FORBIDDEN, f"{REJECTED}forbidden sysctl: {fault}")
    return None
