"""What the device manager remembers beyond kubelet's checkpoint, and the text it stands in. Pure.

`mark` numbers every change of an allocation, for ever. A state that begins anew counts from a greater number, taken
from the clock, so positions of the old one are never met again.
"""

import time

import msgspec

from actors.devices.model.errors import CheckpointCorrupt
from actors.devices.model.types import DeviceKey, PodRecord
from protocols.alignment import Alignment
from protocols.messages.devices import ContainerAllocation, LedgerEvent, first_mark
from protocols.sealed import SealBroken, seal, unseal

VERSION = 2
OLDEST = 1
"""Version 1 knew no kubelet checkpoint beside it; the rest is the same."""


class Override(msgspec.Struct, frozen=True):
    resource: str
    """Empty: a driver's device."""
    id: str
    """Of a driver's device, DRIVER/POOL/DEVICE."""
    health: str


class State(msgspec.Struct, frozen=True):
    """Everything that outlives the process."""

    version: int = VERSION
    mark: int = 0
    pods: tuple[PodRecord, ...] = ()
    recent: tuple[LedgerEvent, ...] = ()
    """The newest events, so that nobody who follows them has to start again because of us."""
    overrides: tuple[Override, ...] = ()
    resources: tuple[str, ...] = ()
    """Every resource ever registered: the node's capacity keeps their keys."""
    kubelet: str = ""
    """Digest of kubelet's checkpoint that was written after this; empty = none ever was."""
    before: str = ""
    """Digest of the one that lay there before."""

    def forced(self) -> dict[DeviceKey, str]:
        """On devices of plugins."""
        return {DeviceKey(item.resource, item.id): item.health for item in self.overrides if item.resource}


def fresh() -> State:
    """An empty state with a lineage of its own."""
    return State(mark=first_mark(time.time_ns()))


def encode(state: State) -> bytes:
    return seal(msgspec.json.encode(state))


def decode(raw: bytes) -> State:
    """The inverse of encode; raises CheckpointCorrupt."""
    try:
        state = msgspec.json.decode(unseal(raw), type=State)
    except (msgspec.DecodeError, SealBroken) as error:
        raise CheckpointCorrupt(str(error)) from None
    if not OLDEST <= state.version <= VERSION:
        raise CheckpointCorrupt(f"it has version {state.version}, this program reads {OLDEST} to {VERSION}")
    return msgspec.structs.replace(state, version=VERSION)


def in_force(state: State, settings: Alignment) -> State:
    """A lineage of its own when something was dropped: whoever follows the allocations starts again."""
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
