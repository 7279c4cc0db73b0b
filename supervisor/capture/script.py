"""Turn the recorded calls of a device plugin into the script that plays them again. Pure.

Time 0 is the first registration. What the plugin does by itself (lists, ends, registrations) is played at its time;
what it does in a call (errors, delays, hangs, deaths) at the same call in order, whenever pods of the other plane come.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from protocols.messages.calls import CallRecord
from protocols.wire.plugins import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START, REGISTER, VERSION
from supervisor.capture.answers import answers_of
from supervisor.capture.parts import (
    DEAD,
    DELAY_S,
    HANG_S,
    LATE,
    SAME_DEATH_S,
    WELL,
    Captured,
    NothingToCapture,
    error_of,
    fitted,
    seconds_text,
    since,
    time_of,
)

FLOOD = 10
"""So many equal lists in a row are played; fewer change nothing."""
MOST_FLOOD = 10_000
UNRECORDED = "unrecorded-"
"""Begin of the ids of devices that a list had and its record left out."""
CALLED = (GET_PREFERRED.name, ALLOCATE.name, PRE_START.name)
CUT = (DEAD, "CANCELLED")
"""Statuses of a call that ended with the connection; the node cancels those that are open at the stream's end."""
SECRETS = "It holds the values of environment variables that Allocate answered; they may be secrets."
OMITTED = (
    "devices or characters of long messages are not in the record; devices without a recorded id are"
    f" called {UNRECORDED}N"
)


def captured(resource: str, records: Sequence[CallRecord], since_ns: int = 0) -> Captured:
    """Return the script of a resource's calls, beginning with the registration in force at a time.

    Raises NothingToCapture.
    """
    ordered = since(records, since_ns, _registers)
    builder = Builder(ordered)
    for record in ordered:
        builder.add(record)
    if builder.first is None:
        raise NothingToCapture(f"the record of {resource} holds no registration that was followed by a list of devices")
    script: dict[str, Any] = {"resource": resource, "devices": list(builder.first.values())}
    script |= builder.options | answers_of([call for call in ordered if call.method == ALLOCATE.name])
    calls = {method: kept for method, faults in builder.faults.items() if (kept := _trimmed(faults))}
    if builder.first_delay:
        calls[LIST_AND_WATCH.name] = [{"delay": builder.first_delay}]
    script |= {"calls": calls} if calls else {}
    script |= {"steps": builder.steps} if builder.steps else {}
    trimmed, cut = fitted(script)
    omitted = cut + sum(sum(record.omitted.values()) for record in ordered)
    return Captured(trimmed, omitted, OMITTED, "plugin", (SECRETS,))


def _registers(record: CallRecord) -> bool:
    """Return True for the call for options that follows each registration."""
    return record.method == GET_OPTIONS.name and record.status == WELL


def _trimmed(faults: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a sequence without the calls after its last fault."""
    last = max((at for at, fault in enumerate(faults) if set(fault) - {"times"}), default=-1)
    return faults[: last + 1]


Devices = dict[str, dict[str, Any]]


@dataclass
class Builder:
    """Plays the records in order of time and notes what changes."""

    records: Sequence[CallRecord]
    first: Devices | None = None
    """Devices of the first list."""
    first_delay: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    faults: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _zero_ns: int = 0
    _devices: Devices = field(default_factory=dict)
    _registered: CallRecord | None = None
    """A registration whose first list has not come."""
    _died_ns: int = 0
    """Time of a death in a call, which is played in the call."""
    _restart: dict[str, Any] | None = None
    """Fault of that call: the time of its restart is not known yet."""

    def add(self, record: CallRecord) -> None:
        if record.method == REGISTER.name and record.status != WELL:
            self._rejected(record)
        elif _registers(record):
            self._register(record)
        elif record.method == LIST_AND_WATCH.name:
            self._listed(record) if record.reply else self._ended(record)
        elif record.method in CALLED and self._zero_ns:
            self._called(record)

    def _register(self, record: CallRecord) -> None:
        self._registered = record
        if not self._zero_ns:
            self._zero_ns = record.began_ns
        if record.reply.get("pre_start_required"):
            self.options["preStart"] = True
        if record.reply.get("get_preferred_allocation_available"):
            self.options["preferred"] = _strategy(self.records)

    def _rejected(self, record: CallRecord) -> None:
        """Play a registration that the node rejects for its version, socket or options, once it has taken one."""
        if not self._zero_ns:
            return
        if failed := self._options_failure(record):
            fault = error_of(failed) if failed.status != LATE else {"hang": True}
            self._step(record, calls={GET_OPTIONS.name: {**fault, "times": 1}}, register=True)
            return
        version, endpoint = record.request.get("version", ""), record.request.get("endpoint", "")
        self._step(record, register={"version": version} if version != VERSION else {"endpoint": endpoint})

    def _options_failure(self, register: CallRecord) -> CallRecord | None:
        """Return the failed call for options within a registration."""
        end_ns = register.began_ns + int(register.seconds * 1e9)
        failed = (
            record for record in self.records if record.method == GET_OPTIONS.name and record.status not in (WELL, "")
        )
        return next((record for record in failed if register.began_ns <= record.began_ns <= end_ns), None)

    def _listed(self, record: CallRecord) -> None:
        if self._registered is not None:
            self._first_list(record, self._registered)
        elif self._zero_ns and self.first is not None:
            self._next_list(record)

    def _first_list(self, record: CallRecord, registered: CallRecord) -> None:
        self._registered = None
        devices = _added({}, record)
        late = (record.began_ns - registered.began_ns) / 1e9
        delay = seconds_text(late) if late >= DELAY_S else ""
        if self.first is None:
            self.first, self._devices, self.first_delay = devices, devices, delay
            return
        changes = _changes(self._devices, devices)
        self._devices = devices
        calls = {"calls": {LIST_AND_WATCH.name: {"delay": delay, "times": 1}}} if delay else {}
        if self._restart is not None:
            self._restart["restart"] = seconds_text(max(DELAY_S, (registered.began_ns - self._died_ns) / 1e9))
            self._restart = None
            if changes or calls:
                self._step(record, **changes, **calls)
            return
        self._step(registered, **changes, **calls, register=True)

    def _next_list(self, record: CallRecord) -> None:
        devices = _added(self._devices, record)
        changes = _changes(self._devices, devices)
        self._devices = devices
        if changes:
            self._step(record, **changes)
        elif record.times >= FLOOD:
            self._step(record, flood=min(record.times, MOST_FLOOD))

    def _ended(self, record: CallRecord) -> None:
        """Play the end of a stream, unless the node ended it or the death in a call explains it."""
        if not self._zero_ns or record.status == "CANCELLED" or record.outcome.startswith("another connection"):
            return
        if self._restart is not None and abs(record.began_ns - self._died_ns) < SAME_DEATH_S * 1e9:
            return
        if record.status == WELL:
            self._step(record, end=True)
        elif record.status == DEAD:
            self._step(record, crash=True)
        else:
            self._step(record, end=error_of(record, "ListAndWatch ended: "))

    def _called(self, record: CallRecord) -> None:
        sequence = self.faults.setdefault(record.method, [])
        fault: dict[str, Any] = {}
        if record.status == LATE or (not record.status and record.seconds > HANG_S):
            fault = {"hang": True}
        elif record.seconds >= DELAY_S:
            fault = {"delay": seconds_text(record.seconds)}
        if record.status in CUT and (death := self._death(record)):
            fault |= {"crash": True}
            self._died_ns, self._restart = death.began_ns, fault
        elif record.status not in (WELL, LATE, ""):
            fault |= error_of(record)
        if not fault and sequence and not set(sequence[-1]) - {"times"}:
            sequence[-1]["times"] += 1
        else:
            sequence.append(fault or {"times": 1})

    def _death(self, call: CallRecord) -> CallRecord | None:
        """Return the end of the stream with which a call failed."""
        failed_ns = call.began_ns + int(call.seconds * 1e9)
        ends = (record for record in self.records if record.method == LIST_AND_WATCH.name and record.status == DEAD)
        return next((end for end in ends if abs(end.began_ns - failed_ns) < SAME_DEATH_S * 1e9), None)

    def _step(self, record: CallRecord, **what: Any) -> None:
        self.steps.append({"at": time_of(record.began_ns, self._zero_ns), **what})


def _added(before: Devices, record: CallRecord) -> Devices:
    """Return the devices after a list, whose record holds the difference to the one before."""
    devices = dict(before)
    for removed in record.reply.get("removed", []):
        devices.pop(removed["ID"], None)
    for listed in (*record.reply.get("added", []), *record.reply.get("changed", [])):
        devices[listed["ID"]] = _device(listed)
    return _completed(devices, record.reply.get("devices", len(devices)))


def _completed(found: Devices, count: int) -> Devices:
    """Return as many devices as the list had: the record holds the first of many changes only."""
    spare = [id for id in found if id.startswith(UNRECORDED)]
    for id in spare[: max(0, len(found) - count)]:
        del found[id]
    placeholders = (f"{UNRECORDED}{at}" for at in range(count))
    for id in [id for id in placeholders if id not in found][: max(0, count - len(found))]:
        found[id] = {"id": id}
    return found


def _device(shown: dict[str, Any]) -> dict[str, Any]:
    device: dict[str, Any] = {"id": shown["ID"]}
    if "numa" in shown:
        device["numa"] = shown["numa"]
    if shown.get("health", "Healthy") != "Healthy":
        device["health"] = shown["health"] if shown["health"] != "(empty)" else ""
    return device


def _changes(before: Devices, now: Devices) -> dict[str, Any]:
    """Return the keys of a step that turn one list into another."""
    health, add = {}, []
    for id, device in now.items():
        old = before.get(id)
        if old is None or old.get("numa") != device.get("numa"):
            add.append(device)
        elif old != device:
            health[id] = device.get("health", "Healthy")
    remove = [id for id in before if id not in now]
    return {name: value for name, value in (("health", health), ("add", add), ("remove", remove)) if value}


def _strategy(records: Sequence[CallRecord]) -> str:
    """Return the strategy of a script that answers GetPreferredAllocation most like the recorded answers."""
    for record in records:
        if record.method != GET_PREFERRED.name or record.status != WELL:
            continue
        asked = (record.request.get("container_requests") or [{}])[0]
        chosen = (record.reply.get("container_responses") or [{}])[0].get("deviceIDs", [])
        available, size = asked.get("available_deviceIDs", []), asked.get("allocation_size", 0)
        if set(chosen) - set(available):
            return "foreign"
        if len(chosen) < size:
            return "few"
        if chosen != available[:size]:
            return "last"
    return "first"
