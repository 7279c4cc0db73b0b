"""Namespaces: Active while `spec.finalizers` is set, Terminating from deletion until the content is gone."""

from collections.abc import Sequence

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid
from protocols.kinds.served.columns import AGE, NAME, cell, field
from protocols.kinds.served.object_meta import STANDARD_FINALIZERS, UNQUALIFIED, finalizer_name_causes
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy, restore, restore_all_but
from protocols.kube.meta import Object
from protocols.kube.objects import at

FINALIZER = "kubernetes"
"""Finalizer of every new namespace; the namespace controller removes it through /finalize."""
PROTECTED = ("default", "kube-system", "kube-public")
NAME_LABEL = "kubernetes.io/metadata.name"


def _finalizer_causes(path: str, names: Sequence[str]) -> list[Cause]:
    plain = [name for name in names if name and "/" not in name and name not in STANDARD_FINALIZERS]
    return finalizer_name_causes(names, path) or [invalid(path, name, UNQUALIFIED) for name in plain]


class _NamespaceStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        metadata = obj["metadata"]
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}

    def prepare_create(self, obj: Object) -> None:
        self.default(obj)
        finalizers = list((obj.get("spec") or {}).get("finalizers") or [])
        obj["spec"] = {"finalizers": finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]}
        obj["status"] = {"phase": "Active"}

    def validate_create(self, obj: Object) -> list[Cause]:
        return _finalizer_causes("spec.finalizers", at(obj, "spec", "finalizers") or ())

    def validate_finalize(self, new: Object) -> list[Cause]:
        """Check each finalizer; other than of a new namespace, upstream's paths have the index."""
        names = enumerate(at(new, "spec", "finalizers") or ())
        return [cause for index, name in names for cause in _finalizer_causes(f"spec.finalizers[{index}]", (name,))]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return []

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        phase, leaving = at(new, "status", "phase"), bool(at(new, "metadata", "deletionTimestamp"))
        if phase == ("Terminating" if leaving else "Active"):
            return []
        only, state = ("Terminating", "not empty") if leaving else ("Active", "empty")
        return [invalid("status.Phase", phase, f"may only be '{only}' if `deletionTimestamp` is {state}")]

    def protected(self, obj: Object) -> str:
        return "this namespace may not be deleted" if obj["metadata"]["name"] in PROTECTED else ""

    def prepare_update(self, new: Object, old: Object) -> None:
        restore(new, old, "spec", "status")

    def default_status(self, obj: Object) -> None:
        self.default(obj)  # the label retains its owner

    def prepare_status(self, new: Object, old: Object) -> None:
        restore_all_but(new, old, "status", "metadata")
        if (new.get("status") or {}).get("phase") is None:
            new["status"] = {**(new.get("status") or {}), "phase": "Active"}

    def prepare_finalize(self, new: Object, old: Object) -> None:
        """Apply the finalize subresource: only spec.finalizers changes."""
        finalizers = (new.get("spec") or {}).get("finalizers")
        restore_all_but(new, old)
        new["spec"] = {**(old.get("spec") or {}), "finalizers": finalizers or []}
        if not finalizers:
            new["spec"].pop("finalizers")


NAMESPACES = Served(
    **asdict(kinds.NAMESPACES),
    strategy=_NamespaceStrategy(),
    columns=(NAME, Column("Status", cell("status", "phase")), AGE),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=(
        Subresource("finalize", ("update",), "Namespace", version="v1"),
        Subresource("status", STATUS_VERBS, "Namespace", version="v1"),
    ),
    fields={"status.phase": field("status", "phase")},
    returns_object=True,
)
