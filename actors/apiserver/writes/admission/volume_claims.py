"""Admission of volume claims: upstream's plugins DefaultStorageClass and PersistentVolumeClaimResize.

Clients match on the texts.
"""

from collections.abc import Iterable

from actors.apiserver.writes.admission.rule import Rule, Step
from actors.apiserver.writes.change import CREATE, UPDATE, Change
from protocols.kinds.storage.volumes import class_of, is_default
from protocols.kube.meta import Object, name_of
from protocols.kube.objects import at, text
from protocols.quota.amounts import parsed

CLAIMS = "persistentvolumeclaims"
NOT_BOUND = "Only bound persistent volume claims can be expanded"
FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


class DefaultStorageClass(Rule):
    """Set the default storage class of a new claim that names none; an empty name is one."""

    step, covers = Step.COMPLETE, {CLAIMS: (CREATE,)}

    def apply(self, change: Change) -> None:
        spec = change.sent.get("spec")
        if not isinstance(spec, dict) or spec.get("storageClassName") is not None or class_of(change.sent):
            return
        if name := default_class(self.given.storage_classes()):
            spec["storageClassName"] = name


class ClaimGrowth(Rule):
    """Check that a claim grows only if it is bound and its storage class allows it."""

    step, covers = Step.CHECK_VALID, {CLAIMS: (UPDATE,)}

    def apply(self, change: Change) -> None:
        if change.old is not None:
            change.reject(growth_fault(change.sent, change.old, self.given.storage_classes()))


def default_class(classes: Iterable[Object]) -> str:
    """Return the name of the default class, of several the newest; empty if there is none."""
    marked = sorted(filter(is_default, classes), key=name_of)
    return name_of(max(marked, key=lambda each: text(each, "metadata", "creationTimestamp"))) if marked else ""


def growth_fault(new: Object, old: Object, classes: Iterable[Object]) -> str:
    """Return why a claim may not grow; empty if it may, or does not."""
    now, before = (parsed(at(claim, "spec", "resources", "requests")).get("storage") for claim in (new, old))
    if now is None or (before is not None and now <= before):
        return ""
    if text(old, "status", "phase") != "Bound":
        return NOT_BOUND
    name = class_of(new)
    allows = any(name_of(each) == name and each.get("allowVolumeExpansion") is True for each in classes)
    return "" if name and name == class_of(old) and allows else FIXED
