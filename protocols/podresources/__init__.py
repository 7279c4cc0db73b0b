"""A client of pod resources with the watch: of nodeplane, of `nodeplane adopt`, or of any server of the document.

    async with PodResources("/var/lib/nodeplane/pod-resources/kubelet.sock") as node:
        async for event in node.watch():
            print(event.action.name, event.pod.namespace, event.pod.name, event.pod.containers)

`watch` begins with a snapshot, resumes after every break, and yields each change once. `BlockingPodResources` is
the same without async. docs/how-to/watch-pod-resources.md.
"""

from protocols.podresources.blocking import BlockingPodResources
from protocols.podresources.client import PodResources
from protocols.podresources.types import (
    Action,
    AllocatableEvent,
    NotAnswering,
    PodEvent,
    WatchOptions,
    WatchRefused,
    WatchUnsupported,
)

__all__ = [
    "Action",
    "AllocatableEvent",
    "BlockingPodResources",
    "NotAnswering",
    "PodEvent",
    "PodResources",
    "WatchOptions",
    "WatchRefused",
    "WatchUnsupported",
]
