"""LimitRanger admission: default requests and limits of new pods, and check them. Pure; messages equal upstream's."""

from collections.abc import Iterable, Iterator
from typing import Any

from actors.apiserver.api.errors import BodyTooLarge
from actors.apiserver.writes.admission.rule import Rule, Step
from actors.apiserver.writes.change import CREATE, UPDATE, Change
from actors.apiserver.writes.update import amended
from protocols.kube.meta import Object, terminating
from protocols.kube.objects import at, fresh_copy, items
from protocols.kube.quantity import ZERO, Quantity
from protocols.quota.amounts import Amounts, parsed
from protocols.quota.pods import pod_amounts

ANNOTATION = "kubernetes.io/limit-ranger"
CONTAINER, POD, CLAIM = "Container", "Pod", "PersistentVolumeClaim"
LISTS = (("containers", "container"), ("initContainers", "init container"))
MOST = 20_000
"""Containers of a pod times entries of the limit ranges of its namespace: each may be added, and is compared."""
BOUNDED = {"pods": (CREATE,), "pods/resize": (UPDATE,)}
LARGEST_MILLI = 2**63 // 1000
"""Values up to this are compared in thousandths."""


class LimitDefaults(Rule):
    """Set default requests and limits of new pods, and of containers that a resize leaves without."""

    step, covers = Step.COMPLETE, BOUNDED

    def apply(self, change: Change) -> None:
        old, ranges = change.old, self.given.limit_ranges(change.target.namespace)
        check_work(change.sent, ranges)
        if old is None and isinstance(change.sent.get("spec"), dict):
            set_defaults(change.sent, ranges)
        elif old is not None and ranges and not terminating(old):
            change.new = _resized(change, old, ranges)


class Limits(Rule):
    """Check pods and volume claims against the LimitRanges of their namespace."""

    step, covers = Step.CHECK_VALID, {**BOUNDED, "persistentvolumeclaims": (CREATE, UPDATE)}

    def apply(self, change: Change) -> None:
        if not terminating(change.old or {}):
            ranges = self.given.limit_ranges(change.target.namespace)
            change.reject(limit_fault(change.target.resource.full_name, change.sent, ranges))


def _resized(change: Change, old: Object, ranges: list[Object]) -> Object:
    """Return a resized pod with the defaults of limit ranges, which nobody owns. Raises Invalid if they do not fit."""
    filled = fresh_copy(change.sent)
    set_defaults(filled, ranges)
    if filled == change.new:
        return filled
    return amended(change.target, filled, change.sent, old)


def check_work(pod: Object, ranges: Iterable[Object]) -> None:
    """Raise BodyTooLarge if the pod has too many containers for these limit ranges."""
    containers = sum(len(items(pod, "spec", field)) for field, _ in LISTS)
    entries = sum(1 + _entries(limit_range) for limit_range in ranges)
    if containers * entries > MOST:
        raise BodyTooLarge(
            f"{containers} containers and {entries} entries of limit ranges are more than {MOST} together: "
            "use fewer containers, or fewer entries"
        )


def _entries(limit_range: Object) -> int:
    limits = items(limit_range, "spec", "limits")
    return sum(1 + sum(len(part) for part in item.values() if isinstance(part, dict)) for item in limits)


def set_defaults(pod: Object, ranges: Iterable[Object]) -> None:
    """Add the default requests and limits to containers that lack them, and an annotation that lists them."""
    for limit_range in ranges:
        requests, limits = _defaults(limit_range)
        texts = [
            text
            for field, title in LISTS
            for container in items(pod, "spec", field)
            for text in _fill(container, title, requests, limits)
        ]
        if texts:
            annotations = dict(at(pod, "metadata", "annotations") or {})
            pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(texts)}"}


def _defaults(limit_range: Object) -> tuple[Object, Object]:
    requests: Object = {}
    limits: Object = {}
    for item in items(limit_range, "spec", "limits"):
        if item.get("type") == CONTAINER:
            requests.update(item.get("defaultRequest") or {})
            limits.update(item.get("default") or {})
    return requests, limits


def _fill(container: Object, title: str, requests: Object, limits: Object) -> Iterator[str]:
    for side, defaults in (("requests", requests), ("limits", limits)):
        given = at(container, "resources", side)
        if not isinstance(given, dict | None) or not isinstance(container.get("resources"), dict | None):
            continue  # validation reports it
        missing = {name: value for name, value in defaults.items() if name not in (given or {})}
        if missing:
            container["resources"] = {**(container.get("resources") or {}), side: {**(given or {}), **missing}}
            yield f"{', '.join(sorted(missing))} {side[:-1]} for {title} {container.get('name') or ''}"


def limit_fault(kind: str, obj: Object, ranges: Iterable[Object]) -> str:
    """Return why the limit ranges of its namespace reject a pod or a claim; empty if they do not."""
    for limit_range in ranges:
        checks = _pod_faults if kind == "pods" else _claim_faults
        faults = list(dict.fromkeys(checks(obj, items(limit_range, "spec", "limits"))))
        if faults:
            return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    return ""


def _pod_faults(pod: Object, limits: list[Object]) -> Iterator[str]:
    for item in limits:
        if item.get("type") == CONTAINER:
            for field, _ in LISTS:
                for container in items(pod, "spec", field):
                    resources: Any = container.get("resources") or {}
                    yield from _faults(item, parsed(resources.get("requests")), parsed(resources.get("limits")))
        elif item.get("type") == POD:
            bare = {**pod, "spec": {**pod["spec"], "overhead": None}}
            yield from _faults(item, pod_amounts(bare, "requests"), pod_amounts(bare, "limits"))


def _claim_faults(claim: Object, limits: list[Object]) -> Iterator[str]:
    requests = parsed(at(claim, "spec", "resources", "requests"))
    for item in limits:
        if item.get("type") == CLAIM:
            yield from _below(item, requests, {})
            for name, most in parsed(item.get("max")).items():
                usage = f"maximum {name} usage per {CLAIM} is {most}"
                if name not in requests:
                    yield f"{usage}.  No request is specified"
                elif _compare(requests[name], most) > 0:
                    yield f"{usage}, but request is {requests[name]}"


def _faults(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _below(item, requests, limits)
    yield from _above(item, requests, limits)
    for name, ratio in parsed(item.get("maxLimitRequestRatio")).items():
        yield from _ratio(
            f"{name} max limit to request ratio per {item['type']} is {ratio}", name, ratio, requests, limits
        )


def _below(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in parsed(item.get("min")).items():
        usage = f"minimum {name} usage per {item['type']} is {least}"
        if name not in requests:
            yield f"{usage}.  No request is specified"
        elif _compare(requests[name], least) < 0:
            yield f"{usage}, but request is {requests[name]}"
        elif name in limits and _compare(limits[name], least) < 0:
            yield f"{usage}, but limit is {limits[name]}"


def _above(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in parsed(item.get("max")).items():
        usage = f"maximum {name} usage per {item['type']} is {most}"
        if name not in limits:
            yield f"{usage}.  No limit is specified"
        elif _compare(limits[name], most) > 0:
            yield f"{usage}, but limit is {limits[name]}"
        elif name in requests and _compare(requests[name], most) > 0:
            yield f"{usage}, but request is {requests[name]}"


def _ratio(text: str, name: str, most: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    request, limit = requests.get(name, ZERO), limits.get(name, ZERO)
    if not request.value():
        yield f"{text}, but no request is specified or request is 0"
    elif not limit.value():
        yield f"{text}, but no limit is specified or limit is 0"
    else:
        observed = limit.milli() / request.milli()
        if observed * 1000 > most.milli():
            yield f"{text}, but provided ratio is {observed:f}"


def _compare(amount: Quantity, bound: Quantity) -> int:
    """Compare thousandths, or whole units of values that are too large, as upstream does."""
    if amount.value() <= LARGEST_MILLI and bound.value() <= LARGEST_MILLI:
        return amount.milli() - bound.milli()
    return amount.value() - bound.value()
