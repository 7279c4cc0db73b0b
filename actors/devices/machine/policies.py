"""What pods hold under a policy that is no longer in force, and that nobody guards any more, is theirs no longer."""

import time

import msgspec

from actors.devices.ledger.state import State
from actors.devices.types import PodRecord
from protocols.alignment import Alignment
from protocols.messages.devices import ContainerAllocation, first_mark


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
