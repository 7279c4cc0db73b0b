"""Rules of ObjectMeta: names, labels, annotations, owners and finalizers. Messages equal upstream's."""

from collections.abc import Sequence

from protocols.kinds.check.causes import Cause, forbidden, invalid, required, too_long
from protocols.kinds.check.table import causes_of
from protocols.kinds.check.values import labels as check_labels
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object
from protocols.kube.names import (
    LABEL,
    LABEL_TEXT,
    SUBDOMAIN,
    SUBDOMAIN_TEXT,
    path_segment_faults,
    qualified_faults,
)

NAME_NEEDED = "name or generateName is required"
LABEL_NAMES = ("namespaces", "services")
"""Kinds whose names are labels of DNS."""
ANY_BASE = ("deviceclasses.resource.k8s.io", "replicationcontrollers")
"""Kinds whose generateName Kubernetes 1.36 does not check: their names have declared rules, which leave it out."""
MOST_SHOWN = 20
"""Owners in a cause, and causes of owners that cannot be controllers."""
MOST_ANNOTATIONS = 256 * 1024
"""Bytes of all keys and values of the annotations."""
CONTROLLERS = 'Only one reference can have Controller set to true. Found "true" in references for {} and {}'
EXCLUSIVE_FINALIZERS = ("orphan", "foregroundDeletion")
STANDARD_FINALIZERS = ("kubernetes", *EXCLUSIVE_FINALIZERS)
UNQUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"


def common_causes(metadata: Object, path: str) -> list[Cause]:
    """Check labels, annotations and owners, which embedded resources have, too."""
    causes: list[Cause] = []
    if labels := metadata.get("labels"):
        causes += causes_of(check_labels, f"{path}.labels", labels)
    if annotations := metadata.get("annotations"):
        causes += _annotation_causes(annotations, f"{path}.annotations")
    if owners := metadata.get("ownerReferences"):
        causes += _owner_causes(owners, f"{path}.ownerReferences")
    return causes


def finalizer_name_causes(finalizers: Sequence[str], path: str, custom: bool = True) -> list[Cause]:
    """Validate new finalizers. Stored objects may keep invalid ones; only `custom` kinds may have unqualified names."""
    causes = [invalid(path, name, fault) for name in finalizers for fault in qualified_faults(name)]
    if not custom:
        causes += [
            invalid(f"{path}[{index}]", name, UNQUALIFIED)
            for index, name in enumerate(finalizers)
            if "/" not in name and name not in STANDARD_FINALIZERS
        ]
    if all(name in finalizers for name in EXCLUSIVE_FINALIZERS):
        causes.append(
            invalid(
                path,
                finalizers,
                f"finalizer {EXCLUSIVE_FINALIZERS[0]} and {EXCLUSIVE_FINALIZERS[1]} cannot be both set",
            )
        )
    return causes


def _annotation_causes(annotations: Object, path: str) -> list[Cause]:
    causes = [invalid(path, key, fault) for key in annotations for fault in qualified_faults(key.lower())]
    size = sum(len(key.encode()) + len(value.encode("utf-8", "replace")) for key, value in annotations.items())
    return [*causes, too_long(path, MOST_ANNOTATIONS)] if size > MOST_ANNOTATIONS else causes


def _owner_causes(owners: Sequence[Object], path: str) -> list[Cause]:
    """Validate the owners. Upstream's paths do not say which of them is meant."""
    causes: list[Cause] = []
    controllers: list[str] = []
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version:
            causes.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
        elif version.count("/") > 1 or version.endswith("/"):
            causes.append(invalid(f"{path}.apiVersion", version, "must be <group>/<version> or <version>"))
        causes += [
            invalid(f"{path}.{field}", "", f"{field} must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if (version, owner.get("kind")) == ("v1", "Event"):
            causes.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    # Each cause shows the whole list, as upstream's: without bounds, this grows with the square of the list.
    others = [CONTROLLERS.format(controllers[0], other) for other in controllers[1 : 1 + MOST_SHOWN]]
    return causes + [invalid(path, list(owners[:MOST_SHOWN]), text) for text in others]


def metadata_causes(obj: Object, resource: Served) -> list[Cause]:
    """Check the metadata of an object to store; the name obeys the rule of its resource."""
    metadata: Object = obj["metadata"]
    name = metadata.get("name") or ""
    causes = _name_causes(name, resource) if name else [required("metadata.name", NAME_NEEDED)]
    base = metadata.get("generateName")
    if base and resource.full_name not in ANY_BASE:
        causes += _name_causes(_masked(base), resource, "metadata.generateName")
    return causes + common_causes(metadata, "metadata")


def finalizer_causes(new: Object, old: Object, custom: bool = True) -> list[Cause]:
    """Validate changed finalizers. An object that is being deleted gets no new ones."""
    wanted, stored = new["metadata"].get("finalizers") or (), old["metadata"].get("finalizers") or ()
    if wanted == stored:
        return []
    causes = finalizer_name_causes(wanted, "metadata.finalizers", custom)
    known = frozenset(stored)
    added = [item for item in wanted if item not in known]
    if not added or not old["metadata"].get("deletionTimestamp"):
        return causes
    text = f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
    return [*causes, forbidden("metadata.finalizers", text)]


def _masked(base: str) -> str:
    """Return a base of names as if its trailing dash were a letter: a suffix follows."""
    return f"{base[:-1]}a" if len(base) > 1 and base.endswith("-") else base


def _name_causes(name: str, resource: Served, path: str = "metadata.name") -> list[Cause]:
    if resource.free_names:
        return [invalid(path, name, fault) for fault in path_segment_faults(name)]
    label = resource.full_name in LABEL_NAMES
    pattern, text, limit = (LABEL, LABEL_TEXT, 63) if label else (SUBDOMAIN, SUBDOMAIN_TEXT, 253)
    causes = [invalid(path, name, f"must be no more than {limit} characters")] if len(name) > limit else []
    return causes if pattern.fullmatch(name) else [*causes, invalid(path, name, text)]
