"""State of a watch: turns messages and snapshots into events. Pure."""

from typing import Any, Protocol, TypeVar

from protocols.messages.devices import AllocatedMemory, Device, PodAllocation
from protocols.podresources.convert import allocatable, machine, memory, merged, pod
from protocols.podresources.types import Action, AllocatableEvent, PodEvent
from protocols.wire import podresources_v1_pb2 as v1

BOOKMARK = v1.ListAndWatchPodResourcesResponse.BOOKMARK
"""The same number in both methods."""
Name = tuple[str, str]
E = TypeVar("E")


class WatchState(Protocol[E]):
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
    """Pods by name: List has no uids, and a name belongs to one pod at a time."""

    def __init__(self) -> None:
        self._pods: dict[Name, PodAllocation] = {}

    def apply(self, message: v1.ListAndWatchPodResourcesResponse) -> "list[PodEvent]":
        events = []
        for shown in message.pod_resources:
            new = pod(shown, message.uid)
            old = self._pods.get((new.namespace, new.name))
            if Action(message.action) is Action.DELETED:
                if old is not None and old.uid in (new.uid, ""):
                    del self._pods[new.namespace, new.name]
                    events.append(PodEvent(Action.DELETED, new))
            elif old != new:
                self._pods[new.namespace, new.name] = new
                events.append(PodEvent(Action.ADDED if old is None else Action.UPDATED, new))
        return events

    def replace(self, messages: "list[v1.ListAndWatchPodResourcesResponse]") -> "list[PodEvent]":
        return self._difference([pod(shown, message.uid) for message in messages for shown in message.pod_resources])

    def whole(self, reply: v1.ListPodResourcesResponse) -> "list[PodEvent]":
        known = self._pods
        uids = {name: old.uid for name, old in known.items()}
        return self._difference(
            [pod(shown, uids.get((shown.namespace, shown.name), "")) for shown in reply.pod_resources]
        )

    def _difference(self, pods: "list[PodAllocation]") -> "list[PodEvent]":
        old, new = self._pods, {(item.namespace, item.name): item for item in pods}
        gone = [name for name, was in old.items() if name not in new or new[name].uid != was.uid]
        events = [PodEvent(Action.DELETED, _bare(old[name])) for name in gone]
        kept = old.keys() - set(gone)
        events += [PodEvent(Action.UPDATED, new[name]) for name in new if name in kept and new[name] != old[name]]
        events += [PodEvent(Action.ADDED, item) for name, item in new.items() if name not in kept]
        self._pods = new
        return events


def _bare(was: PodAllocation) -> PodAllocation:
    return PodAllocation(was.uid, was.namespace, was.name)


class AllocatableState:
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
        return [each for each in events if each.devices or each.cpus or each.memory]


def _key(device: Device) -> str:
    return f"{device.resource} {device.id}"


def _place(block: AllocatedMemory) -> tuple[str, tuple[int, ...]]:
    return block.type, block.numa
