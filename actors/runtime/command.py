"""From a container's configuration to what its shim runs. Pure but for the user database."""

import base64
import os
import pwd
import socket
from typing import Any

from actors.runtime import mounting
from actors.runtime.durations import parse_duration
from actors.runtime.errors import InvalidRequest
from actors.runtime.status import image_name
from actors.runtime.types import Container, Hollow
from protocols.wire import cri_pb2 as pb

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

HOLLOW = "nodeplane.dev/hollow"
HOLLOW_DURATION = "nodeplane.dev/hollow-duration"
HOLLOW_EXIT_CODE = "nodeplane.dev/hollow-exit-code"


def hollow_script(config: pb.ContainerConfig, pod: pb.PodSandboxConfig) -> Hollow | None:
    """The script of a simulated container, None for a real one. A container's annotation goes before its pod's."""
    annotations = {**pod.annotations, **config.annotations}
    wanted = annotations.get(HOLLOW)
    if wanted != "true" and not (wanted is None and image_name(config.image).startswith("hollow/")):
        return None
    duration = annotations.get(HOLLOW_DURATION, "")
    return Hollow(parse_duration(duration) if duration else 0, _exit_code(annotations.get(HOLLOW_EXIT_CODE, "0")))


def _exit_code(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 255):
        raise InvalidRequest(f"annotation {HOLLOW_EXIT_CODE}: {text!r} is not an exit code from 0 to 255")
    return int(text)


def is_pause(image: str) -> bool:
    name = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return name in ("pause", "pause-amd64", "pause-arm64")


def check(config: pb.ContainerConfig, pod: pb.PodSandboxConfig) -> Hollow | None:
    """Refuse what could never start; answers the hollow script if there is one. Raises InvalidRequest."""
    if not config.metadata.name:
        raise InvalidRequest("config.metadata.name is required")
    if not config.image.image:
        raise InvalidRequest("config.image.image is required")
    script = hollow_script(config, pod)
    if script is None and not config.command and not config.args and not is_pause(image_name(config.image)):
        raise InvalidRequest(
            f'image "{image_name(config.image)}" brings no command here, since the embedded runtime runs no images: '
            "give the container a `command`, or use an image named hollow/NAME for a simulated one"
        )
    context = config.linux.security_context
    if context.HasField("run_as_group") and not context.HasField("run_as_user") and not context.run_as_username:
        raise InvalidRequest("run_as_group needs run_as_user or run_as_username")
    return script


def spec(container: Container) -> dict[str, Any]:
    """What the shim reads: the fields of actors.runtime.shim.child.Spec. Raises InvalidRequest."""
    config, pod = container.config, container.sandbox.config
    uid, gid = _user(config.linux.security_context)
    environment = {key.encode(): value for key, value in _defaults(config, pod).items()}
    environment |= mounting.variables(config.mounts)
    environment |= {pair.key.encode(): pair.value for pair in config.envs}
    return {
        "argv": [*config.command, *config.args],
        "env": [[_text(name), _text(value)] for name, value in environment.items()],
        "cwd": config.working_dir or "/",
        "log": container.log_path,
        "tty": config.tty,
        "stdin": config.stdin,
        "stdin_once": config.stdin_once,
        "uid": uid,
        "gid": gid,
        "groups": list(config.linux.security_context.supplemental_groups),
        "no_new_privs": config.linux.security_context.no_new_privs,
        "mounts": mounting.places(config.mounts),
    }


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _defaults(config: pb.ContainerConfig, pod: pb.PodSandboxConfig) -> dict[str, bytes]:
    hostname = pod.hostname or pod.metadata.name or socket.gethostname()
    home = os.environ.get("HOME", "/")
    values = {"PATH": DEFAULT_PATH, "HOSTNAME": hostname, "HOME": home, "TERM": "xterm"}
    return {key: value.encode() for key, value in values.items()}


def _user(context: pb.LinuxContainerSecurityContext) -> tuple[int, int]:
    """User and group to become; (-1, -1) keeps the runtime's own."""
    if context.run_as_username:
        try:
            entry = pwd.getpwnam(context.run_as_username)
        except KeyError:
            raise InvalidRequest(f'user "{context.run_as_username}" does not exist on this host') from None
        uid, gid = entry.pw_uid, entry.pw_gid
    elif context.HasField("run_as_user"):
        uid, gid = context.run_as_user.value, _group_of(context.run_as_user.value)
    else:
        return -1, -1
    if context.HasField("run_as_group"):
        gid = context.run_as_group.value
    if os.geteuid() != 0 and uid != os.geteuid():
        raise InvalidRequest(f"run_as_user {uid} needs nodeplane to run as root")
    return uid, gid


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return 0
