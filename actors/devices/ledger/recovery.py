"""Decide at start which of the two checkpoints is right. Pure.

Ours is written first, then kubelet's, and ours has the digests of kubelet's file after and before this write. A kubelet
checkpoint with another digest was written by a kubelet that ran the node meanwhile, so its allocations win. A file that
cannot be read is replaced from the other one.
"""

from collections.abc import Iterable, Mapping

import msgspec

from actors.devices.ledger import kubelet_checkpoint as kubelet
from actors.devices.ledger import state
from actors.devices.ledger.kubelet_checkpoint import is_readable, records_of
from actors.devices.ledger.state import LedgerState
from actors.devices.model.errors import CheckpointCorrupt
from protocols.lifecycle.devices.ledger import held_by
from protocols.lifecycle.devices.types import DeviceKey, PodRecord
from protocols.process.files import digest

OURS, KUBELETS = "ours", "kubelet's"
EMPTY = "no device allocation is known: containers that run will say what they were given"


class RecoveredState(msgspec.Struct, frozen=True):
    """The state to start with."""

    state: LedgerState
    registered: tuple[str, ...] = ()
    """Resources whose plugins are expected back; otherwise their devices expire."""
    warnings: tuple[str, ...] = ()
    """Warnings for users."""
    lost: bool = False
    """Allocations existed and are unknown now."""
    foreign: bool = False
    """A kubelet ran the node since our last write."""
    damaged: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Error by OURS or KUBELETS, for files to be copied aside."""


def recover(ours: bytes | None, theirs: bytes | None) -> RecoveredState:
    """Recover from the content of both files; None = no file."""
    damaged: dict[str, str] = {}
    mine, data = _read_ours(ours, damaged), _read_theirs(theirs, damaged)
    known = resources_of(mine) if mine is not None else ()
    registered = tuple(sorted(data.registered or {})) if data is not None else known
    if data is None:
        lost = bool(damaged) and mine is None
        return RecoveredState(mine or state.fresh(), registered, (EMPTY,) if lost else (), lost, damaged=damaged)
    if mine is not None and digest(theirs or b"") in (mine.kubelet, mine.before):
        return RecoveredState(mine, registered, (), damaged=damaged)
    if mine is not None and not mine.kubelet:
        return RecoveredState(
            mine, known, ("kubelet's checkpoint is replaced: ours is of a time that wrote none",), damaged=damaged
        )
    ledger, faults = merged(data, mine or LedgerState())
    warnings = (_taken_over(ledger, mine), *(f"kubelet's checkpoint {fault}" for fault in faults))
    return RecoveredState(ledger, registered, warnings, foreign=mine is not None, damaged=damaged)


def _read_ours(raw: bytes | None, damaged: dict[str, str]) -> LedgerState | None:
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


def merged(data: kubelet.Data, mine: LedgerState) -> tuple[LedgerState, list[str]]:
    """Combine kubelet's allocations with our names and idle pods, as a new lineage.

    Also return its faults: malformed entries, and devices that it gives to two pods; the first pod keeps them.
    """
    named = {record.allocation.uid: record for record in mine.pods}
    readable = list(filter(is_readable, data.entries or ()))
    records, conflicts = one_owner_each(records_of(readable).values())
    pods = [_named(record, named.get(record.allocation.uid)) for record in records]
    idle = [record for record in mine.pods if not held_by(record.allocation)]
    taken = {record.allocation.uid for record in pods}
    ledger = msgspec.structs.replace(
        mine,
        mark=state.fresh().mark,
        pods=(*pods, *(record for record in idle if record.allocation.uid not in taken)),
        recent=(),
        resources=tuple(sorted({*mine.resources, *(data.registered or {})})),
    )
    faults = [f"gives {key.text} to two pods" for key in conflicts]
    if malformed := len(data.entries or ()) - len(readable):
        faults.append(f"has {malformed} allocations with a malformed response, which are ignored")
    return ledger, faults


def one_owner_each(records: Iterable[PodRecord]) -> tuple[list[PodRecord], list[DeviceKey]]:
    """Return the records with each device in one pod only, and the devices that were in several."""
    owners: dict[DeviceKey, str] = {}
    conflicts: dict[DeviceKey, None] = {}
    kept = []
    for record in records:
        uid = record.allocation.uid
        lost = {key for key in held_by(record.allocation) if owners.setdefault(key, uid) != uid}
        conflicts.update(dict.fromkeys(sorted(lost)))
        kept.append(_without(record, lost) if lost else record)
    return kept, list(conflicts)


def _without(record: PodRecord, lost: set[DeviceKey]) -> PodRecord:
    containers = tuple(
        msgspec.structs.replace(item, devices=tuple(d for d in item.devices if DeviceKey(d.resource, d.id) not in lost))
        for item in record.allocation.containers
    )
    return msgspec.structs.replace(record, allocation=msgspec.structs.replace(record.allocation, containers=containers))


def _named(record: PodRecord, known: PodRecord | None) -> PodRecord:
    """Return the devices of `record` with everything else that is known of the pod."""
    if known is None:
        return record
    held = {container.name: container for container in record.allocation.containers}
    containers = tuple(
        msgspec.structs.replace(item, devices=held[item.name].devices if item.name in held else ())
        for item in known.allocation.containers
    )
    allocation = msgspec.structs.replace(known.allocation, containers=containers)
    return PodRecord(allocation, record.responses, record.boot)


def _taken_over(found: LedgerState, mine: LedgerState | None) -> str:
    held = sum(bool(held_by(record.allocation)) for record in found.pods)
    why = "ours is missing or damaged" if mine is None else "it is not the one we wrote: a kubelet had this node"
    return f"device allocations of {held} pods taken from kubelet's checkpoint ({why})"


def resources_of(found: LedgerState) -> tuple[str, ...]:
    """Return the resources that the state knows, sorted."""
    held = {key.resource for record in found.pods for key in held_by(record.allocation)}
    return tuple(sorted(held | set(found.resources)))
