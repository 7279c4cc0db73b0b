"""The strategy of stateful sets. Messages equal upstream's."""

from typing import ClassVar

from protocols.kinds.check.causes import Cause, forbidden, invalid, required
from protocols.kinds.check.table import Causes, Struct, causes_of, one_of
from protocols.kinds.check.values import label
from protocols.kinds.check.warnings import claim_warnings
from protocols.kinds.storage.claim_spec import claim_spec
from protocols.kinds.workloads.rules import (
    amount,
    int_or_percent,
    numbers,
    status_check,
    strategy_shown,
    up_to_all,
    within,
)
from protocols.kinds.workloads.strategy import WorkloadStrategy, fill, spec_of, template_of
from protocols.kinds.workloads.templates import (
    always_causes,
    mismatch_causes,
    selector_causes,
    template_causes,
)
from protocols.kube.meta import Object
from protocols.kube.names import label_faults, subdomain_faults
from protocols.kube.objects import at, items

ROLLING, ON_DELETE = "RollingUpdate", "OnDelete"
TEMPLATE = "spec.template"
ORDERED, PARALLEL = "OrderedReady", "Parallel"
RETENTION = {"whenDeleted": "Retain", "whenScaled": "Retain"}
CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
NEGATIVE_HISTORY = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)
COUNTED = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_retention = one_of("Retain", "Delete", empty=True)


def _unavailable(path: str, value: int | str, causes: Causes) -> None:
    int_or_percent(path, value, causes)
    if not amount(value):
        causes.append(invalid(path, value, "cannot be 0"))
    up_to_all(path, value, causes)


CHECKS = Struct(
    persistentVolumeClaimRetentionPolicy=Struct(whenDeleted=_retention, whenScaled=_retention),
    ordinals=Struct(fields=numbers("start")),
    fields=numbers("replicas", "minReadySeconds"),
)
ROLLING_CHECKS = Struct(maxUnavailable=_unavailable, fields=numbers("partition"))


class StatefulSetStrategy(WorkloadStrategy):
    """StatefulSets: ordinals and claims follow from the name, so most of the spec is immutable."""

    spec_defaults: ClassVar[Object] = {"podManagementPolicy": ORDERED, "replicas": 1, "revisionHistoryLimit": 10}
    first_status: ClassVar[Object] = {"availableReplicas": 0, "replicas": 0}
    status_rules = status_check(
        (*COUNTED, "observedGeneration", "collisionCount"),
        [
            *within("replicas", *COUNTED[1:]),
            ("availableReplicas", "readyReplicas", "cannot be greater than status.readyReplicas"),
        ],
    )

    def default(self, obj: Object) -> None:
        super().default(obj)
        spec = obj["spec"]
        _default_update(spec)
        if isinstance(kept := spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), dict):
            fill(kept, RETENTION)
        for claim in items(spec, "volumeClaimTemplates"):
            claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        is_negative = (at(new, "spec", "revisionHistoryLimit") or 0) < 0
        return super().warnings(new, old) + [NEGATIVE_HISTORY] * is_negative

    def template_warnings(self, new: Object) -> list[str]:
        """Return warnings about the template and about the claims, whose paths upstream shortens."""
        claims = enumerate(items(new, "spec", "volumeClaimTemplates"))
        found = (
            claim_warnings(f"spec.volumeClaimTemplates[{index}]", claim.get("spec") or {}) for index, claim in claims
        )
        return super().template_warnings(new) + [text for warnings in found for text in warnings]

    def validate_create(self, obj: Object) -> list[Cause]:
        name, service = obj["metadata"].get("name") or "", spec_of(obj).get("serviceName") or ""
        faults = label_faults(name) if name and not subdomain_faults(name) else ()
        causes = [invalid("metadata.name", name, fault) for fault in faults] + _spec_causes(obj)
        return causes + causes_of(label, "spec.serviceName", service) + _claim_causes(obj) + _pod_causes(obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Validate the spec. The pods of a set that is stored with an invalid template are not checked."""
        before, after = spec_of(old), spec_of(new)
        causes = _spec_causes(new) + ([] if _pod_causes(old) else _pod_causes(new))
        changed = {field for field in {*before, *after} if before.get(field) != after.get(field)}
        return [*causes, forbidden("spec", FORBIDDEN)] if changed - set(CHANGEABLE) else causes


def _spec_causes(obj: Object) -> Causes:
    spec, template, selector = spec_of(obj), template_of(obj), at(obj, "spec", "selector")
    causes = _policy_causes(spec) + causes_of(CHECKS, "spec", spec)
    causes += selector_causes(selector, "empty selector is invalid for statefulset", "")
    causes += mismatch_causes(TEMPLATE, template, selector) if selector != {} else []
    return causes + always_causes(TEMPLATE, template, "StatefulSet")


def _pod_causes(obj: Object) -> Causes:
    """Check the template with the volumes that the pods get from claims."""
    template = template_of(obj)
    spec = template.get("spec") or {}
    claims = [str(at(claim, "metadata", "name") or "") for claim in items(obj, "spec", "volumeClaimTemplates")]
    if claims:
        names = dict.fromkeys(claims)
        claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        rest = [volume for volume in items(spec, "volumes") if volume.get("name") not in names]
        template = {**template, "spec": {**spec, "volumes": [*claimed, *rest]}}
    return template_causes(TEMPLATE, template)


def _claim_causes(obj: Object) -> Causes:
    return [
        cause
        for index, claim in enumerate(items(obj, "spec", "volumeClaimTemplates"))
        for cause in causes_of(claim_spec, f"spec.volumeClaimTemplates[{index}].spec", claim.get("spec") or {})
    ]


def _default_update(spec: Object) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = ROLLING
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == ROLLING and (rolling := strategy.get("rollingUpdate")) is not None:
        rolling.setdefault("partition", 0)


def _policy_causes(spec: Object) -> Causes:
    causes: Causes = []
    policy, strategy = spec.get("podManagementPolicy"), spec.get("updateStrategy") or {}
    if policy not in (ORDERED, PARALLEL):
        causes.append(invalid("spec.podManagementPolicy", policy, f"must be '{ORDERED}' or '{PARALLEL}'"))
    path, rolling = "spec.updateStrategy", strategy.get("rollingUpdate")
    if not strategy.get("type"):
        causes.append(required(path))
    elif strategy["type"] == ROLLING:
        causes += causes_of(ROLLING_CHECKS, f"{path}.rollingUpdate", rolling or {})
    elif strategy["type"] != ON_DELETE:
        causes.append(invalid(path, strategy_shown(strategy), f"must be '{ROLLING}' or '{ON_DELETE}'"))
    elif rolling is not None:
        causes.append(invalid(f"{path}.rollingUpdate", rolling, f"only allowed for updateStrategy '{ROLLING}'"))
    return causes
