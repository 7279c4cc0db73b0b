"""State of a watch: turns messages and snapshots into events. Pure."""

from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from protocols.messages.devices import AllocatedMemory, Device, PodAllocation
from protocols.podresources.convert import allocatable, machine, memory, merged, pod
from protocols.podresources.types import Action, AllocatableEvent, PodEvent
from protocols.wire import podresources_v1_pb2 as v1

BOOKMARK = v1.ListAndWatchPodResourcesResponse.BOOKMARK
"""The same number in both methods."""
Name = tuple[str, str]
Identity = tuple[str, str, str]
"""Namespace, name and uid."""
E = TypeVar("E")


class WatchState(Protocol[E]):
    """State of one kind of watch, pods' or allocatable resources'."""

    def apply(self, message: Any) -> list[E]:
        """Return the events of one message of the stream."""
        ...

    def replace(self, messages: list[Any]) -> list[E]:
        """Return the difference to a whole snapshot, deletions first."""
        ...

    def whole(self, reply: Any) -> list[E]:
        """Return the same for the reply of the unary call."""
        ...


class PodState:
    """Pods by name and uid: a forced deletion lets the new pod of a name come before the old one has gone.

    List has no uids: a pod that only List reported has the uid "", until an event or a snapshot of its name brings one.
    """

    def __init__(self) -> None:
        self._pods: dict[Identity, PodAllocation] = {}

    def apply(self, message: v1.ListAndWatchPodResourcesResponse) -> "list[PodEvent]":
        events = []
        for shown in message.pod_resources:
            new = pod(shown, message.uid)
            old = self._pods.get(_identity(new)) or self._pods.get((new.namespace, new.name, ""))
            if Action(message.action) is Action.DELETED:
                if old is not None:
                    del self._pods[_identity(old)]
                    events.append(PodEvent(Action.DELETED, new))
            elif old != new:
                if old is not None:
                    del self._pods[_identity(old)]
                self._pods[_identity(new)] = new
                events.append(PodEvent(Action.ADDED if old is None else Action.UPDATED, new))
        return events

    def replace(self, messages: "list[v1.ListAndWatchPodResourcesResponse]") -> "list[PodEvent]":
        pods = [pod(shown, message.uid) for message in messages for shown in message.pod_resources]
        for item in pods:
            if _identity(item) not in self._pods and (was := self._pods.pop((item.namespace, item.name, ""), None)):
                self._pods[_identity(item)] = was
        return self._difference(pods)

    def whole(self, reply: v1.ListPodResourcesResponse) -> "list[PodEvent]":
        uids: dict[Name, list[str]] = {}
        for namespace, name, uid in self._pods:
            uids.setdefault((namespace, name), []).append(uid)
        listed = [pod(shown, "") for shown in reply.pod_resources]
        unchanged = [self._claim(item, uids) for item in listed]
        return self._difference([known or _with_uid(item, uids) for known, item in zip(unchanged, listed, strict=True)])

    def _claim(self, item: PodAllocation, uids: dict[Name, list[str]]) -> PodAllocation | None:
        """Return the known pod of this name that holds the same, and take its uid from `uids`."""
        of_name = uids.get((item.namespace, item.name), [])
        for uid in of_name:
            if self._pods[item.namespace, item.name, uid] == (named := replace(item, uid=uid)):
                of_name.remove(uid)
                return named
        return None

    def _difference(self, pods: "list[PodAllocation]") -> "list[PodEvent]":
        old, new = self._pods, {_identity(item): item for item in pods}
        events = [PodEvent(Action.DELETED, _bare(was)) for key, was in old.items() if key not in new]
        events += [PodEvent(Action.UPDATED, new[key]) for key in new if key in old and new[key] != old[key]]
        events += [PodEvent(Action.ADDED, item) for key, item in new.items() if key not in old]
        self._pods = new
        return events


def _identity(item: PodAllocation) -> Identity:
    return item.namespace, item.name, item.uid


def _with_uid(item: PodAllocation, uids: dict[Name, list[str]]) -> PodAllocation:
    """Return the pod with the newest uid of its name that no other pod has, if there is one."""
    of_name = uids.get((item.namespace, item.name))
    return replace(item, uid=of_name.pop()) if of_name else item


def _bare(was: PodAllocation) -> PodAllocation:
    return PodAllocation(was.uid, was.namespace, was.name)


class AllocatableState:
    """Allocatable resources as last reported; devices by resource and id, memory by place."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._cpus: set[int] = set()
        self._memory: dict[tuple[str, tuple[int, ...]], AllocatedMemory] = {}

    def apply(self, message: v1.ListAndWatchAllocatableResourcesResponse) -> list[AllocatableEvent]:
        devices = [Device(resource, id, numa) for (resource, id), numa in merged(message.devices).items()]
        blocks, cpus = memory(message.memory), tuple(message.cpu_ids)
        if Action(message.action) is Action.DELETED:
            for device in devices:
                self._devices.pop(_key(device), None)
            self._cpus -= set(cpus)
            self._memory = {key: item for key, item in self._memory.items() if key not in {_place(it) for it in blocks}}
        else:
            self._devices |= {_key(device): device for device in devices}
            self._cpus |= set(cpus)
            self._memory |= {_place(block): block for block in blocks}
        return [AllocatableEvent(Action(message.action), tuple(devices), cpus, blocks)]

    def replace(self, messages: "list[v1.ListAndWatchAllocatableResourcesResponse]") -> list[AllocatableEvent]:
        everything = v1.AllocatableResourcesResponse()
        for message in messages:
            everything.devices.extend(message.devices)
            everything.cpu_ids.extend(message.cpu_ids)
            everything.memory.extend(message.memory)
        return self.whole(everything)

    def whole(self, reply: v1.AllocatableResourcesResponse) -> list[AllocatableEvent]:
        new, cpus = allocatable(reply), set(machine(reply).cpus)
        blocks = {_place(block): block for block in machine(reply).memory}
        events = [
            AllocatableEvent(
                Action.DELETED,
                tuple(device for key, device in self._devices.items() if key not in new),
                tuple(sorted(self._cpus - cpus)),
                tuple(block for place, block in self._memory.items() if place not in blocks),
            ),
            AllocatableEvent(
                Action.ADDED,
                tuple(device for key, device in new.items() if key not in self._devices),
                tuple(sorted(cpus - self._cpus)),
                tuple(block for place, block in blocks.items() if place not in self._memory),
            ),
            AllocatableEvent(
                Action.UPDATED,
                tuple(device for key, device in new.items() if self._devices.get(key, device) != device),
                (),
                tuple(block for place, block in blocks.items() if self._memory.get(place, block) != block),
            ),
        ]
        self._devices, self._cpus, self._memory = new, cpus, blocks
        return [event for event in events if event.devices or event.cpus or event.memory]


def _key(device: Device) -> str:
    return f"{device.resource} {device.id}"


def _place(block: AllocatedMemory) -> tuple[str, tuple[int, ...]]:
    return block.type, block.numa
