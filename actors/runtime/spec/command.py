"""From a container configuration to the spec of its shim, or to the script of a simulated container."""

import base64
import os
import socket
from typing import Any

import msgspec

from actors.runtime.cgroups.hierarchy import NO_CGROUPS, Membership
from actors.runtime.images.store import HOLLOW_PREFIX, is_virtual
from actors.runtime.model.containers import Container, DeviceNode, Image
from actors.runtime.model.cri_messages import image_name
from actors.runtime.model.errors import InvalidRequest
from actors.runtime.spec import isolation
from actors.runtime.spec import users as capabilities
from actors.runtime.spec.isolation import NOWHERE, Surroundings
from actors.runtime.spec.users import user_of
from protocols.lifecycle.pods.hollow import HollowScript, read_hollow
from protocols.wire import cri_pb2 as pb

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def hollow_script(config: pb.ContainerConfig, pod: pb.PodSandboxConfig) -> HollowScript | None:
    """Return the script of a simulated container, None for a real one. Raises HollowInvalid."""
    simulated = image_name(config.image).startswith(HOLLOW_PREFIX)
    return read_hollow({**pod.annotations, **config.annotations}, simulated=simulated)


def check(
    config: pb.ContainerConfig,
    pod: pb.PodSandboxConfig,
    image: Image | None = None,
    nodes: tuple[DeviceNode, ...] = (),
) -> HollowScript | None:
    """Reject a configuration that could never start; return its script if it is simulated.

    Raises InvalidRequest, HollowInvalid.
    """
    if not config.metadata.name:
        raise InvalidRequest("config.metadata.name is required")
    if not config.image.image:
        raise InvalidRequest("config.image.image is required")
    script = hollow_script(config, pod)
    if script is None and not arguments(config, image) and (image or not is_virtual(image_name(config.image))):
        raise InvalidRequest(
            f'image "{image_name(config.image)}" has no command here: give the container a `command`, import the '
            "image (nodeplane image import), or use one named hollow/NAME for a simulated container"
        )
    context = config.linux.security_context
    if context.HasField("run_as_group") and not context.HasField("run_as_user") and not context.run_as_username:
        raise InvalidRequest("run_as_group needs run_as_user or run_as_username")
    if script is None:
        isolation.isolation_spec(config, pod, image, Surroundings(nodes=nodes))
        capabilities.dropped(context)
    return script


def arguments(config: pb.ContainerConfig, image: Image | None) -> list[str]:
    """Return the argv. A command overrides the image's entrypoint and command, arguments its command alone."""
    if config.command or image is None:
        return [*config.command, *config.args]
    return [*image.config.entrypoint, *(config.args or image.config.command)]


def spec(
    container: Container,
    image: Image | None = None,
    membership: Membership = NO_CGROUPS,
    around: Surroundings = NOWHERE,
) -> dict[str, Any]:
    """Return the content of spec.json, the fields of actors.runtime.shim.child.Spec. Raises InvalidRequest."""
    config, pod = container.config, container.sandbox.config
    context = config.linux.security_context
    uid, gid, groups, home = user_of(context, image)
    return {
        "argv": arguments(config, image),
        "env": [[_base64(name), _base64(value)] for name, value in _environment(container, image, home).items()],
        "cwd": config.working_dir or (image.config.working_dir if image else "") or "/",
        "log": container.log_path,
        "tty": config.tty,
        "stdin": config.stdin,
        "uid": uid,
        "gid": gid,
        "groups": groups,
        "no_new_privs": context.no_new_privs,
        "isolation": isolation.isolation_spec(config, pod, image, _owned(around, max(uid, 0), max(gid, 0))),
        "cgroups": membership.groups,
        "oom": membership.oom,
        "cpus": membership.cpus,
        "oom_score": config.linux.resources.oom_score_adj,
        "dropped": capabilities.dropped(context) if os.geteuid() == 0 else [],
    }


def _owned(around: Surroundings, uid: int, gid: int) -> Surroundings:
    """Give device nodes without an owner to the container's user."""
    nodes = (
        msgspec.structs.replace(n, uid=uid if n.uid < 0 else n.uid, gid=gid if n.gid < 0 else n.gid)
        for n in around.nodes
    )
    return around._replace(nodes=tuple(nodes))


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _environment(container: Container, image: Image | None, home: str) -> dict[bytes, bytes]:
    """Return environment variables; the container's override its mounts', the image's, and four defaults."""
    config, pod = container.config, container.sandbox.config
    hostname = pod.hostname or pod.metadata.name or socket.gethostname()
    home = home or os.environ.get("HOME", "/")
    values = {"PATH": DEFAULT_PATH, "HOSTNAME": hostname, "HOME": home, "TERM": "xterm"}
    variables = {key.encode(): value.encode() for key, value in values.items()}
    for pair in image.config.env if image else ():
        name, _, value = pair.partition("=")
        variables[os.fsencode(name)] = os.fsencode(value)
    variables |= isolation.mount_variables(config.mounts)
    return variables | {pair.key.encode(): pair.value for pair in config.envs}
