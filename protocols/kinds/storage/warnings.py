"""Warnings about deprecated parts of persistent volumes and claims. Texts equal upstream's."""

from collections.abc import Iterator

from protocols.kinds.check.warnings import VOLUMES, node_term_warnings
from protocols.kube.meta import Object
from protocols.kube.objects import at, items

CLASS_ANNOTATION, OPTIONS_ANNOTATION = (
    f"volume.beta.kubernetes.io/{name}" for name in ("storage-class", "mount-options")
)
ANNOTATIONS = {
    CLASS_ANNOTATION: 'deprecated since v1.8; use "storageClassName" attribute instead',
    OPTIONS_ANNOTATION: 'deprecated since v1.31; use "mountOptions" attribute instead',
}
RECYCLE = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach "
    "is to use dynamic provisioning."
)
TERMS = "spec.nodeAffinity.required.nodeSelectorTerms"


def annotation_warnings(obj: Object, *keys: str) -> list[str]:
    """Return warnings about those annotations that fields replace."""
    given = at(obj, "metadata", "annotations") or {}
    return [f"metadata.annotations[{key}]: {ANNOTATIONS[key]}" for key in keys if key in given]


def volume_warnings(volume: Object) -> list[str]:
    """Return the warnings about a persistent volume that is written."""
    return [*annotation_warnings(volume, *ANNOTATIONS), *_of_spec(volume.get("spec") or {})]


def _of_spec(spec: Object) -> Iterator[str]:
    for index, term in enumerate(items(spec, "nodeAffinity", "required", "nodeSelectorTerms")):
        yield from node_term_warnings(f"{TERMS}[{index}]", term)
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield RECYCLE
    yield from (f"spec.{kind}: {text}" for kind, text in VOLUMES.items() if spec.get(kind) is not None)
