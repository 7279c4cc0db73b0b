"""Turn the recorded calls of a DRA driver into the script that plays them again. Pure.

Time 0 is the first registration. What the driver does by itself (health, ends, registrations) is played at its time;
what it does in a call (errors, delays, hangs, deaths) as `claims` says.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from protocols.messages.calls import CallRecord
from protocols.wire.plugins import (
    DRA_PLUGIN,
    GET_INFO,
    NODE_HEALTH,
    NOTIFY,
    PREPARE,
    UNPREPARE,
    WATCH_DEVICES_STATUS,
    WATCH_RESOURCES,
)
from supervisor.capture.claims import Answers, answers_in, faults_of
from supervisor.capture.devices import Published, offers
from supervisor.capture.parts import (
    DEAD,
    DELAY_S,
    HANG_S,
    LATE,
    SAME_DEATH_S,
    TIMEOUT_S,
    WELL,
    Captured,
    Fault,
    NothingToCapture,
    Script,
    Step,
    by_time,
    error_of,
    fitted,
    seconds_text,
    since,
    time_of,
)

WATCH, NODE_WATCH = "NodeWatchResources", WATCH_DEVICES_STATUS.name
CLAIM_CALLS = frozenset(method.name for method in (*PREPARE.values(), *UNPREPARE.values()))
STREAMS = frozenset(method.name for method in (*WATCH_RESOURCES.values(), WATCH_DEVICES_STATUS))
ENDED = "its health stream ended: "
CLOSED = (WELL, DEAD, "CANCELLED")
"""Statuses of a stream that ends with its driver."""
WHOLE = 0.9
"""Share of a deadline after which a call that exceeded it was not answered at all."""
ATTACH_S = 1
DAY_S = 86_400
"""The longest timeout of a script."""
LATE_NS = 2 * 10**9
"""The newest messages of a record may be so old."""
AFTER_NS = 100_000_000
"""The simulator falls silent so long after its last message, and speaks so long after the end of its stream."""
DEFAULT_VERSIONS = [*PREPARE, *WATCH_RESOURCES]
NAMES_ONLY = "The API had no ResourceSlices of the driver: devices have only the names that calls hold."
CLAIM_NAMES = "It may hold names of claims, and texts of the driver's errors."
OMITTED = "devices, claims or characters of long messages are not in the record or have no room in a script"

Health = tuple[str, str]
"""Health and message."""
HEALTHY: Health = ("Healthy", "")


def is_driver(records: Sequence[CallRecord]) -> bool:
    """Return True for calls of a DRA driver, False for those of a device plugin."""
    mine = CLAIM_CALLS | STREAMS
    return any(
        record.method in mine
        or record.reply.get("type") == DRA_PLUGIN
        or not PREPARE.keys().isdisjoint(record.reply.get("supported_versions", ()))
        for record in records
    )


def calls_of(driver: str, records: Sequence[CallRecord]) -> list[CallRecord]:
    """Return a driver's records, with those of its registration socket from before its name was known."""
    sockets = {
        record.socket for record in records if record.peer == driver and record.method in (GET_INFO.name, NOTIFY.name)
    }
    return [record for record in records if record.peer == driver or record.socket in sockets - {""}]


def captured_driver(
    driver: str, records: Sequence[CallRecord], known: Published, since_ns: int = 0, until_ns: int = 0
) -> Captured:
    """Return the script of a driver's calls, beginning with the registration in force at a time.

    `until_ns`: end of the record, for a stream that is silent since its last message. Raises NothingToCapture.
    """
    ordered = since(records, since_ns, _registers)
    builder = DriverBuilder(ordered, driver)
    for record in ordered:
        builder.add(record)
    builder.finish(until_ns)
    if builder.versions is None:
        raise NothingToCapture(f"the record of {driver} holds no answer to GetInfo, with which a driver registers")
    away, changes = offers(known, builder.zero_ns)
    script: Script = {"driver": driver, "devices": _devices(builder, known, away)}
    script |= {"sharedCounters": list(known.counters)} if known.counters else {}
    script |= {"attach": ATTACH_S} if any("bindingConditions" in device for device in known.devices) else {}
    script |= {"versions": builder.versions} if builder.versions != DEFAULT_VERSIONS else {}
    script |= {"nodeHealth": True} if builder.watch == NODE_WATCH and NODE_HEALTH not in builder.versions else {}
    script |= {"healthTimeout": min(round(builder.timeout), DAY_S)} if builder.timeout != TIMEOUT_S else {}
    script |= {"calls": calls} if (calls := builder.calls()) else {}
    script |= {"steps": steps} if (steps := by_time([*changes, *builder.steps])) else {}
    script, cut = fitted(script)
    omitted = cut + known.omitted + sum(sum(record.omitted.values()) for record in ordered)
    notes = (CLAIM_NAMES,) if known.devices else (CLAIM_NAMES, NAMES_ONLY)
    return Captured(script, omitted, OMITTED, "dra-driver", notes)


def _devices(builder: "DriverBuilder", known: Published, away: Collection[str]) -> list[dict[str, Any]]:
    devices = [dict(device) for device in known.devices] or [{"name": name} for name in sorted(builder.names)]
    for device in devices:
        device |= {"away": True} if device["name"] in away else {}
        health, message = builder.first_health.get(device["name"], HEALTHY)
        device |= {"health": health} if health != "Healthy" else {}
        device |= {"message": message} if message else {}
    return devices


def _registers(record: CallRecord) -> bool:
    """Return True for an answer to GetInfo that the node accepted."""
    return record.method == GET_INFO.name and record.status == WELL and record.outcome.startswith("accepted")


@dataclass
class DriverBuilder:
    """Plays the records in order of time and notes what changes."""

    records: Sequence[CallRecord]
    driver: str
    versions: list[str] | None = None
    """Services of the first answer to GetInfo; None = none came."""
    first_health: dict[str, Health] = field(default_factory=dict)
    """Health of devices in the first message."""
    names: set[str] = field(default_factory=set)
    """Devices in messages and answers."""
    steps: list[Step] = field(default_factory=list)
    zero_ns: int = 0
    """Time of the first registration."""
    watch: str = WATCH
    """Method of the health stream."""
    timeout: float = TIMEOUT_S
    """The shortest time after which the driver lets a report expire."""
    _calls: dict[str, list[tuple[Fault, Answers]]] = field(default_factory=dict)
    _watch: Fault = field(default_factory=dict)
    """Fault of the health stream from the start."""
    _endpoint: str = ""
    """Socket of the newest instance; streams of older ones are not played."""
    _health: dict[str, Health] = field(default_factory=dict)
    _heard: bool = False
    """A message came since the stream was opened."""
    _first: bool = True
    """No message has come at all."""
    _last_ns: int = 0
    """Time of the last message."""
    _opened: Step | None = None
    """The step after which the node opened the stream; None = the first registration."""
    _failing: bool = False
    _end: CallRecord | None = None
    """End of the stream, until it is known whether the driver ended, too."""
    _died_ns: int = 0
    """Time of a death in a call, which is played in the call."""
    _restart: Fault | None = None
    """Fault of that call: the time of its restart is not known yet."""

    def calls(self) -> dict[str, Fault | list[Fault]]:
        """Return the script's `calls`."""
        scripted = {method: faults for method, calls in self._calls.items() if (faults := faults_of(calls)) is not None}
        return scripted | ({self.watch: self._watch} if self._watch else {})

    def add(self, record: CallRecord) -> None:
        if record.method == GET_INFO.name:
            self._introduced(record)
        elif record.method == NOTIFY.name:
            self._note_fault(record)
        elif record.method in STREAMS:
            if record.socket == self._endpoint and not _not_served(record):
                self.watch = record.method
                self._heard_from(record) if record.reply else self._ended(record)
        elif record.method in CLAIM_CALLS and self.zero_ns:
            self._called(record)

    def finish(self, until_ns: int) -> None:
        """End the record: a stream that was not opened again ended with its driver."""
        if self._heard:
            self._was_silent(until_ns - LATE_NS)
        self._resolve(alive=False)

    def _introduced(self, record: CallRecord) -> None:
        self._note_fault(record)
        if record.status == WELL and self.versions is None:
            self.versions = list(record.reply.get("supported_versions", []))
        if _registers(record):
            self._register(record)

    def _note_fault(self, record: CallRecord) -> None:
        """Note an error or a hang of registration; a socket where nobody listens is none of a driver's."""
        if record.status == "" or (record.status == DEAD and not record.error):
            return
        fault = _wrong_info(record, self.driver) if not _registers(record) else {}
        if record.status != WELL:
            fault = {"hang": True} if _hung(record) else error_of(record)
        self._calls.setdefault(record.method, []).append((fault, {}))

    def _register(self, record: CallRecord) -> None:
        self._endpoint = record.reply.get("endpoint") or record.socket
        self._resolve(alive=False)
        self._heard = self._failing = False
        if not self.zero_ns:
            self.zero_ns = record.began_ns
        elif self._restart is not None:
            away = (record.began_ns - self._died_ns) / 1e9
            self._restart["restart"], self._restart = seconds_text(max(DELAY_S, away)), None
        else:
            self._opened = self._step(record, register=True)

    def _heard_from(self, record: CallRecord) -> None:
        """Play a message of the health stream: what changed in it."""
        self._resolve(alive=True)
        if self._failing:
            self._step(record, calls={self.watch: {}})
        speaks = self._heard and self._has_expired(record) and self._was_silent(record.began_ns)
        self._heard, self._failing, self._last_ns = True, False, record.began_ns
        self._note_timeouts(record)
        changed = {change["device_name"]: _health(change) for change in record.reply.get("changed", ())}
        changed |= {name.rpartition("/")[2]: ("Unknown", "") for name in record.reply.get("removed", ())}
        self.names |= changed.keys()
        if self._first:
            self._first, self.first_health, self._health = False, changed, dict(changed)
            self._delay(record)
            return
        different = {name: new for name, new in changed.items() if new != self._health.get(name, HEALTHY)}
        self._health |= different
        for message in dict.fromkeys(message for _, message in different.values()):
            health = {name: word for name, (word, its) in different.items() if its == message}
            self._step(record, health=health, **({"message": message} if message else {}))
        if speaks:
            self._step(record, silent=False)

    def _note_timeouts(self, record: CallRecord) -> None:
        given = [change["timeout"] for change in record.reply.get("changed", ()) if change.get("timeout", 0) >= 1]
        self.timeout = min([*given, *([] if self._first else [self.timeout])], default=TIMEOUT_S)

    def _has_expired(self, record: CallRecord) -> bool:
        """Return True for a message before which reports had expired.

        Times alone do not show that: of equal messages in a row only the last one's time is known.
        """
        late = (change for change in record.reply.get("changed", ()) if change.get("before") == "Unknown")
        return any(self._health.get(change["device_name"], HEALTHY)[0] != "Unknown" for change in late)

    def _was_silent(self, until_ns: int) -> bool:
        """Play a stream that was open without messages until its reports expired; those of NodeHealth do not."""
        if self.watch == NODE_WATCH or until_ns - self._last_ns <= self.timeout * 1e9:
            return False
        self._at(self._last_ns)  # a message; the simulator's own ones come at other times
        self._at(self._last_ns + AFTER_NS, silent=True)
        return True

    def _delay(self, record: CallRecord) -> None:
        late = (record.began_ns - self.zero_ns) / 1e9
        if late >= HANG_S and not self._watch and self._opened is None:
            self._watch = {"delay": seconds_text(late), "times": 1}

    def _ended(self, record: CallRecord) -> None:
        """Note the end of the stream, unless a death in a call explains it."""
        if not self.zero_ns:
            return
        if self._heard and self._was_silent(record.began_ns):
            self._at(record.began_ns + AFTER_NS, silent=False)
        if self._restart is not None and abs(record.began_ns - self._died_ns) < SAME_DEATH_S * 1e9:
            self._heard = False
        elif self._heard:
            self._end, self._heard = record, False
        else:
            self._resolve(alive=True)
            self._not_opened(record)

    def _resolve(self, *, alive: bool) -> None:
        """Play the end of a stream: of the stream alone, if the driver was alive afterwards, or of the driver."""
        record, self._end = self._end, None
        if record is None:
            return
        if not alive and record.status in CLOSED:
            self._step(record, **({"stop": True} if record.status == WELL else {"crash": True}))
        else:
            self._opened = self._step(record, end=record.status == WELL or error_of(record, ENDED))

    def _not_opened(self, record: CallRecord) -> None:
        """Play a stream that fails before its first message, each time from the step after which it was opened."""
        if self._failing or record.status == WELL:
            return
        self._failing, fault = True, error_of(record, ENDED)
        if self._opened is None:
            self._watch = fault
        else:
            self._opened.setdefault("calls", {})[self.watch] = fault

    def _called(self, record: CallRecord) -> None:
        if record.status == DEAD and (self._end is not None or self._restart is not None):
            return  # the driver is dead: it was not reached
        if record.status in ("", "CANCELLED") and not record.error and record.seconds < HANG_S:
            return  # in progress, or its pod went away
        fault: Fault = {"delay": seconds_text(record.seconds)} if record.seconds >= DELAY_S else {}
        if record.status == DEAD and (died_ns := self._death(record)):
            fault |= {"crash": True}
            self._died_ns, self._restart, self._heard = died_ns, fault, False
        elif _hung(record):
            fault = {"hang": True}
        elif record.status != WELL:
            fault |= error_of(record)
        self._calls.setdefault(record.method, []).append((fault, answers_in(record)))
        for answer in record.reply.get("claims", {}).values():
            self.names |= {device.get("device_name", "") for device in answer.get("devices", ())} - {""}

    def _death(self, call: CallRecord) -> int:
        """Return when the driver died in a call that failed, 0 if it did not.

        Its health stream ends with it. A driver without one has to register again before it answers another call.
        """
        failed_ns = call.began_ns + int(call.seconds * 1e9)
        streams = [record for record in self.records if record.method in STREAMS]
        ends = (stream.began_ns for stream in streams if stream.status == DEAD)
        if streams:
            return next((at for at in ends if abs(at - failed_ns) < SAME_DEATH_S * 1e9), 0)
        later = (record for record in self.records if record.began_ns > call.began_ns and record.status != DEAD)
        return failed_ns if (next_call := next(later, None)) is not None and _registers(next_call) else 0

    def _step(self, record: CallRecord, **what: Any) -> Step:
        return self._at(record.began_ns, **what)

    def _at(self, moment_ns: int, **what: Any) -> Step:
        self.steps.append({"at": time_of(moment_ns, self.zero_ns), **what})
        return self.steps[-1]


def _not_served(record: CallRecord) -> bool:
    """Return True for a driver's answer that it has no NodeHealth, which the node tries unasked."""
    return record.method == NODE_WATCH and record.status == "UNIMPLEMENTED"


def _health(shown: dict[str, Any]) -> Health:
    return shown.get("health", "Unknown"), shown.get("message", "")


def _hung(record: CallRecord) -> bool:
    """Return True for a call that was never answered."""
    if record.status == LATE:
        return record.seconds >= WHOLE * record.deadline
    return record.status in ("", "CANCELLED") and not record.error and record.seconds >= HANG_S


def _wrong_info(record: CallRecord, driver: str) -> Fault:
    """Return the fault that plays a wrong type, name or endpoint; {} for an answer without one."""
    if (record.method, record.status) != (GET_INFO.name, WELL):
        return {}
    right = {"type": DRA_PLUGIN, "name": driver}
    wrong = {name: text for name, value in right.items() if (text := record.reply.get(name, "")) != value}
    endpoint = record.reply.get("endpoint", "")
    if endpoint and not endpoint.startswith("/"):
        wrong["endpoint"] = endpoint
    return {"info": wrong} if wrong else {}
