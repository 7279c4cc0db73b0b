"""Events: short-lived reports about other objects. Each write resets the TTL to one hour."""

from actors.apiserver.api.causes import Cause, invalid
from actors.apiserver.api.objects import Obj, text
from actors.apiserver.api.resource import Column, Resource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import UNKNOWN, age_of, cell, field, name

TTL = 3600
INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class EventStrategy(Strategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        namespace = text(obj, "metadata", "namespace")
        involved = text(obj, "involvedObject", "namespace")
        if (involved and involved != namespace) or (not involved and namespace not in ("", "default", "kube-system")):
            return [invalid("involvedObject.namespace", involved, "does not match event.namespace")]
        return []


def last_seen(obj: Obj) -> str:
    stamp = text(obj, "series", "lastObservedTime") or text(obj, "lastTimestamp") or text(obj, "eventTime")
    return age_of(stamp) if stamp else first_seen(obj)


def first_seen(obj: Obj) -> str:
    stamp = text(obj, "firstTimestamp") or text(obj, "eventTime")
    return age_of(stamp) if stamp else UNKNOWN


def subject(obj: Obj) -> str:
    kind, subject_name = text(obj, "involvedObject", "kind").lower(), text(obj, "involvedObject", "name")
    return f"{kind}/{subject_name}" if subject_name else kind


def source(obj: Obj) -> str:
    component = text(obj, "source", "component") or text(obj, "reportingComponent")
    host = text(obj, "source", "host") or text(obj, "reportingInstance")
    return f"{component}, {host}" if component and host else component


def count(obj: Obj) -> int:
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
