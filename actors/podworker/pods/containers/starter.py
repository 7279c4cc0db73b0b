"""Start one container: image, configuration, CreateContainer, StartContainer, with upstream's events."""

import asyncio
import logging
import os
import time
from pathlib import Path

import msgspec

from actors.podworker.logs import files
from actors.podworker.model.dependencies import Dependencies
from actors.podworker.model.errors import ContainerConfigInvalid, HookFailed, ImageMissing, ReferenceUnreadable
from actors.podworker.pods.containers.config import ConfigInputs, container_config, wants_recursive
from actors.podworker.pods.containers.images import PULL_FAULTS, Images
from actors.podworker.pods.containers.killer import Killer
from actors.podworker.pods.containers.names import RESOLV, needs_resolv, read, write_hosts
from actors.podworker.pods.containers.sandbox import runtime_handler, sandbox_config
from actors.podworker.pods.containers.security import ImageUser
from actors.podworker.pods.containers.termination_messages import make_message_file
from actors.podworker.pods.environment.env_files import file_refs
from actors.podworker.pods.environment.references import env_refs, fetch
from actors.podworker.pods.environment.services import service_variables
from actors.podworker.pods.environment.variables import needs_pod_ip
from actors.podworker.pods.probes.handlers import POST_START, POST_START_S, hook_failure, hook_of, run_hook
from actors.podworker.pods.volumes import sub_path
from actors.podworker.pods.volumes.env_files import read_env_files
from actors.podworker.pods.volumes.paths import VolumePaths, pod_log_directory
from protocols.bus import BusError, DeadlineExceeded, FailedPrecondition, Unavailable
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.lifecycle.pods.resources import extended_resources
from protocols.lifecycle.pods.types import ContainerSpec, Kill, PodSpec, Start, StartFailure, Waiting
from protocols.messages.devices import ContainerGrant
from protocols.trace import span
from protocols.wire import cri_pb2

CONFIG_ERROR, CREATE_ERROR, RUN_ERROR = "CreateContainerConfigError", "CreateContainerError", "RunContainerError"
POST_START_ERROR = "PostStartHookError"
log = logging.getLogger("podworker")


class Failure(msgspec.Struct, frozen=True):
    """Reason why a container did not start. `started`: StartContainer itself failed on container `id`."""

    waiting: Waiting
    id: str = ""
    started: StartFailure | None = None
    soon: bool = False
    """The fault is likely to pass by itself."""
    hook: bool = False
    """Container `id` started, and is ended since its postStart hook failed."""


class SandboxRef(msgspec.Struct, frozen=True):
    """The sandbox in which a container starts; `ips` is empty on the host's network."""

    sandbox_id: str
    attempt: int
    ips: tuple[str, ...] = ()


class StartRequest(msgspec.Struct, frozen=True):
    """A container to start, as a plan wants it."""

    spec: PodSpec
    container: ContainerSpec
    step: Start
    sandbox: SandboxRef
    grant: ContainerGrant | None = None


class Starter:
    """Starts containers of one pod."""

    def __init__(self, deps: Dependencies, killer: Killer) -> None:
        self._deps = deps
        self._killer = killer
        self._images = Images(deps)

    async def start(self, request: StartRequest) -> Failure | None:
        """Start one container; None if it runs.

        Raises BusError only when the outcome is unknown: the caller observes the runtime before it retries.
        """
        spec, container, existing = request.spec, request.container, request.step.existing
        try:
            if existing:
                await self._pre_start(spec, container)
                return await self._run(request, existing)
            container_id = await self._create(request)
        except ContainerConfigInvalid as error:
            soon = isinstance(error, ReferenceUnreadable)
            return self._failed(spec, container, Waiting(CONFIG_ERROR, str(error)), soon)
        except ImageMissing as error:
            self._deps.recorder.pod(spec, "Warning", "Failed", f"Error: {error.reason}", container)
            return Failure(Waiting(error.reason, str(error)), soon=error.reason in PULL_FAULTS)
        except BusError as error:
            return self._failed(spec, container, Waiting(CREATE_ERROR, _sure(error)))
        self._deps.recorder.pod(spec, "Normal", "Created", "Container created", container)
        return await self._run(request, container_id)

    async def _create(self, request: StartRequest) -> str:
        spec, container, node_info = request.spec, request.container, self._deps.node_info
        attempt = request.sandbox.attempt
        sandbox = sandbox_config(spec, attempt, node_info.logs, node_resolv(spec), node_info.embedded)
        with span(spec.uid, "image", container=container.name, image=container.image):
            volumes = await self._images.volumes(spec, container, sandbox)
            image = await self._images.ensure(spec, container, sandbox)
        node = self._deps.node_fields(await self._ips(request))
        inputs = ConfigInputs(
            spec=spec,
            container=container,
            attempt=request.step.attempt,
            node=node,
            root=node_info.root,
            target=request.step.target,
            image_ref=image.id,
            user=None if node_info.embedded else ImageUser(image.uid, image.username),
            grant=request.grant or ContainerGrant({}),
            shared=self._deps.devices.shared(),
            found=await fetch(self._deps.objects, spec.namespace, env_refs(container), binary=False),
            files=await asyncio.to_thread(read_env_files, spec, container, node_info.root)
            if file_refs(container)
            else {},
            services=service_variables(spec, self._deps.services(), node_info.api),
            own_ips=() if self._on_node(spec) else node.pod_ips,
            images=volumes,
            recursive=await self._recursive(spec, container),
            mounted=node_info.root_user or not node_info.embedded,
            page_sizes=node_info.page_sizes,
            oom_group=node_info.oom_group,
        )
        config = container_config(inputs)
        await asyncio.to_thread(self._directories, inputs, config)
        await self._pre_start(spec, container)
        with span(spec.uid, "create container", container=container.name, attempt=request.step.attempt):
            return await self._deps.runtime.create_container(request.sandbox.sandbox_id, config, sandbox)

    async def _recursive(self, spec: PodSpec, container: ContainerSpec) -> bool:
        """Return True if the pod's runtime can make read-only mounts recursive; not asked unless a mount wants it."""
        if not any(wants_recursive(mount) for mount in container.raw.get("volumeMounts") or ()):
            return False
        try:
            handler = await runtime_handler(self._deps.objects, spec)
        except BusError:
            raise
        except NodeplaneError as error:
            raise ReferenceUnreadable(str(error)) from None
        return await self._deps.runtime.recursive_read_only(handler)

    async def _run(self, request: StartRequest, container_id: str) -> Failure | None:
        spec, container = request.spec, request.container
        try:
            with span(spec.uid, "start container", container=container.name, id=container_id):
                await self._deps.runtime.start_container(container_id)
        except BusError as error:
            message = _sure(error)
            self._failed(spec, container, Waiting(RUN_ERROR, message))
            return Failure(Waiting(RUN_ERROR, message), container_id, StartFailure(time.time_ns(), message))
        self._deps.recorder.pod(spec, "Normal", "Started", "Container started", container)
        if hook := hook_of(container, POST_START):
            return await self._post_start(request, container_id, hook)
        return None

    async def _post_start(
        self, request: StartRequest, container_id: str, hook: views.LifecycleHandler
    ) -> Failure | None:
        """Run the postStart hook. As upstream, later containers wait for it, and its failure ends the container."""
        spec, container, sandbox = request.spec, request.container, request.sandbox
        try:
            ips = sandbox.ips or await self._deps.runtime.sandbox_ips(sandbox.sandbox_id)
            ip = ips[0] if ips else self._deps.node_info.host_ip
            with span(spec.uid, "postStart hook", container=container.name):
                await run_hook(self._deps, spec, container, hook, container_id, ip, POST_START_S)
        except (HookFailed, BusError) as error:
            log.warning("postStart hook failed pod=%s/%s container=%s error=%s", *_named(spec, container), error)
            self._deps.recorder.pod(spec, "Warning", "FailedPostStartHook", "PostStartHook failed", container)
            self._killer.stop(spec, Kill(container_id, container.name, "FailedPostStartHook"), spec.grace)
            return Failure(
                Waiting(POST_START_ERROR, hook_failure(spec, container, hook, error)), container_id, hook=True
            )
        return None

    async def _pre_start(self, spec: PodSpec, container: ContainerSpec) -> None:
        """Raises ContainerConfigInvalid if a device plugin cannot prepare the container's devices."""
        if not (asked := extended_resources(container)):
            return
        try:
            await self._deps.devices.pre_start(spec.uid, container.name, tuple(sorted(asked)))
        except FailedPrecondition as error:
            raise ContainerConfigInvalid(str(error)) from None

    async def _ips(self, request: StartRequest) -> tuple[str, ...]:
        """Return the pod's IPs; empty if they are unknown and not needed."""
        sandbox = request.sandbox
        if sandbox.ips or (self._on_node(request.spec) and not needs_pod_ip(request.container)):
            return sandbox.ips
        return await self._deps.runtime.sandbox_ips(sandbox.sandbox_id)

    def _on_node(self, spec: PodSpec) -> bool:
        return spec.host_network or self._deps.node_info.embedded

    def _directories(self, inputs: ConfigInputs, config: "cri_pb2.ContainerConfig") -> None:
        """Create log directory, hosts file, message file and subPath mounts. Raises ContainerConfigInvalid."""
        spec, node_info = inputs.spec, self._deps.node_info
        log_file: Path = pod_log_directory(node_info.logs, spec) / config.log_path
        log_file.parent.mkdir(parents=True, exist_ok=True)
        files.remove(log_file.with_name(f"{inputs.attempt - 3}.log"))  # no request can select that run any more
        write_hosts(node_info.root, spec, inputs.own_ips, inputs.mounted)
        make_message_file(node_info.root, spec.uid, inputs.container.name, inputs.attempt)
        self._bind_sub_paths(inputs, config)

    def _bind_sub_paths(self, inputs: ConfigInputs, config: "cri_pb2.ContainerConfig") -> None:
        """Replace each subPath's host path by a bind mount of it. Raises ContainerConfigInvalid."""
        spec, root, given = inputs.spec, self._deps.node_info.root, inputs.container.raw.get("volumeMounts") or ()
        volumes, mounts = VolumePaths(spec, root), config.mounts[len(inputs.grant.mounts) :]
        for number, (asked, mount) in enumerate(zip(given, mounts, strict=False)):
            name = str(asked.get("name") or "")
            if (asked.get("subPath") or asked.get("subPathExpr")) and not volumes.is_image(name):
                volume = volumes.path(name)
                bind_request = sub_path.SubPath(
                    volume=volume,
                    part=os.path.relpath(mount.host_path, volume),
                    place=sub_path.place_of(root, spec.uid, name, inputs.container.name, number),
                    writable=not volumes.is_written(name),
                    shared=mount.propagation == cri_pb2.PROPAGATION_BIDIRECTIONAL,
                )
                mount.host_path = str(sub_path.bind(bind_request))

    def _failed(self, spec: PodSpec, container: ContainerSpec, waiting: Waiting, soon: bool = False) -> Failure:
        self._deps.recorder.pod(spec, "Warning", "Failed", f"Error: {waiting.message}", container)
        return Failure(waiting, soon=soon)


def _named(spec: PodSpec, container: ContainerSpec) -> tuple[str, str, str]:
    return spec.namespace, spec.name, container.name


def node_resolv(spec: PodSpec) -> str:
    """Return the node's resolv.conf if the pod extends it, else nothing."""
    return read(RESOLV) if needs_resolv(spec) else ""


def _sure(error: BusError) -> str:
    """Return the message of a call that surely failed; raise again when it may have succeeded."""
    if isinstance(error, (Unavailable, DeadlineExceeded)):
        raise error
    return str(error)
