"""Conditions of a workload's status, as lists that are never changed in place. Pure."""

from collections.abc import Iterable, Sequence

from protocols.kube.meta import Object


def find(conditions: Iterable[Object], kind: str) -> Object | None:
    """Return the condition of a kind; None if there is none."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def put(conditions: Sequence[Object], entry: Object) -> list[Object]:
    """Return the conditions with this one, as upstream's SetCondition.

    An entry of the same status and reason stays as it is; an unchanged status keeps its transition time.
    """
    known = find(conditions, str(entry["type"]))
    if known is not None:
        if (known.get("status"), known.get("reason")) == (entry["status"], entry["reason"]):
            return list(conditions)
        if known.get("status") == entry["status"]:
            entry = {**entry, "lastTransitionTime": known.get("lastTransitionTime")}
    return [*without(conditions, str(entry["type"])), entry]


def without(conditions: Iterable[Object], kind: str) -> list[Object]:
    """Return the conditions of all other kinds."""
    return [condition for condition in conditions if condition.get("type") != kind]


def entry(kind: str, status: str, reason: str, message: str, now: str, *, updated: bool = False) -> Object:
    """Return a new condition; Deployments also have a `lastUpdateTime`."""
    condition = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
    return {**condition, "lastUpdateTime": now} if updated else condition
