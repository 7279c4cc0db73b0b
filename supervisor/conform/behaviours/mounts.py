"""Mounts of the answer to Allocate have absolute paths, and exist on the host."""

import os
from collections.abc import Iterator

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.conform.peer import PluginPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = (
    "container_path and host_path of a mount are absolute; where host_path is missing, containerd and CRI-O mount an"
    " empty directory that they make there, and other runtimes start no container."
)
SOURCE = API
ADVICE = (
    "Name the path as the host sees it, not as the plugin's own container does, and create it before Allocate answers."
)


async def check(plugin: PluginPeer) -> None:
    """Look at the answers for single devices, and at that for all."""
    mounts = [mount for answer in await plugin.all_answers() for mount in answer.mounts]
    if not mounts:
        raise NotApplicable("the answer has no mounts")
    if faults := [fault for mount in mounts for fault in _faults_of(mount)]:
        raise Failed(several(faults))


def _faults_of(mount: pb.Mount) -> Iterator[str]:
    if not os.path.isabs(mount.container_path):
        yield f"container_path {mount.container_path!r} is not absolute"
    if not os.path.isabs(mount.host_path):
        yield f"host_path {mount.host_path!r} is not absolute"
    elif not os.path.exists(mount.host_path):
        yield f"{mount.host_path} does not exist"
