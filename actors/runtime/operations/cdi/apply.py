"""What CDI files ask for becomes part of a container's configuration. Pure."""

from collections.abc import Sequence

from actors.runtime.model.errors import CdiUnusable
from actors.runtime.operations.cdi.files import Found
from actors.runtime.operations.cdi.types import Edits
from protocols.wire import cri_pb2 as pb

BINDS = ("", "bind", "none")


def applied(config: pb.ContainerConfig, found: Sequence[Found], own_root: bool) -> pb.ContainerConfig:
    """A copy with the edits in it; what a file asks for all its devices comes once. Raises CdiUnusable."""
    changed = pb.ContainerConfig()
    changed.CopyFrom(config)
    edits: list[Edits] = []
    for entry in found:
        edits += [entry.common] if entry.common not in edits else []
        edits.append(entry.own)
    for edit in edits:
        if edit.hooks and own_root:
            raise CdiUnusable(
                "CDI device injection failed: its file asks for hooks, which the embedded runtime does not run; use "
                "containerd, or an image of the host's own files, which need none"
            )
        _apply(changed, edit)
    return changed


def _apply(config: pb.ContainerConfig, edit: Edits) -> None:
    for variable in edit.env or ():
        _set(config, *_pair(variable))
    for node in edit.device_nodes or ():
        config.devices.add(container_path=node.path, host_path=node.host_path or node.path, permissions="rwm")
    for mount in edit.mounts or ():
        if mount.type not in BINDS:
            raise CdiUnusable(f'CDI device injection failed: mount of type "{mount.type}" at {mount.container_path}')
        readonly = "ro" in (mount.options or ())
        config.mounts.add(container_path=mount.container_path, host_path=mount.host_path, readonly=readonly)
    config.linux.security_context.supplemental_groups.extend(edit.additional_gids or ())


def _set(config: pb.ContainerConfig, name: str, value: str) -> None:
    """The device's word goes before the container's own."""
    kept = [pair for pair in config.envs if pair.key != name]
    if len(kept) != len(config.envs):
        del config.envs[:]
        config.envs.extend(kept)
    config.envs.add(key=name, value=value.encode())


def _pair(variable: str) -> tuple[str, str]:
    name, sign, value = variable.partition("=")
    if not name or not sign:
        raise CdiUnusable(f'CDI device injection failed: "{variable[:80]}" is no variable')
    return name, value
