"""Mirror pods: what the API shows of the static pods a node runs from its own files."""

from actors.apiserver.api.objects.paths import Obj, at

MIRROR = "kubernetes.io/config.mirror"


def is_mirror(pod: Obj) -> bool:
    """Return whether the pod carries the mirror annotation, whatever its value."""
    return MIRROR in (at(pod, "metadata", "annotations") or {})
