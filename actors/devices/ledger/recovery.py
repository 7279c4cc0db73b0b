"""Which of the two files is believed when the device manager starts. Pure.

Ours is written first, then kubelet's, and ours names the digests of kubelet's that follows it and of the one before. So
a file of kubelet's that is neither was written by somebody else: a kubelet had the node meanwhile, and it knows better
who holds what. A file that cannot be read is replaced by what the other one says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from actors.devices.ledger import kubelet_checkpoint as kubelet
from actors.devices.ledger import state
from actors.devices.ledger.kubelet_checkpoint import records_of
from actors.devices.ledger.ledger import held_by
from actors.devices.ledger.state import State
from actors.devices.model.errors import CheckpointCorrupt
from actors.devices.model.types import DeviceKey, PodRecord
from protocols.sealed import digest

OURS, KUBELETS = "ours", "kubelet's"
EMPTY = "no device allocation is known: containers that run will say what they were given"


@dataclass(frozen=True)
class Recovered:
    state: State
    registered: tuple[str, ...] = ()
    """Resources whose plugins are waited for; their devices are forgotten when none comes."""
    lines: tuple[str, ...] = ()
    """What somebody ought to know."""
    lost: bool = False
    """There were allocations, and nobody knows them any more."""
    foreign: bool = False
    """A kubelet had the node since we wrote."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """OURS or KUBELETS -> what is wrong with it: the file is to be kept aside."""


def recover(ours: bytes | None, theirs: bytes | None) -> Recovered:
    """From the bytes of both files, None = there is none."""
    damaged: dict[str, str] = {}
    mine, data = _read_ours(ours, damaged), _read_theirs(theirs, damaged)
    known = resources_of(mine) if mine is not None else ()
    registered = tuple(sorted(data.registered or {})) if data is not None else known
    if data is None:
        lost = bool(damaged) and mine is None
        return Recovered(mine or state.fresh(), registered, (EMPTY,) if lost else (), lost, damaged=damaged)
    if mine is not None and digest(theirs or b"") in (mine.kubelet, mine.before):
        return Recovered(mine, registered, (), damaged=damaged)
    if mine is not None and not mine.kubelet:
        return Recovered(
            mine, known, ("kubelet's checkpoint is replaced: ours is of a time that wrote none",), damaged=damaged
        )
    found, doubles = merged(data, mine or State())
    lines = (_taken_over(found, mine), *(f"kubelet's checkpoint gives {key.text} to two pods" for key in doubles))
    return Recovered(found, registered, lines, foreign=mine is not None, damaged=damaged)


def _read_ours(raw: bytes | None, damaged: dict[str, str]) -> State | None:
    try:
        return None if raw is None else state.decode(raw)
    except CheckpointCorrupt as error:
        damaged[OURS] = str(error)
        return None


def _read_theirs(raw: bytes | None, damaged: dict[str, str]) -> kubelet.Data | None:
    try:
        return None if raw is None else kubelet.decode(raw)
    except CheckpointCorrupt as error:
        damaged[KUBELETS] = str(error)
        return None


def merged(data: kubelet.Data, mine: State) -> tuple[State, list[DeviceKey]]:
    """Kubelet's word for who holds what, ours for names and for pods that hold nothing; a lineage of its own.

    Also devices it gives to two pods: the first one has them."""
    named = {record.allocation.uid: record for record in mine.pods}
    said, doubles = one_owner_each(records_of(data).values())
    pods = [_named(record, named.get(record.allocation.uid)) for record in said]
    idle = [record for record in mine.pods if not held_by(record.allocation)]
    taken = {record.allocation.uid for record in pods}
    found = msgspec.structs.replace(
        mine,
        mark=state.fresh().mark,
        pods=(*pods, *(record for record in idle if record.allocation.uid not in taken)),
        recent=(),
        resources=tuple(sorted({*mine.resources, *(data.registered or {})})),
    )
    return found, doubles


def one_owner_each(records: Iterable[PodRecord]) -> tuple[list[PodRecord], list[DeviceKey]]:
    """The records with each device in one pod only, and the devices that stood in several."""
    owners: dict[DeviceKey, str] = {}
    doubles: dict[DeviceKey, None] = {}
    kept = []
    for record in records:
        uid = record.allocation.uid
        lost = {key for key in held_by(record.allocation) if owners.setdefault(key, uid) != uid}
        doubles.update(dict.fromkeys(sorted(lost)))
        kept.append(_without(record, lost) if lost else record)
    return kept, list(doubles)


def _without(record: PodRecord, lost: set[DeviceKey]) -> PodRecord:
    containers = tuple(
        msgspec.structs.replace(item, devices=tuple(d for d in item.devices if DeviceKey(d.resource, d.id) not in lost))
        for item in record.allocation.containers
    )
    return msgspec.structs.replace(record, allocation=msgspec.structs.replace(record.allocation, containers=containers))


def _named(record: PodRecord, known: PodRecord | None) -> PodRecord:
    """The devices of `record`, and what else we know of its pod."""
    if known is None:
        return record
    held = {container.name: container for container in record.allocation.containers}
    containers = tuple(
        msgspec.structs.replace(item, devices=held[item.name].devices if item.name in held else ())
        for item in known.allocation.containers
    )
    allocation = msgspec.structs.replace(known.allocation, containers=containers)
    return PodRecord(allocation, record.responses, record.boot)


def _taken_over(found: State, mine: State | None) -> str:
    held = sum(bool(held_by(record.allocation)) for record in found.pods)
    why = "ours is missing or damaged" if mine is None else "it is not the one we wrote: a kubelet had this node"
    return f"device allocations of {held} pods taken from kubelet's checkpoint ({why})"


def resources_of(found: State) -> tuple[str, ...]:
    held = {key.resource for record in found.pods for key in held_by(record.allocation)}
    return tuple(sorted(held | set(found.resources)))
