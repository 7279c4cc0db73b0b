"""Device nodes of the answer to Allocate exist, with paths and permissions that a runtime takes."""

import os
from collections.abc import Iterator

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.conform.peer import PluginPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "Both paths of a device are absolute, the host's exists, and permissions are one or more of r, w and m."
SOURCE = API
ADVICE = "Use the path in the host's /dev, and permissions such as rw; an empty text is none of them."


async def check(plugin: PluginPeer) -> None:
    """Look at the answers for single devices."""
    nodes = [node for answer in await plugin.answers() for node in answer.devices]
    if not nodes:
        raise NotApplicable("the answer has no device nodes")
    if faults := [fault for node in nodes for fault in faults_of(node)]:
        raise Failed(several(faults))


def faults_of(node: pb.DeviceSpec) -> Iterator[str]:
    for path in (node.container_path, node.host_path):
        if not os.path.isabs(path):
            yield f"the path {path!r} is not absolute"
    if os.path.isabs(node.host_path) and not os.path.exists(node.host_path):
        yield f"{node.host_path} does not exist"
    if not node.permissions or set(node.permissions) - set("rwm"):
        yield f"the permissions of {node.host_path} are {node.permissions!r}"
