"""Validate the mirror annotation: set at creation or never, and a mirror pod has a node."""

from actors.apiserver.api.causes import Cause, forbidden, invalid
from actors.apiserver.api.objects import MIRROR, Obj, at, is_mirror, text

FIELD = f"metadata.annotations[{MIRROR}]"


def mirror_causes(pod: Obj) -> list[Cause]:
    """Return the faults of a new pod's annotation."""
    if not is_mirror(pod) or text(pod, "spec", "nodeName"):
        return []
    value = at(pod, "metadata", "annotations", MIRROR)
    return [invalid(FIELD, value, "must set spec.nodeName if mirror pod annotation is set")]


def mirror_change_causes(new: Obj, old: Obj) -> list[Cause]:
    """Return the faults of a changed annotation. Call it on every path that writes metadata."""
    if not is_mirror(old):
        return [forbidden(FIELD, "may not add mirror pod annotation")] if is_mirror(new) else []
    now = (at(new, "metadata", "annotations") or {}).get(MIRROR)
    same = is_mirror(new) and now == at(old, "metadata", "annotations", MIRROR)
    return [] if same else [forbidden(FIELD, "may not remove or update mirror pod annotation")]
