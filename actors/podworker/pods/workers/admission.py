"""Admission request of a pod to the device manager, and the meaning of its rejection. Pure."""

from actors.podworker.pods.containers.security import pod_context
from protocols.lifecycle.pods.admission import REJECTED
from protocols.lifecycle.pods.types import PodSpec, Waiting
from protocols.node.sysctls import SysctlAllowlist

SYSCTL_FORBIDDEN = "SysctlForbidden"


def forbidden_sysctl(spec: PodSpec, allowed: SysctlAllowlist) -> Waiting | None:
    """Return reason and message of a pod that may not set its sysctls, None if it may."""
    pod = spec.raw.get("spec") or {}
    for item in pod_context(spec).get("sysctls") or ():
        if fault := allowed.fault(str(item.get("name") or ""), spec.host_network, bool(pod.get("hostIPC"))):
            return Waiting(SYSCTL_FORBIDDEN, f"{REJECTED}forbidden sysctl: {fault}")
    return None
