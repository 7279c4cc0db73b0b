"""The state the device manager persists besides kubelet's checkpoint, and its encoding. Pure.

`mark` numbers every change of an allocation. A new state starts from a greater number, taken from the clock, so that
positions of a lost one never repeat.
"""

import time

import msgspec

from actors.devices.model.errors import CheckpointCorrupt
from protocols.lifecycle.devices.types import DeviceKey, PodRecord
from protocols.messages.devices import ContainerAllocation, LedgerEvent, first_mark
from protocols.node.alignment import Alignment
from protocols.process.files import UNREADABLE, SealBroken, seal, unseal

VERSION = 2
OLDEST = 1
"""Version 1 lacks the digests of kubelet's checkpoint."""


class Override(msgspec.Struct, frozen=True):
    """A health that an administrator set, in place of the reported one."""

    resource: str
    """Empty for a DRA device."""
    id: str
    """DRIVER/POOL/DEVICE for a DRA device."""
    health: str


class LedgerState(msgspec.Struct, frozen=True):
    """Everything that survives a restart."""

    version: int = VERSION
    mark: int = 0
    pods: tuple[PodRecord, ...] = ()
    recent: tuple[LedgerEvent, ...] = ()
    """The newest events, so that followers resume after a restart."""
    overrides: tuple[Override, ...] = ()
    resources: tuple[str, ...] = ()
    """Every resource ever registered: the node's capacity keeps their keys."""
    kubelet: str = ""
    """Digest of the kubelet checkpoint written after this; empty = none was."""
    before: str = ""
    """Digest of the kubelet checkpoint before that."""

    def plugin_overrides(self) -> dict[DeviceKey, str]:
        """Return the overrides of plugin devices."""
        return {DeviceKey(item.resource, item.id): item.health for item in self.overrides if item.resource}


def fresh() -> LedgerState:
    """Return an empty state of a new lineage."""
    return LedgerState(mark=first_mark(time.time_ns()))


def encode(state: LedgerState) -> bytes:
    """Return the file, sealed with its checksum."""
    return seal(msgspec.json.encode(state))


def decode(raw: bytes) -> LedgerState:
    """Raises CheckpointCorrupt."""
    try:
        state = msgspec.json.decode(unseal(raw), type=LedgerState)
    except (*UNREADABLE, SealBroken) as error:
        raise CheckpointCorrupt(str(error)) from None
    if not OLDEST <= state.version <= VERSION:
        raise CheckpointCorrupt(f"it has version {state.version}, this program reads {OLDEST} to {VERSION}")
    return msgspec.structs.replace(state, version=VERSION)


def drop_unmanaged(state: LedgerState, settings: Alignment) -> LedgerState:
    """Drop CPUs and memory whose manager is turned off by now: nobody guards them any more.

    If anything is dropped, the state is a new lineage and followers start again.
    """
    if settings.pins_cpus and settings.pins_memory:
        return state
    pods = tuple(_record(record, settings) for record in state.pods)
    if pods == state.pods:
        return state
    return msgspec.structs.replace(state, pods=pods, mark=first_mark(time.time_ns()), recent=())


def _record(record: PodRecord, settings: Alignment) -> PodRecord:
    containers = tuple(_container(item, settings) for item in record.allocation.containers)
    allocation = msgspec.structs.replace(record.allocation, containers=containers)
    return msgspec.structs.replace(record, allocation=allocation)


def _container(item: ContainerAllocation, settings: Alignment) -> ContainerAllocation:
    cpus = item.cpus if settings.pins_cpus else ()
    memory = item.memory if settings.pins_memory else ()
    return msgspec.structs.replace(item, cpus=cpus, memory=memory)
