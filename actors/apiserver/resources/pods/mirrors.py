"""The annotation of mirror pods: who may set it. Messages equal upstream's."""

from actors.apiserver.api.causes import Cause, forbidden, invalid
from actors.apiserver.api.objects import MIRROR, at, is_mirror, text
from protocols.kube.meta import Object

MIRROR_FIELD = f"metadata.annotations[{MIRROR}]"


def mirror_causes(pod: Object) -> list[Cause]:
    """Return the faults of a new pod's annotation."""
    if not is_mirror(pod) or text(pod, "spec", "nodeName"):
        return []
    value = at(pod, "metadata", "annotations", MIRROR)
    return [invalid(MIRROR_FIELD, value, "must set spec.nodeName if mirror pod annotation is set")]


def mirror_change_causes(new: Object, old: Object) -> list[Cause]:
    """Return the faults of a changed annotation. Call it on every path that writes metadata."""
    if not is_mirror(old):
        return [forbidden(MIRROR_FIELD, "may not add mirror pod annotation")] if is_mirror(new) else []
    now = (at(new, "metadata", "annotations") or {}).get(MIRROR)
    same = is_mirror(new) and now == at(old, "metadata", "annotations", MIRROR)
    return [] if same else [forbidden(MIRROR_FIELD, "may not remove or update mirror pod annotation")]
