"""The pods resource: defaults, status subresource, graceful deletion."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause
from protocols.kinds.check.table import causes_of
from protocols.kinds.pods import columns as pod_cells
from protocols.kinds.pods.annotations import (
    annotation_causes,
    annotation_change_causes,
    apply_apparmor,
    mirror_causes,
    profile_causes,
)
from protocols.kinds.pods.changes import spec_change_causes
from protocols.kinds.pods.defaults import (
    GRACE_SECONDS,
    add_default_tolerations,
    apply_defaults,
    drop_alpha_sources,
    initial_status,
    keep_priority,
    merge_label_keys,
    qos_class,
)
from protocols.kinds.pods.health import drop_disabled, health_causes
from protocols.kinds.pods.rules import IMAGES, pod_causes, token_causes
from protocols.kinds.pods.spec.claims import claim_causes
from protocols.kinds.pods.status import complete_status, status_causes
from protocols.kinds.pods.subresources import (
    created_causes,
    ephemeral_causes,
    keep_ephemeral,
    keep_resize,
    resize_causes,
)
from protocols.kinds.pods.warnings import name_warnings, pod_warnings
from protocols.kinds.served.columns import AGE, NAME, NONE, cell, field
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, text
from protocols.kube.pods import is_finished, node_of

PARTS = {"ephemeralcontainers": (keep_ephemeral, ephemeral_causes), "resize": (keep_resize, resize_causes)}
"""Spec changes that have their own subresource."""


class PodStrategy(Strategy):
    """Pods: the spec is immutable but for a few fields and subresources."""

    has_status = True
    status_keeps = ("ownerReferences",)
    parts = tuple(PARTS)
    has_generation = True
    ratcheted = "spec"

    def default(self, obj: Object) -> None:
        apply_defaults(obj)

    def prepare_create(self, obj: Object) -> None:
        drop_alpha_sources(obj)
        obj.pop("status", None)
        obj["status"] = initial_status(obj)
        add_default_tolerations(obj)
        merge_label_keys(obj)
        apply_apparmor(obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        keep_priority(new, old)
        add_default_tolerations(new)
        if new.get("spec") != old.get("spec"):
            drop_alpha_sources(new)

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        status = new.setdefault("status", {})
        if isinstance(status, dict):
            status.setdefault("qosClass", at(old, "status", "qosClass") or qos_class(old))
            drop_disabled(status, old.get("status"), self.gate)
            complete_status(status, old.get("status") or {})

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return status_causes(new, old) + health_causes(new) + annotation_change_causes(new, old)

    def validate_create(self, obj: Object) -> list[Cause]:
        causes = self._causes(obj) + created_causes(obj) + mirror_causes(obj) + annotation_causes(obj)
        return [*causes, *profile_causes(obj)]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Check a changed spec: one that a server with fewer rules stored must not hold a finalizer for ever."""
        causes = self._causes(new) if new.get("spec") != old.get("spec") else []
        return causes + spec_change_causes(new, old) + annotation_change_causes(new, old)

    @staticmethod
    def _causes(pod: Object) -> list[Cause]:
        return pod_causes(pod) + claim_causes(pod) + causes_of(IMAGES, "", pod) + token_causes(pod)

    def part(self, subresource: str, new: Object, old: Object) -> list[Cause]:
        keep, causes = PARTS[subresource]
        keep(new, old)
        return causes(new, old)

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        """Return the grace period; 0 for a pod that has no node or has finished."""
        if not node_of(obj) or is_finished(obj):
            return 0
        stored = at(obj, "spec", "terminationGracePeriodSeconds")
        grace = stored if asked is None else asked
        if not isinstance(grace, int):
            return GRACE_SECONDS
        return 1 if grace < 0 else grace

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return [*name_warnings(new), *pod_warnings(new)] if old is None else []


PODS = Served(
    **asdict(kinds.PODS),
    strategy=PodStrategy(),
    columns=(
        NAME,
        Column("Ready", pod_cells.ready),
        Column("Status", pod_cells.status),
        Column("Restarts", pod_cells.restarts),
        AGE,
        Column("IP", pod_cells.ip, 1),
        Column("Node", cell("spec", "nodeName", missing=NONE), 1),
        Column("Nominated Node", cell("status", "nominatedNodeName", missing=NONE), 1),
        Column("Readiness Gates", pod_cells.gates, 1),
    ),
    row_conditions=pod_cells.CONDITIONS,
    subresources=(
        Subresource("attach", ("create", "get"), "PodAttachOptions", version="v1"),
        Subresource("binding", ("create",), "Binding", version="v1"),
        Subresource("ephemeralcontainers", STATUS_VERBS, "Pod", version="v1"),
        Subresource("eviction", ("create",), "Eviction", "policy", "v1"),
        Subresource("exec", ("create", "get"), "PodExecOptions", version="v1"),
        Subresource("log", ("get",), "Pod", version="v1"),
        Subresource("portforward", ("create", "get"), "PodPortForwardOptions", version="v1"),
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), "PodProxyOptions", version="v1"),
        Subresource("resize", STATUS_VERBS, "Pod", version="v1"),
        Subresource("status", STATUS_VERBS, "Pod", version="v1"),
    ),
    fields={
        "spec.nodeName": field("spec", "nodeName"),
        "spec.host": field("spec", "nodeName"),
        "spec.restartPolicy": field("spec", "restartPolicy"),
        "spec.schedulerName": field("spec", "schedulerName"),
        "spec.serviceAccountName": field("spec", "serviceAccountName"),
        "spec.hostNetwork": lambda pod: text(pod, "spec", "hostNetwork") or "false",
        "status.phase": field("status", "phase"),
        "status.podIP": field("status", "podIP"),
        "status.podIPs": lambda pod: "",  # upstream takes the selector and gives the field no value
        "status.nominatedNodeName": field("status", "nominatedNodeName"),
    },
    returns_object=True,
)
