"""Security contexts of sandboxes and containers, and what the embedded runtime does not enforce of them. Pure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec
from protocols.node.sysctls import normalized
from protocols.wire import cri_pb2

MASKED = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
INHERITED = ("runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions", "seccompProfile", "appArmorProfile")
"""Fields that a container inherits from its pod."""
_PROFILES = {
    "RuntimeDefault": cri_pb2.SecurityProfile.RuntimeDefault,
    "Localhost": cri_pb2.SecurityProfile.Localhost,
}
REASON = "NotEnforced"


class ImageUser(msgspec.Struct, frozen=True):
    """Default user of an image: `uid` if it is a number, else a name whose number is not known."""

    uid: int = 0
    username: str = ""


def effective(spec: PodSpec, container: ContainerSpec) -> Object:
    """Return the container's security context merged over that of its pod."""
    pod, own = pod_context(spec), container.raw.get("securityContext") or {}
    inherited = {field: value for field, value in pod.items() if field in INHERITED and value is not None}
    return inherited | {field: value for field, value in own.items() if value is not None}


def pod_context(spec: PodSpec) -> views.PodSecurityContext:
    """Return the security context of the pod, empty without one."""
    return (spec.raw.get("spec") or {}).get("securityContext") or {}


def container_security(
    spec: PodSpec, container: ContainerSpec, profiles: Path, user: ImageUser | None = None
) -> "cri_pb2.LinuxContainerSecurityContext":
    """Return the container's security context for the runtime.

    `profiles`: directory of seccomp profiles. `user`: the image's default, if the runtime does not resolve it itself.
    """
    merged = effective(spec, container)
    unmasked = merged.get("procMount") == "Unmasked"
    context = cri_pb2.LinuxContainerSecurityContext(
        namespace_options=namespaces(spec),
        privileged=bool(merged.get("privileged")),
        readonly_rootfs=bool(merged.get("readOnlyRootFilesystem")),
        no_new_privs=merged.get("allowPrivilegeEscalation") is False,
        supplemental_groups=groups(spec),
        supplemental_groups_policy=_policy(spec),
        capabilities=_capabilities(merged.get("capabilities") or {}),
        masked_paths=() if unmasked else MASKED,
        readonly_paths=() if unmasked else READ_ONLY,
        seccomp=_seccomp(merged.get("seccompProfile"), profiles),
        apparmor=_apparmor(merged.get("appArmorProfile")),
        selinux_options=_selinux(merged.get("seLinuxOptions")),
    )
    _run_as(context, merged)
    if user is not None and merged.get("runAsUser") is None:
        if user.username:
            context.run_as_username = user.username
        else:
            context.run_as_user.value = user.uid
    return context


def sandbox_security(spec: PodSpec) -> "cri_pb2.LinuxSandboxSecurityContext":
    """Return the sandbox's security context. It runs no user code: the runtime's seccomp profile suffices."""
    pod = pod_context(spec)
    context = cri_pb2.LinuxSandboxSecurityContext(
        namespace_options=namespaces(spec),
        privileged=any((c.raw.get("securityContext") or {}).get("privileged") for c in spec.containers),
        supplemental_groups=groups(spec),
        supplemental_groups_policy=_policy(spec),
        seccomp=cri_pb2.SecurityProfile(profile_type=cri_pb2.SecurityProfile.RuntimeDefault),
        selinux_options=_selinux(pod.get("seLinuxOptions")),
    )
    _run_as(context, pod)
    return context


def sysctls(spec: PodSpec) -> dict[str, str]:
    """Return the pod's sysctls, with dots as separators of their names."""
    return {normalized(str(s.get("name"))): str(s.get("value") or "") for s in pod_context(spec).get("sysctls") or ()}


def namespaces(spec: PodSpec) -> "cri_pb2.NamespaceOption":
    """Return the namespaces of the pod's sandbox."""
    pod = spec.raw.get("spec") or {}
    shared = cri_pb2.POD if pod.get("shareProcessNamespace") else cri_pb2.CONTAINER
    return cri_pb2.NamespaceOption(
        network=cri_pb2.NODE if spec.host_network else cri_pb2.POD,
        pid=cri_pb2.NODE if pod.get("hostPID") else shared,
        ipc=cri_pb2.NODE if pod.get("hostIPC") else cri_pb2.POD,
    )


def groups(spec: PodSpec) -> list[int]:
    """Return the supplemental groups, fsGroup first as upstream."""
    context = pod_context(spec)
    group = context.get("fsGroup")
    own = [int(g) for g in context.get("supplementalGroups") or ()]
    return own if group is None else [int(group), *own]


def _run_as(
    context: "cri_pb2.LinuxContainerSecurityContext | cri_pb2.LinuxSandboxSecurityContext", fields: Mapping[str, Any]
) -> None:
    if fields.get("runAsUser") is not None:
        context.run_as_user.value = int(fields["runAsUser"])
    if fields.get("runAsGroup") is not None:
        context.run_as_group.value = int(fields["runAsGroup"])


def _policy(spec: PodSpec) -> "cri_pb2.SupplementalGroupsPolicy":
    strict = pod_context(spec).get("supplementalGroupsPolicy") == "Strict"
    return cri_pb2.Strict if strict else cri_pb2.Merge


def _seccomp(profile: views.SeccompProfile | None, profiles: Path) -> "cri_pb2.SecurityProfile":
    """Return the seccomp profile; Unconfined without one, as kubelet's default."""
    kind = _PROFILES.get(str((profile or {}).get("type")), cri_pb2.SecurityProfile.Unconfined)
    named = kind == cri_pb2.SecurityProfile.Localhost
    return cri_pb2.SecurityProfile(
        profile_type=kind, localhost_ref=str(profiles / str((profile or {}).get("localhostProfile"))) if named else ""
    )


def _apparmor(profile: views.AppArmorProfile | None) -> "cri_pb2.SecurityProfile | None":
    if not profile:
        return None
    return cri_pb2.SecurityProfile(
        profile_type=_PROFILES.get(str(profile.get("type")), cri_pb2.SecurityProfile.Unconfined),
        localhost_ref=str(profile.get("localhostProfile") or ""),
    )


def _selinux(options: views.SELinuxOptions | None) -> "cri_pb2.SELinuxOption | None":
    if not options:
        return None
    return cri_pb2.SELinuxOption(**{part: str(options.get(part) or "") for part in ("user", "role", "type", "level")})


def _capabilities(fields: views.Capabilities) -> "cri_pb2.Capability":
    return cri_pb2.Capability(add_capabilities=fields.get("add") or (), drop_capabilities=fields.get("drop") or ())


def unenforced(spec: PodSpec, embedded: bool, root: bool) -> str:
    """Return one line that lists what this node does not enforce; empty if there is nothing.

    `root`: this process runs as root.
    """
    settings = [*_of_any(spec, grouped=embedded and root)]
    if embedded:
        settings += _of_pod(spec, root)
        settings += [part for container in spec.containers for part in _of_container(spec, container, root)]
    return f"not enforced on this node: {', '.join(dict.fromkeys(settings))}" if settings else ""


def _of_any(spec: PodSpec, grouped: bool) -> Iterator[str]:
    """Yield what no runtime enforces here. `grouped`: the runtime makes cgroups of pods."""
    pod = spec.raw.get("spec") or {}
    if not grouped and (pod.get("resources") or {}).get("limits") and len(spec.apps) > 1:
        yield "limits of the pod as a whole (each container is held to them for itself)"
    if pod.get("hostUsers") is False:
        yield "hostUsers: false"


def _of_pod(spec: PodSpec, root: bool) -> Iterator[str]:
    if sysctls(spec) and not root:
        yield "sysctls (they need root)"


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
