"""Events: short-lived reports about other objects. Each write resets the TTL to one hour.

events.k8s.io/v1 serves the stored core events with other field names and stricter validation.
"""

from collections.abc import Mapping

from actors.apiserver.api.causes import Cause, forbidden, invalid, required
from actors.apiserver.api.objects import at, text
from actors.apiserver.api.resource import CachedConverter, Column, Resource
from actors.apiserver.api.stored import Stored, encode_object
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import UNKNOWN, age_of, cell, field, name
from protocols.kube.meta import Object

TTL = 3600
INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class EventStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        namespace = text(obj, "metadata", "namespace")
        involved = text(obj, "involvedObject", "namespace")
        if (involved and involved != namespace) or (not involved and namespace not in ("", "default", "kube-system")):
            return [invalid("involvedObject.namespace", involved, "does not match event.namespace")]
        return []


def last_seen(obj: Object) -> str:
    stamp = text(obj, "series", "lastObservedTime") or text(obj, "lastTimestamp") or text(obj, "eventTime")
    return age_of(stamp) if stamp else first_seen(obj)


def first_seen(obj: Object) -> str:
    stamp = text(obj, "firstTimestamp") or text(obj, "eventTime")
    return age_of(stamp) if stamp else UNKNOWN


def subject(obj: Object) -> str:
    kind, subject_name = text(obj, "involvedObject", "kind").lower(), text(obj, "involvedObject", "name")
    return f"{kind}/{subject_name}" if subject_name else kind


def source(obj: Object) -> str:
    component = text(obj, "source", "component") or text(obj, "reportingComponent")
    host = text(obj, "source", "host") or text(obj, "reportingInstance")
    return f"{component}, {host}" if component and host else component


def count(obj: Object) -> int:
    series = obj.get("series")
    found = series.get("count") if isinstance(series, dict) else obj.get("count")
    return found if isinstance(found, int) else 1


EVENTS = Resource(
    group="",
    version="v1",
    plural="events",
    singular="event",
    kind="Event",
    namespaced=True,
    strategy=EventStrategy(),
    short_names=("ev",),
    columns=(
        Column("Last Seen", last_seen),
        Column("Type", cell("type")),
        Column("Reason", cell("reason")),
        Column("Object", subject),
        Column("Subobject", cell("involvedObject", "fieldPath"), 1),
        Column("Source", source, 1),
        Column("Message", lambda obj: text(obj, "message").strip()),
        Column("First Seen", first_seen, 1),
        Column("Count", count, 1),
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
LENGTHS = {"reportingInstance": 128, "action": 128, "reason": 128, "note": 1024}
UNSET = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource")


def to_core(obj: Object) -> Object:
    return {**_renamed(obj, NAMES), "apiVersion": "v1"}


def from_core(obj: Object) -> Object:
    return {**_renamed(obj, STORED_NAMES), "apiVersion": f"{GROUP}/v1"}


def _renamed(obj: Object, names: Mapping[str, str]) -> Object:
    return {names.get(key, key): value for key, value in obj.items()}


class EventsConverter(CachedConverter):
    def make(self, stored: Stored) -> Stored:
        return Stored(stored.key, stored.rv, encode_object(from_core(stored.obj)))

    def to_stored(self, obj: Object) -> Object:
        return to_core(obj)


class NewEventStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        causes = EventStrategy().validate_create(to_core(obj))
        causes += [required(name) for name in ("eventTime", "reportingController", *LENGTHS) if not _is_set(obj, name)]
        for key, limit in LENGTHS.items():
            if len(text(obj, key)) > limit:
                causes.append(invalid(key, "", f"can have at most {limit} characters"))
        if obj.get("type") not in TYPES:
            causes.append(invalid("type", "", f"has invalid value: {text(obj, 'type')}"))
        causes += [invalid(name, "", "needs to be unset") for name in UNSET if obj.get(name)]
        return causes + _series_causes(obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Allow changes to the series only. Events written through v1 may lack fields that are required here."""
        names = (*NAMES, "eventTime", "reportingInstance", "action", "reason", "related", "type")
        changed = [name for name in names if new.get(name) != old.get(name)]
        return [forbidden(name, "field is immutable") for name in changed] + _series_causes(new)


def _is_set(obj: Object, name: str) -> bool:
    return bool(obj.get(name)) or name == "note"


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
        lambda obj: column.cell(to_core(obj)),
        column.priority,
        column.type,
        column.format,
        column.description,
    )


NEW_EVENTS = Resource(
    group=GROUP,
    version="v1",
    plural="events",
    singular="event",
    kind="Event",
    namespaced=True,
    strategy=NewEventStrategy(),
    short_names=("ev",),
    columns=tuple(map(_column, EVENTS.columns)),
    prefix="events",
    fields={
        **{f"regarding.{key}": field("regarding", key) for key in INVOLVED},
        "reason": field("reason"),
        "reportingController": field("reportingController"),
        "type": field("type"),
    },
    create_on_update=True,
    ttl=TTL,
    stored_as="events",
    converter=EventsConverter(),
)
