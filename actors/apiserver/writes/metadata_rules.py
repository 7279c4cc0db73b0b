"""What labels, annotations, owners and finalizers must look like, in the metadata of any object, embedded ones too."""

from collections.abc import Sequence

from actors.apiserver.api.errors.causes import Cause, invalid, required, too_long
from actors.apiserver.api.objects.paths import Obj
from protocols.kube.name_faults import label_value_faults, qualified_faults

MOST_ANNOTATIONS = 256 * 1024
"""Bytes of all keys and values together."""
CONTROLLERS = 'Only one reference can have Controller set to true. Found "true" in references for {} and {}'
APART = ("orphan", "foregroundDeletion")


def common_causes(metadata: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if labels := metadata.get("labels"):
        causes += _label_causes(labels, f"{path}.labels")
    if annotations := metadata.get("annotations"):
        causes += _annotation_causes(annotations, f"{path}.annotations")
    if owners := metadata.get("ownerReferences"):
        causes += _owner_causes(owners, f"{path}.ownerReferences")
    return causes


def finalizer_name_causes(finalizers: Sequence[str], path: str) -> list[Cause]:
    """Of a new object; old ones may keep what they have."""
    causes = [invalid(path, name, fault) for name in finalizers for fault in qualified_faults(name)]
    if all(name in finalizers for name in APART):
        causes.append(invalid(path, finalizers, f"finalizer {APART[0]} and {APART[1]} cannot be both set"))
    return causes


def _label_causes(labels: Obj, path: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        causes += [invalid(path, key, fault) for fault in qualified_faults(key)]
        causes += [invalid(path, value, fault) for fault in label_value_faults(value)]
    return causes


def _annotation_causes(annotations: Obj, path: str) -> list[Cause]:
    causes = [invalid(path, key, fault) for key in annotations for fault in qualified_faults(key.lower())]
    size = sum(len(key.encode()) + len(value.encode("utf-8", "replace")) for key, value in annotations.items())
    return [*causes, too_long(path, MOST_ANNOTATIONS)] if size > MOST_ANNOTATIONS else causes


def _owner_causes(owners: Sequence[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    controllers: list[str] = []
    for index, owner in enumerate(owners):
        where, version = f"{path}[{index}]", owner.get("apiVersion") or ""
        if not version:
            causes.append(required(f"{where}.apiVersion", "must not be empty"))
        elif version.count("/") > 1 or version.endswith("/"):
            causes.append(invalid(f"{where}.apiVersion", version, "must be <group>/<version> or <version>"))
        causes += [
            required(f"{where}.{field}", "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if (version, owner.get("kind")) == ("v1", "Event"):
            causes.append(invalid(where, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    others = [CONTROLLERS.format(controllers[0], other) for other in controllers[1:]]
    return causes + [invalid(path, list(owners), told) for told in others]
