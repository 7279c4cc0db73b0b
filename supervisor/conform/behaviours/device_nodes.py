"""Device nodes of the answer to Allocate exist, with paths and permissions that a runtime takes."""

import os
import stat
from collections.abc import Iterator

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.conform.cdi import is_device
from supervisor.conform.peer import PluginPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = (
    "Both paths of a device are absolute, the host's is a device node, or a directory of some, and permissions are one"
    " or more of r, w and m."
)
SOURCE = f"{API}; containerd pkg/oci/utils_unix.go"
ADVICE = "Use the path in the host's /dev, and permissions such as rw; an empty text is none of them."


async def check(plugin: PluginPeer) -> None:
    """Look at the answers for single devices, and at that for all."""
    nodes = [node for answer in await plugin.all_answers() for node in answer.devices]
    if not nodes:
        raise NotApplicable("the answer has no device nodes")
    if faults := [fault for node in nodes for fault in _faults_of(node)]:
        raise Failed(several(faults))


def _faults_of(node: pb.DeviceSpec) -> Iterator[str]:
    for path in (node.container_path, node.host_path):
        if not os.path.isabs(path):
            yield f"the path {path!r} is not absolute"
    if os.path.isabs(node.host_path):
        yield from _host_faults(node.host_path)
    if not node.permissions or set(node.permissions) - set("rwm"):
        yield f"the permissions of {node.host_path} are {node.permissions!r}"


def _host_faults(path: str) -> Iterator[str]:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        yield f"{path} does not exist"
    else:
        if not is_device(mode) and not stat.S_ISDIR(mode):
            yield f"{path} is no device node"
