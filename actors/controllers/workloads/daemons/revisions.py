"""ControllerRevisions: the history of a DaemonSet's template, as `kubectl rollout undo` reads it. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from actors.controllers.workloads.common.pods import REVISION_HASH, PodView
from actors.controllers.workloads.common.templates import owner_reference, same_template, template_hash, template_of
from protocols.kinds.table import CONTROLLERREVISIONS
from protocols.kube.meta import Object, annotations_of, labels_of, meta, name_of, namespace_of

DEFAULT_LIMIT = 10


class _History(msgspec.Struct, kw_only=True):
    current: Object | None = None
    """The revision of the current template; None if it must be created."""
    number: int = 1
    """Revision number that the current one must have."""
    duplicates: list[Object] = msgspec.field(default_factory=list)
    """Other revisions of the same template; pods have to be labelled with the current one before they go."""
    old: list[Object] = msgspec.field(default_factory=list)


def number_of(revision: Object) -> int:
    """Return the number by which revisions are ordered; 0 if it is missing."""
    return int(revision.get("revision") or 0)


def history_of(daemon_set: Object, revisions: Iterable[Object]) -> _History:
    """Sort the revisions of a DaemonSet by their template; the highest number is the newest."""
    template = template_of(daemon_set)
    same: list[Object] = []
    old: list[Object] = []
    for revision in sorted(revisions, key=number_of):
        (same if same_template(stored_template(revision), template) else old).append(revision)
    last = number_of(old[-1]) if old else 0
    current = same[-1] if same else None
    number = max(last + 1, number_of(current) if current else 0)
    return _History(current=current, number=number, duplicates=same[:-1], old=old)


def stored_template(revision: Object) -> Object:
    """Return the template of a revision, without the directive of the patch it is stored as."""
    template = ((revision.get("data") or {}).get("spec") or {}).get("template") or {}
    return {name: value for name, value in template.items() if name != "$patch"}


def hash_of(revision: Object) -> str:
    """Return the label by which pods of a revision are found."""
    return labels_of(revision).get(REVISION_HASH) or name_of(revision)


def new_revision(daemon_set: Object, number: int) -> Object:
    """Return the revision for the current template; its name follows from the content."""
    template = template_of(daemon_set)
    digest = template_hash(template, int((daemon_set.get("status") or {}).get("collisionCount") or 0))
    return {
        **CONTROLLERREVISIONS.type_meta,
        "metadata": {
            "name": f"{name_of(daemon_set)}-{digest}",
            "namespace": namespace_of(daemon_set),
            "labels": {**(meta(template).get("labels") or {}), REVISION_HASH: digest},
            "annotations": dict(annotations_of(daemon_set)),
            "ownerReferences": [owner_reference(daemon_set)],
        },
        "data": _sorted({"spec": {"template": {**template, "$patch": "replace"}}}),
        "revision": number,
    }


def _sorted(value: Any) -> Any:
    """Return a value with its keys in the order in which Go writes maps: kubectl and upstream compare the bytes."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=str.encode)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def surplus(daemon_set: Object, old: Sequence[Object], pods: Iterable[PodView]) -> list[Object]:
    """Return the oldest revisions above revisionHistoryLimit, except those that pods have."""
    limit = (daemon_set.get("spec") or {}).get("revisionHistoryLimit")
    count = len(old) - (DEFAULT_LIMIT if limit is None else int(limit))
    used = {pod.labels.get(REVISION_HASH) for pod in pods}
    return [revision for revision in old if hash_of(revision) not in used][: max(0, count)]
