"""Events: short-lived reports about other objects. Each write resets the TTL to one hour.

events.k8s.io/v1 serves the stored core events with other field names and stricter validation.
"""

from collections.abc import Mapping

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid, required
from protocols.kinds.served.columns import UNKNOWN, age_of, cell, field, name
from protocols.kinds.served.row import Column, Converter, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import at, text

TTL = 3600
INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


LENGTHS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
MISMATCH = "does not match event.namespace"


class _EventStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        return event_causes(obj, "reportingComponent")


def event_causes(obj: Object, reporter: str) -> list[Cause]:
    """Validate a core event; `reporter` is the name of its reportingComponent in the request's version."""
    namespace, involved = text(obj, "metadata", "namespace"), text(obj, "involvedObject", "namespace")
    path = "involvedObject.namespace"
    if not obj.get("eventTime"):  # written by old clients
        alike = involved == namespace or (not involved and namespace in ("", "default"))
        return [] if alike else [invalid(path, involved, MISMATCH)]
    alike = bool(involved) or namespace in ("default", "kube-system")
    causes = [] if alike else [invalid(path, involved, MISMATCH)]
    name = text(obj, "reportingComponent")
    causes += [] if name else [required(reporter)]
    causes += [invalid(reporter, name, fault) for fault in qualified_faults(name)]
    causes += [required(field) for field in LENGTHS if not obj.get(field) and field != "message"]
    return causes + [
        invalid(field, "", f"can have at most {limit} characters")
        for field, limit in LENGTHS.items()
        if len(text(obj, field).encode()) > limit
    ]


def _last_seen(obj: Object) -> str:
    stamp = text(obj, "series", "lastObservedTime") or text(obj, "lastTimestamp") or text(obj, "eventTime")
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
    found = series.get("count") if isinstance(series, dict) else obj.get("count")
    return found if isinstance(found, int) else 1


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
TYPES = ("Normal", "Warning")
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


class NewEventStrategy(Strategy):
    """Faults name the fields of the stored event, as upstream's do."""

    def validate_create(self, obj: Object) -> list[Cause]:
        core = _to_core(obj)
        causes = event_causes(core, "reportingController")
        causes += [] if core.get("eventTime") else [required("eventTime")]
        if core.get("type") not in TYPES:
            causes.append(invalid("type", "", f"has invalid value: {text(core, 'type')}"))
        return (
            causes + [invalid(name, "", "needs to be unset") for name in UNSET if core.get(name)] + _series_causes(obj)
        )

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Allow changes to the series only."""
        core, before = _to_core(new), _to_core(old)
        changed = [name for name in IMMUTABLE if core.get(name) != before.get(name)]
        causes = [
            invalid(STORED_NAMES[name] if name == "reportingComponent" else name, core.get(name), "field is immutable")
            for name in changed
        ]
        series = _series_causes(new) if new.get("series") != old.get("series") else []
        return event_causes(core, "reportingController") + causes + series


def _series_causes(obj: Object) -> list[Cause]:
    if not isinstance(obj.get("series"), dict):
        return []
    causes = [] if at(obj, "series", "lastObservedTime") else [required("series.lastObservedTime")]
    count = at(obj, "series", "count")
    if not isinstance(count, int) or count < 2:
        causes.append(invalid("series.count", "", "should be at least 2"))
    return causes


def _column(column: Column) -> Column:
    return Column(
        column.name,
        lambda obj: column.cell(_to_core(obj)),
        column.priority,
        column.type,
        column.format,
        column.description,
    )


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
    ttl=TTL,
    stored_as="events",
    converter=_EventsConverter(),
)
