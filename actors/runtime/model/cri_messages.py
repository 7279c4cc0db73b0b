"""CRI messages that describe sandboxes and containers. Pure."""

import hashlib

from actors.runtime.model.containers import Container, ContainerState, Sandbox
from actors.runtime.model.pods import sandbox_state
from protocols.wire import cri_pb2 as pb

POD_IP = "127.0.0.1"
"""Pods share the host's network. Clients recreate a pod without an address, since they take it for broken."""


CONTAINER_STATES = {
    ContainerState.CREATED: pb.CONTAINER_CREATED,
    ContainerState.RUNNING: pb.CONTAINER_RUNNING,
    ContainerState.EXITED: pb.CONTAINER_EXITED,
}


def image_name(image: pb.ImageSpec) -> str:
    """Return the name as the user wrote it; `image` itself is an id once the caller has resolved it."""
    return image.user_specified_image or image.image


def image_id(name: str) -> str:
    """Return a synthetic image id: `sha256:` and the digest of the name."""
    return "sha256:" + hashlib.sha256(name.partition("@")[0].encode()).hexdigest()


def image_ref(name: str) -> str:
    """Return NAME@DIGEST, which callers may use as the image of a container."""
    return f"{name.partition('@')[0]}@{image_id(name)}"


def _id(container: Container) -> str:
    return container.image.id if container.image else image_id(image_name(container.config.image))


def _ref(container: Container) -> str:
    return container.image.id if container.image else image_ref(image_name(container.config.image))


def host_network(config: pb.PodSandboxConfig) -> bool:
    """Return True if the sandbox asks for the host's network, which it gets either way."""
    return bool(config.linux.security_context.namespace_options.network == pb.NODE)


def sandbox_status(sandbox: Sandbox) -> pb.PodSandboxStatus:
    """Return a sandbox as PodSandboxStatus; one that is stopped has no address."""
    config, record = sandbox.config, sandbox.record
    address = "" if host_network(config) or record.stopped_at else POD_IP
    options = config.linux.security_context.namespace_options
    return pb.PodSandboxStatus(
        id=record.id,
        metadata=config.metadata,
        state=sandbox_state(sandbox),
        created_at=record.created_at,
        network=pb.PodSandboxNetworkStatus(ip=address),
        linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=record.handler,
    )


def sandbox_item(sandbox: Sandbox) -> pb.PodSandbox:
    """Return a sandbox as an entry of ListPodSandbox."""
    config, record = sandbox.config, sandbox.record
    return pb.PodSandbox(
        id=record.id,
        metadata=config.metadata,
        state=sandbox_state(sandbox),
        created_at=record.created_at,
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=record.handler,
    )


def container_status(container: Container) -> pb.ContainerStatus:
    """Return a container as ContainerStatus; it has a reason only once it has exited."""
    config, life = container.config, container.life
    exited = life.state is ContainerState.EXITED
    return pb.ContainerStatus(
        id=container.id,
        metadata=config.metadata,
        state=CONTAINER_STATES[life.state],
        created_at=life.created_at,
        started_at=life.started_at,
        finished_at=life.finished_at,
        exit_code=life.exit_code,
        image=pb.ImageSpec(image=image_name(config.image), annotations=config.image.annotations),
        image_ref=_ref(container),
        image_id=_id(container),
        reason=life.reason if exited else "",
        message=life.message,
        labels=config.labels,
        annotations=config.annotations,
        mounts=config.mounts,
        log_path=container.log_path,
        resources=pb.ContainerResources(linux=config.linux.resources),
        user=_user(container.record.user),
        stop_signal=config.stop_signal,
    )


def _user(ids: tuple[int, ...]) -> pb.ContainerUser | None:
    if not ids:
        return None
    uid, gid, *groups = ids
    return pb.ContainerUser(linux=pb.LinuxContainerUser(uid=uid, gid=gid, supplemental_groups=groups))


def container_item(container: Container) -> pb.Container:
    """Return a container as an entry of ListContainers."""
    config = container.config
    return pb.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox.id,
        metadata=config.metadata,
        image=pb.ImageSpec(image=image_name(config.image), annotations=config.image.annotations),
        image_ref=_ref(container),
        image_id=_id(container),
        state=CONTAINER_STATES[container.life.state],
        created_at=container.life.created_at,
        labels=config.labels,
        annotations=config.annotations,
    )


def container_statuses(sandbox: Sandbox) -> list[pb.ContainerStatus]:
    """Return the statuses of all containers of the sandbox in order of creation."""
    ordered = sorted(sandbox.containers.values(), key=lambda container: container.life.created_at)
    return [container_status(container) for container in ordered]
