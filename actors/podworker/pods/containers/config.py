"""ContainerConfig for CreateContainer, with its mounts. Pure."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid
from actors.podworker.pods.containers.names import PLACE, has_hosts, hosts_file
from actors.podworker.pods.containers.sandbox import pod_labels
from actors.podworker.pods.containers.security import ImageUser, container_security
from actors.podworker.pods.containers.termination_messages import message_file, message_path
from actors.podworker.pods.environment.env_files import Files
from actors.podworker.pods.environment.references import Found
from actors.podworker.pods.environment.variables import ExpansionBudget, build_environment, expand
from actors.podworker.pods.volumes.paths import VolumePaths, sub_path
from protocols.kinds import views
from protocols.lifecycle.pods.resources import (
    EXCLUSIVE_QUOTA,
    container_resources,
    hugepage_limits,
    linux_resources,
    oom_score,
)
from protocols.lifecycle.pods.stop_signals import signal_number
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec
from protocols.messages.devices import DEVICES_ANNOTATION, ContainerGrant, GrantedMount
from protocols.wire import cri_pb2

_PROPAGATION = {
    "HostToContainer": cri_pb2.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri_pb2.PROPAGATION_BIDIRECTIONAL,
}
DISABLED = "Disabled"
PREFIX = "io.kubernetes.container."
SECCOMP = "kubelet/seccomp"
"""Directory of Localhost seccomp profiles, below the root."""


class MountInputs(msgspec.Struct, frozen=True):
    """Facts about a container's mounts that its pod's spec does not have."""

    granted: tuple[GrantedMount, ...] = ()
    variables: Mapping[str, str] = {}
    hosts: bool = False
    """The pod has its own /etc/hosts."""
    images: Mapping[str, str] = {}
    """Image in the runtime by volume."""
    recursive: bool = False
    """The runtime can make mounts below a read-only one read-only."""


def container_mounts(
    spec: PodSpec, container: ContainerSpec, root: Path, attempt: int, inputs: MountInputs
) -> "list[cri_pb2.Mount]":
    """Return the container's mounts. Raises ContainerConfigInvalid.

    Those of its devices are first, as kubelet has them: of two at one path the later covers the earlier.
    """
    volumes = VolumePaths(spec, root)
    mounts = [_mount(m, volumes, inputs) for m in container.raw.get("volumeMounts") or ()]
    extra = [
        cri_pb2.Mount(container_path=g.container_path, host_path=g.host_path, readonly=g.read_only)
        for g in inputs.granted
    ]
    mounts = extra + mounts
    taken = {m.container_path for m in mounts}
    named = _hosts(spec, root, taken) if inputs.hosts else []
    return mounts + named + _message_mounts(spec, container, root, attempt, taken)


def _hosts(spec: PodSpec, root: Path, taken: set[str]) -> "list[cri_pb2.Mount]":
    if PLACE in taken:
        return []
    return [cri_pb2.Mount(container_path=PLACE, host_path=str(hosts_file(root, spec.uid)))]


def _message_mounts(
    spec: PodSpec, container: ContainerSpec, root: Path, attempt: int, taken: set[str]
) -> "list[cri_pb2.Mount]":
    """Mount the termination message file, unless something else is mounted there."""
    path = message_path(container)
    if not path.startswith("/") or path in taken:
        return []
    return [cri_pb2.Mount(container_path=path, host_path=str(message_file(root, spec.uid, container.name, attempt)))]


def _mount(mount: views.VolumeMount, volumes: VolumePaths, inputs: MountInputs) -> "cri_pb2.Mount":
    name = str(mount.get("name") or "")
    if volumes.is_image(name):
        return _image_mount(mount, inputs)
    recursive = _is_recursive(mount, inputs.recursive)
    return cri_pb2.Mount(
        container_path=_absolute(mount),
        host_path=str(volumes.path(name) / sub_path(mount, inputs.variables)),
        readonly=bool(mount.get("readOnly")) or volumes.is_written(name),
        propagation=_PROPAGATION.get(mount.get("mountPropagation") or "", cri_pb2.PROPAGATION_PRIVATE),
        recursive_read_only=recursive,
    )


def _image_mount(mount: views.VolumeMount, inputs: MountInputs) -> "cri_pb2.Mount":
    image = inputs.images.get(str(mount.get("name") or ""), "")
    return cri_pb2.Mount(
        container_path=_absolute(mount),
        image=cri_pb2.ImageSpec(image=image),
        image_sub_path=sub_path(mount, inputs.variables),
        readonly=True,
        recursive_read_only=_is_recursive(mount, inputs.recursive),
    )


def _absolute(mount: views.VolumeMount) -> str:
    """Return the path of a mount; the API takes relative ones, which begin at the root."""
    return "/" + mount.get("mountPath", "").removeprefix("/")


def wants_recursive(mount: views.VolumeMount) -> bool:
    """Return True for a mount that is to be read-only with all mounts below it."""
    return (mount.get("recursiveReadOnly") or DISABLED) != DISABLED


def _is_recursive(mount: views.VolumeMount, supported: bool) -> bool:
    """Resolve recursiveReadOnly, with upstream's messages. Raises ContainerConfigInvalid."""
    if not wants_recursive(mount):
        return False
    text = f'volume "{mount.get("name") or ""}" requested recursive read-only mode, but it is not'
    if not mount.get("readOnly"):
        raise ContainerConfigInvalid(f"{text} read-only")
    if (mount.get("mountPropagation") or "None") != "None":
        raise ContainerConfigInvalid(f'{text} compatible with propagation "{mount["mountPropagation"]}"')
    if mount["recursiveReadOnly"] == "Enabled" and not supported:
        raise ContainerConfigInvalid(f"{text} supported by the runtime")
    return supported


class ConfigInputs(msgspec.Struct, frozen=True):
    """Inputs of a ContainerConfig."""

    spec: PodSpec
    container: ContainerSpec
    attempt: int
    node: NodeFields
    root: Path
    image_ref: str = ""
    """Identifier of the image in the runtime; empty = the name in the spec."""
    grant: ContainerGrant = ContainerGrant({})
    shared: str = ""
    """CPU list of containers without exclusive CPUs; empty if nothing is pinned."""
    found: Found = {}
    """ConfigMaps and Secrets that the environment refers to."""
    files: Files = {}
    """Env files that the environment refers to."""
    services: dict[str, str] = {}
    own_ips: tuple[str, ...] = ()
    """The pod's IPs on a network of its own; empty on the node's network."""
    images: dict[str, str] = {}
    """Images of its volumes in the runtime, by the volume's name."""
    recursive: bool = False
    """The runtime can make mounts below a read-only one read-only."""
    mounted: bool = False
    """The runtime mounts files at their paths, so that every pod gets a hosts file."""
    target: str = ""
    """Id of the container whose PID namespace it joins."""
    user: ImageUser | None = None
    """Default user of the image; None where the runtime resolves it itself."""
    page_sizes: tuple[int, ...] = ()
    oom_group: bool = False
    """As in NodeInfo."""


def container_config(inputs: ConfigInputs) -> "cri_pb2.ContainerConfig":
    """Return the ContainerConfig. Raises ContainerConfigInvalid for its environment or mounts."""
    container, grant = inputs.container, inputs.grant
    raw = container.raw
    variables = build_environment(
        inputs.spec, container, inputs.node, grant.envs, inputs.found, inputs.services, inputs.files
    )
    words = ExpansionBudget()
    return cri_pb2.ContainerConfig(
        metadata=cri_pb2.ContainerMetadata(name=container.name, attempt=inputs.attempt),
        image=cri_pb2.ImageSpec(image=inputs.image_ref or container.image, user_specified_image=container.image),
        command=[expand(part, variables, words) for part in raw.get("command") or ()],
        args=[expand(part, variables, words) for part in raw.get("args") or ()],
        working_dir=raw.get("workingDir") or "",
        envs=[
            cri_pb2.KeyValue(key=key, value=value.encode(errors="surrogateescape")) for key, value in variables.items()
        ],
        mounts=_mounts(inputs, variables),
        devices=[_device(d.container_path, d.host_path, d.permissions) for d in grant.devices],
        labels={**pod_labels(inputs.spec), PREFIX + "name": container.name},
        annotations={**grant.annotations, **_annotations(inputs), **_held(grant)},
        log_path=log_path(container.name, inputs.attempt),
        stdin=bool(raw.get("stdin")),
        stdin_once=bool(raw.get("stdinOnce")),
        tty=bool(raw.get("tty")),
        linux=_linux(inputs),
        stop_signal=signal_number((raw.get("lifecycle") or {}).get("stopSignal") or ""),
        CDI_devices=[cri_pb2.CDIDevice(name=name) for name in grant.cdi_devices],
    )


def _mounts(inputs: ConfigInputs, variables: dict[str, str]) -> "list[cri_pb2.Mount]":
    hosts = has_hosts(inputs.spec, inputs.own_ips, inputs.mounted)
    more = MountInputs(inputs.grant.mounts, variables, hosts, inputs.images, inputs.recursive)
    return container_mounts(inputs.spec, inputs.container, inputs.root, inputs.attempt, more)


def log_path(container: str, attempt: int) -> str:
    """Return the log path relative to the pod's log directory."""
    return f"{container}/{attempt}.log"


def _annotations(inputs: ConfigInputs) -> dict[str, str]:
    raw, spec = inputs.container.raw, inputs.spec
    annotations = {
        PREFIX + "hash": inputs.container.hash,
        PREFIX + "restartCount": str(inputs.attempt),
        PREFIX + "terminationMessagePath": message_path(inputs.container),
        PREFIX + "terminationMessagePolicy": raw.get("terminationMessagePolicy") or "File",
        "io.kubernetes.pod.terminationGracePeriod": str(spec.grace),
    }
    if raw.get("ports"):
        annotations[PREFIX + "ports"] = json.dumps(raw["ports"], separators=(",", ":"))
    return annotations


def _held(grant: ContainerGrant) -> dict[str, str]:
    return {DEVICES_ANNOTATION: json.dumps(grant.held, separators=(",", ":"))} if grant.held else {}


def _device(container_path: str, host_path: str, permissions: str) -> "cri_pb2.Device":
    return cri_pb2.Device(container_path=container_path, host_path=host_path, permissions=permissions or "mrw")


def _linux(inputs: ConfigInputs) -> "cri_pb2.LinuxContainerConfig":
    spec, raw = inputs.spec, inputs.container.raw
    context = container_security(spec, inputs.container, inputs.root / SECCOMP, inputs.user)
    if inputs.target:
        context.namespace_options.pid = cri_pb2.TARGET
        context.namespace_options.target_id = inputs.target
    resources = linux_resources(container_resources(spec.raw.get("spec") or {}, raw))
    resources.hugepage_limits.extend(hugepage_limits(raw.get("resources") or {}, inputs.page_sizes))
    if inputs.oom_group:
        resources.unified["memory.oom.group"] = "1"
    resources.oom_score_adj = oom_score(spec.raw.get("spec") or {}, raw, inputs.node.memory)
    resources.cpuset_cpus, resources.cpuset_mems = inputs.grant.cpus or inputs.shared, inputs.grant.mems
    if inputs.grant.cpus:
        resources.cpu_quota = EXCLUSIVE_QUOTA
    return cri_pb2.LinuxContainerConfig(resources=resources, security_context=context)
