"""Record what happens to pods in this process as spans of their traces."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from actors.apiserver.api.request.target import Target
from actors.apiserver.api.stored import Stored
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object
from protocols.messages.trace import WATCH
from protocols.trace import clock, record

FIELDS = 8
"""Changed fields that a step names."""
SERVER_SET = (".managedFields", ".resourceVersion", ".generation")
"""Parts of paths of what the server changes by itself."""


def is_pods(resource: Served) -> bool:
    """Return True for the resource whose objects are traced."""
    return resource.plural == "pods" and not resource.group


def record_stored(resource: Served, stored: Stored, began: int, revision: int) -> None:
    """Record that the store acknowledged a write, if it is of a pod; `stored` is the object before a deletion."""
    if is_pods(resource):
        record(stored.uid, "store", began, revision=revision)


class Sender(NamedTuple):
    """The sender of a request."""

    user: str
    agent: str = ""
    """The program, such as `kubectl/v1.37.0` or `nodeplane/job-controller`: parts of one program share a user."""

    @classmethod
    def of(cls, user: str, user_agent: str) -> "Sender":
        return cls(user, user_agent.partition(" ")[0])


def record_written(target: Target, stored: Stored, began: int, sender: Sender, fields: str = "") -> None:
    """Record a request that wrote a pod; `began` is when it arrived. A dry run wrote nothing."""
    if is_pods(target.resource) and stored.rv:
        name = f"{target.verb} {target.subresource}".strip()
        more = {"agent": sender.agent, "fields": fields}
        shown = {key: text for key, text in more.items() if text}
        record(stored.uid, name, began, pod=stored.key, user=sender.user, **shown)


def changed_fields(target: Target, before: Object, after: Object) -> str:
    """Return the paths, not the values, of what a request changed of a pod, but for its status: the node names those.

    Such as `metadata.labels.mode,spec.containers[main].image`.
    """
    if not is_pods(target.resource) or target.subresource == "status":
        return ""
    paths = list(islice(_changes("", before, after), FIELDS + 1))
    return ",".join([*paths[:FIELDS], *(["..."] if len(paths) > FIELDS else [])])


def _changes(path: str, before: Any, after: Any) -> Iterator[str]:
    old, new = _parts(before), _parts(after)
    if old is None or new is None:
        if before != after:
            yield path
        return
    for part in {**old, **new}:
        if part not in SERVER_SET and old.get(part) != new.get(part):
            yield from _changes(f"{path}{part}".removeprefix("."), old.get(part), new.get(part))


def _parts(value: Any) -> dict[str, Any] | None:
    """Return fields of an object, or items of a list by their names, none of a missing one; None for other values."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return {f".{key}": part for key, part in value.items()}
    if isinstance(value, list) and all(isinstance(item, dict) and item.get("name") for item in value):
        return {f"[{item['name']}]": item for item in value}
    return None


def record_watched(stored: Stored, kinds: int) -> None:
    """Record that a change of a pod was sent to `kinds` of watches: those that ask for the same share one encoding."""
    record(stored.uid, WATCH, clock(), resourceVersion=stored.rv, kinds=kinds)
