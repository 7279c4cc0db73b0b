"""From a container configuration to the spec of its shim, or to the script of a simulated container."""

import base64
import os
import re
import socket
from typing import Any

from actors.runtime.cgroups.hierarchy import NONE, Membership
from actors.runtime.images.store import HOLLOW_PREFIX, bringing_nothing
from actors.runtime.model.containers import Container, Hollow, Image
from actors.runtime.model.cri_messages import image_name
from actors.runtime.model.errors import InvalidRequest
from actors.runtime.spec import isolation
from actors.runtime.spec import users as capabilities
from actors.runtime.spec.users import user_of
from protocols.wire import cri_pb2 as pb

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)")
LONGEST_NS = 2**63 - 1


def parse_duration(text: str) -> int:
    """Nanoseconds. Raises InvalidRequest for anything that is not a positive duration."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidRequest(f"{text!r} is not a duration; write it like 1m30s or 250ms")
    total = round(sum(float(number) * _UNITS[unit] for number, unit in parts))
    if not 0 < total <= LONGEST_NS:
        raise InvalidRequest(f"duration {text!r} is out of range")
    return total


DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

HOLLOW = "nodeplane.dev/hollow"
HOLLOW_DURATION = "nodeplane.dev/hollow-duration"
HOLLOW_EXIT_CODE = "nodeplane.dev/hollow-exit-code"
HOLLOW_OOM = "nodeplane.dev/hollow-oom"
HOLLOW_LOG = "nodeplane.dev/hollow-log"


def hollow_script(config: pb.ContainerConfig, pod: pb.PodSandboxConfig) -> Hollow | None:
    """The script of a simulated container, None for a real one. A container's annotation goes before its pod's."""
    annotations = {**pod.annotations, **config.annotations}
    wanted = annotations.get(HOLLOW)
    if wanted != "true" and not (wanted is None and image_name(config.image).startswith(HOLLOW_PREFIX)):
        return None
    duration, starved = annotations.get(HOLLOW_DURATION, ""), annotations.get(HOLLOW_OOM) == "true"
    return Hollow(
        duration_ns=parse_duration(duration) if duration else 0,
        exit_code=_exit_code(annotations.get(HOLLOW_EXIT_CODE, "137" if starved else "0")),
        starved=starved,
        log=tuple(annotations.get(HOLLOW_LOG, "").splitlines()),
    )


def _exit_code(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 255):
        raise InvalidRequest(f"annotation {HOLLOW_EXIT_CODE}: {text!r} is not an exit code from 0 to 255")
    return int(text)


def check(config: pb.ContainerConfig, pod: pb.PodSandboxConfig, image: Image | None = None) -> Hollow | None:
    """Refuse what could never start; answers the hollow script if there is one. Raises InvalidRequest."""
    if not config.metadata.name:
        raise InvalidRequest("config.metadata.name is required")
    if not config.image.image:
        raise InvalidRequest("config.image.image is required")
    script = hollow_script(config, pod)
    if script is None and not arguments(config, image) and (image or not bringing_nothing(image_name(config.image))):
        raise InvalidRequest(
            f'image "{image_name(config.image)}" brings no command here: give the container a `command`, import the '
            "image (nodeplane image import), or use one named hollow/NAME for a simulated container"
        )
    context = config.linux.security_context
    if context.HasField("run_as_group") and not context.HasField("run_as_user") and not context.run_as_username:
        raise InvalidRequest("run_as_group needs run_as_user or run_as_username")
    if script is None:
        isolation.isolation_spec(config, pod, image, "")
        capabilities.dropped(context)
    return script


def arguments(config: pb.ContainerConfig, image: Image | None) -> list[str]:
    """A command of one's own leaves both parts of the image's out, arguments of one's own its second part."""
    if config.command or image is None:
        return [*config.command, *config.args]
    return [*image.config.entrypoint, *(config.args or image.config.command)]


def spec(
    container: Container, image: Image | None = None, membership: Membership = NONE, directory: str = ""
) -> dict[str, Any]:
    """What the shim reads: the fields of actors.runtime.shim.child.Spec. Raises InvalidRequest."""
    config, pod = container.config, container.sandbox.config
    context = config.linux.security_context
    uid, gid, groups = user_of(context, image)
    return {
        "argv": arguments(config, image),
        "env": [[_text(name), _text(value)] for name, value in _environment(config, pod, image).items()],
        "cwd": config.working_dir or (image.config.working_dir if image else "") or "/",
        "log": container.log_path,
        "tty": config.tty,
        "stdin": config.stdin,
        "stdin_once": config.stdin_once,
        "uid": uid,
        "gid": gid,
        "groups": groups,
        "no_new_privs": context.no_new_privs,
        "isolation": isolation.isolation_spec(config, pod, image, directory),
        "cgroups": membership.groups,
        "oom": membership.oom,
        "cpus": membership.cpus,
        "oom_score": config.linux.resources.oom_score_adj,
        "dropped": capabilities.dropped(context) if os.geteuid() == 0 else [],
    }


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _environment(config: pb.ContainerConfig, pod: pb.PodSandboxConfig, image: Image | None) -> dict[bytes, bytes]:
    """The container's own variables over its mounts', the image's, and four defaults."""
    hostname = pod.hostname or pod.metadata.name or socket.gethostname()
    home = "/root" if image else os.environ.get("HOME", "/")
    values = {"PATH": DEFAULT_PATH, "HOSTNAME": hostname, "HOME": home, "TERM": "xterm"}
    found = {key.encode(): value.encode() for key, value in values.items()}
    for pair in image.config.env if image else ():
        name, _, value = pair.partition("=")
        found[os.fsencode(name)] = os.fsencode(value)
    found |= isolation.mount_variables(config.mounts)
    return found | {pair.key.encode(): pair.value for pair in config.envs}
