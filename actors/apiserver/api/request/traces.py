"""Record what happens to pods in this process as spans of their traces."""

from actors.apiserver.api.request.target import Target
from actors.apiserver.api.resource import Served
from actors.apiserver.api.stored import Stored
from protocols.messages.trace import WATCH
from protocols.trace import clock, record


def is_pods(resource: Served) -> bool:
    return resource.plural == "pods" and not resource.group


def record_stored(resource: Served, stored: Stored, began: int, revision: int) -> None:
    """Record that the store acknowledged a write, if it is of a pod; `stored` is the object before a deletion."""
    if is_pods(resource):
        record(stored.uid, "store", began, revision=revision)


def record_written(target: Target, stored: Stored, began: int, user: str) -> None:
    """Record a request that wrote a pod; `began` is when it arrived. A dry run wrote nothing."""
    if is_pods(target.resource) and stored.rv:
        name = f"{target.verb} {target.subresource}".strip()
        record(stored.uid, name, began, pod=stored.key, user=user)


def record_watched(stored: Stored, kinds: int) -> None:
    """Record that a change of a pod was sent to `kinds` of watches: those that ask for the same share one encoding."""
    record(stored.uid, WATCH, clock(), resourceVersion=stored.rv, kinds=kinds)
