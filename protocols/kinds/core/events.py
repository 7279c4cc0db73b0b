"""Events: short-lived reports about other objects. Each write resets the TTL to one hour.

events.k8s.io/v1 serves the stored core events with other field names and stricter validation.
"""

from collections.abc import Mapping

from msgspec.structs import asdict, replace

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid
from protocols.kinds.check.table import (
    Causes,
    Check,
    Ordered,
    anything,
    causes_of,
    changed_causes,
    faulty,
    needed,
    together,
)
from protocols.kinds.check.values import label_key
from protocols.kinds.served.columns import UNKNOWN, age_of, cell, field, name
from protocols.kinds.served.row import Column, Converter, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import text

TTL = 3600
INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _namespace(path: str, event: Object, causes: Causes) -> None:
    """Check that an event is in the namespace of its object. One without eventTime is written by an old client."""
    namespace, involved = text(event, "metadata", "namespace"), text(event, "involvedObject", "namespace")
    if event.get("eventTime"):
        is_there = bool(involved) or namespace in ("default", "kube-system")
    else:
        is_there = involved == namespace or (not involved and namespace in ("", "default"))
    if not is_there:
        causes.append(invalid("involvedObject.namespace", involved, "does not match event.namespace"))


def _at_most(limit: int) -> Check:
    return faulty(lambda value: len(value.encode()) > limit, f"can have at most {limit} characters")


REPORT = Ordered(
    "reportingComponent reportingInstance action reason",
    reportingComponent=together(needed(anything), label_key),
    reportingInstance=needed(_at_most(128)),
    action=needed(_at_most(128)),
    reason=needed(_at_most(128)),
    message=_at_most(1024),
)


def _event(path: str, event: Object, causes: Causes) -> None:
    _namespace(path, event, causes)
    if event.get("eventTime"):
        REPORT(path, event, causes)


class _EventStrategy(Strategy):
    rules = staticmethod(_event)


def _last_seen(obj: Object) -> str:
    stamp = text(obj, "series", "lastObservedTime") or text(obj, "lastTimestamp")
    return age_of(stamp) if stamp else _first_seen(obj)


def _first_seen(obj: Object) -> str:
    stamp = text(obj, "firstTimestamp") or text(obj, "eventTime")
    return age_of(stamp) if stamp else UNKNOWN


def _subject(obj: Object) -> str:
    kind, subject_name = text(obj, "involvedObject", "kind").lower(), text(obj, "involvedObject", "name")
    return f"{kind}/{subject_name}" if subject_name else kind


def _source(obj: Object) -> str:
    component = text(obj, "source", "component") or text(obj, "reportingComponent")
    host = text(obj, "source", "host") or text(obj, "reportingInstance")
    return f"{component}, {host}" if component and host else component


def _count(obj: Object) -> int:
    series = obj.get("series")
    count = series.get("count") if isinstance(series, dict) else obj.get("count") or 1
    return count if isinstance(count, int) else 1


EVENTS = Served(
    **asdict(kinds.EVENTS),
    strategy=_EventStrategy(),
    columns=(
        Column("Last Seen", _last_seen),
        Column("Type", cell("type")),
        Column("Reason", cell("reason")),
        Column("Object", _subject),
        Column("Subobject", cell("involvedObject", "fieldPath"), 1),
        Column("Source", _source, 1),
        Column("Message", lambda obj: text(obj, "message").strip()),
        Column("First Seen", _first_seen, 1),
        Column("Count", _count, 1),
        Column("Name", name, 1, format="name"),
    ),
    fields={
        **{f"involvedObject.{key}": field("involvedObject", key) for key in INVOLVED},
        "reason": field("reason"),
        "reportingComponent": field("reportingComponent"),
        "source": lambda obj: text(obj, "source", "component") or text(obj, "reportingComponent"),
        "type": field("type"),
    },
    create_on_update=True,
    collects_garbage=False,
    ttl=TTL,
    free_names=True,
)


GROUP = "events.k8s.io"
NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Fields whose names differ from core v1."""
STORED_NAMES = {old: new for new, old in NAMES.items()}
UNSET = ("firstTimestamp", "lastTimestamp", "count", "source")
IMMUTABLE = (
    *("involvedObject", "reason", "message", *UNSET, "type", "eventTime", "action", "related", "reportingInstance"),
    "reportingComponent",
)


def _to_core(obj: Object) -> Object:
    return {**_renamed(obj, NAMES), "apiVersion": "v1"}


def _from_core(obj: Object) -> Object:
    return {**_renamed(obj, STORED_NAMES), "apiVersion": f"{GROUP}/v1"}


def _renamed(obj: Object, names: Mapping[str, str]) -> Object:
    return {names.get(key, key): value for key, value in obj.items()}


class _EventsConverter(Converter):
    changes = True

    def to_version(self, obj: Object) -> Object:
        return _from_core(obj)

    def to_stored(self, obj: Object) -> Object:
        return _to_core(obj)


def _type(path: str, value: str, causes: Causes) -> None:
    if value not in ("Normal", "Warning"):
        causes.append(invalid(path, "", f"has invalid value: {value}"))


_unset = faulty(bool, "needs to be unset")
NEW = Ordered("eventTime type", eventTime=needed(anything), type=_type, **dict.fromkeys(UNSET, _unset))
_repeated = faulty(lambda count: count < 2, "should be at least 2")
SERIES = Ordered(
    series=Ordered("lastObservedTime count=0", lastObservedTime=needed(anything), count=_repeated),
)


class NewEventStrategy(Strategy):
    """Rules of the stored event, of which one field has its newer name in causes, as upstream's."""

    def validate_create(self, obj: Object) -> list[Cause]:
        event = _to_core(obj)
        return _of_version(causes_of(together(_event, NEW, SERIES), "", event))

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Allow changes to the series only."""
        event, before = _to_core(new), _to_core(old)
        series = causes_of(SERIES, "", event) if event.get("series") != before.get("series") else []
        return _of_version(causes_of(_event, "", event) + changed_causes(event, before, *IMMUTABLE) + series)


def _of_version(causes: Causes) -> Causes:
    reporter = "reportingComponent"
    return [cause._replace(field=STORED_NAMES[reporter]) if cause.field == reporter else cause for cause in causes]


def _column(column: Column) -> Column:
    return replace(column, cell=lambda obj: column.cell(_to_core(obj)))


NEW_EVENTS = Served(
    group=GROUP,
    version="v1",
    plural="events",
    kind="Event",
    namespaced=True,
    strategy=NewEventStrategy(),
    short_names=("ev",),
    columns=tuple(map(_column, EVENTS.columns)),
    etcd_prefix="events",
    fields={
        **{f"regarding.{key}": field("regarding", key) for key in INVOLVED},
        "reason": field("reason"),
        "reportingController": field("reportingController"),
        "type": field("type"),
    },
    create_on_update=True,
    collects_garbage=False,
    ttl=TTL,
    stored_as="events",
    converter=_EventsConverter(),
)
