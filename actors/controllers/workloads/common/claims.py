"""Which objects a controller has: those it owns, adopts and releases. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from actors.controllers.workloads.common.pods import owner_of
from actors.controllers.workloads.common.templates import owner_reference
from protocols.kinds.table import REPLICATIONCONTROLLERS
from protocols.kube.errors import SelectorInvalid
from protocols.kube.meta import Object, labels_of, meta, terminating, uid_of
from protocols.kube.selectors import LabelSelector, label_selector_from_object

T = TypeVar("T")


class _Claims(msgspec.Struct, Generic[T]):
    owned: list[T] = msgspec.field(default_factory=list)
    adopt: list[T] = msgspec.field(default_factory=list)
    """Match the selector and have no controller."""
    release: list[T] = msgspec.field(default_factory=list)
    """Ours, but their labels do not match any more."""


def selector_of(obj: Object) -> LabelSelector | None:
    """Return the selector of a workload; None for one that is missing, empty or cannot be read."""
    try:
        selector = (obj.get("spec") or {}).get("selector")
        if obj.get("kind") == REPLICATIONCONTROLLERS.kind and selector is not None:
            selector = {"matchLabels": selector}
        parsed = label_selector_from_object(selector)
    except (SelectorInvalid, TypeError, ValueError, AttributeError):
        return None
    return parsed or None


def claim(owner: Object, candidates: Iterable[T], as_object: Callable[[T], Object]) -> _Claims[T]:
    """Sort candidates, pods or ReplicaSets, by what the owner must do with them. As upstream's ControllerRefManager."""
    claims: _Claims[T] = _Claims()
    selector, uid = selector_of(owner), uid_of(owner)
    for candidate in candidates:
        obj = as_object(candidate)
        controller, matches = owner_of(obj), selector is not None and selector.matches(labels_of(obj))
        if controller is not None and controller.uid == uid:
            (claims.owned if matches or terminating(owner) else claims.release).append(candidate)
        elif controller is None and matches and not terminating(owner) and not terminating(obj):
            claims.adopt.append(candidate)
    return claims


def adoption(owner: Object, obj: Object) -> Object:
    """Return the merge patch that makes `owner` the controller; other owners stay."""
    return _patch(obj, [*(meta(obj).get("ownerReferences") or ()), owner_reference(owner)])


def release(owner: Object, obj: Object) -> Object:
    """Return the patch that removes the owner from an object's owner references."""
    references = meta(obj).get("ownerReferences") or ()
    return _patch(obj, [reference for reference in references if reference.get("uid") != uid_of(owner)])


def _patch(obj: Object, references: Sequence[Mapping[str, Any]]) -> Object:
    """The resourceVersion makes the write fail if someone else changed the owners."""
    metadata = meta(obj)
    guard = {field: metadata[field] for field in ("uid", "resourceVersion")}
    return {"metadata": {**guard, "ownerReferences": references}}
