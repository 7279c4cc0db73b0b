"""Handler of a resource's metadata that passes events on once the quota controller runs."""

from protocols.kube.meta import Object
from protocols.kubeclient.informer import ResourceEventHandler


class Forward:
    """Pass events to `target` while there is one."""

    def __init__(self) -> None:
        self.target: ResourceEventHandler | None = None

    def on_add(self, obj: Object) -> None:
        if self.target is not None:
            self.target.on_add(obj)

    def on_update(self, old: Object, new: Object) -> None:
        if self.target is not None:
            self.target.on_update(old, new)

    def on_delete(self, obj: Object) -> None:
        if self.target is not None:
            self.target.on_delete(obj)
