"""Strategies of deployments, replica sets, daemon sets and controller revisions."""

from typing import Any, ClassVar

from protocols.kinds.check.causes import Cause, forbidden, invalid, required, unsupported
from protocols.kinds.check.table import Causes, Ordered, Struct, causes_of, changed_causes, present
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.workloads.replication import REPLICA_STATUS
from protocols.kinds.workloads.rules import (
    amount,
    int_or_percent,
    not_negative,
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
from protocols.kube.objects import at

TEMPLATE = "spec.template"
ROLLING, RECREATE, ON_DELETE = "RollingUpdate", "Recreate", "OnDelete"
EMPTY_FOR_DEPLOYMENT = "empty selector is invalid for deployment"


S = ("spec", "selector")


class AppsStrategy(WorkloadStrategy):
    """A workload whose selector never changes."""

    immutable = ("spec.selector",)


def default_rolling(spec: Object, field: str, defaults: dict[str, Any]) -> None:
    """Set the defaults of an update strategy."""
    strategy = spec.setdefault(field, {})
    strategy["type"] = strategy.get("type") or ROLLING
    if strategy["type"] == ROLLING:
        fill(strategy.setdefault("rollingUpdate", {}), defaults)


def replicated_causes(template: Object, selector: Object | None) -> Causes:
    """Check the template of a deployment or replica set."""
    causes = mismatch_causes(TEMPLATE, template, selector) if selector != {} else []
    return [*causes, *template_causes(TEMPLATE, template), *always_causes(TEMPLATE, template, "ReplicaSet")]


REPLICAS = Struct(fields=numbers("replicas"))
LATER = Struct(fields=numbers("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"))


class DeploymentStrategy(AppsStrategy):
    """Deployments: their annotations are copied to replica sets, so that a change of one counts for the generation."""

    names_pods = True
    status_keeps = ("labels",)
    spec_defaults: ClassVar[Object] = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
    status_rules = status_check(
        (
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ),
        [
            *within("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
            ("availableReplicas", "readyReplicas", "cannot be greater than readyReplicas"),
        ],
    )

    def default(self, obj: Object) -> None:
        super().default(obj)
        default_rolling(obj["spec"], "strategy", {"maxUnavailable": "25%", "maxSurge": "25%"})

    def validate_create(self, obj: Object) -> list[Cause]:
        spec, selector = spec_of(obj), at(obj, *S)
        causes = causes_of(REPLICAS, "spec", spec) + selector_causes(selector, EMPTY_FOR_DEPLOYMENT)
        causes += replicated_causes(template_of(obj), selector)
        causes += _strategy_causes("spec.strategy", spec.get("strategy") or {})
        causes += causes_of(LATER, "spec", spec)
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
            causes.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
        return causes

    def bumps_generation(self, new: Object, old: Object) -> bool:
        """Annotations of a deployment are copied to its replica sets, so they count, too."""
        return super().bumps_generation(new, old) or _annotations(new) != _annotations(old)


def _annotations(obj: Object) -> Object:
    return at(obj, "metadata", "annotations") or {}


def _strategy_causes(path: str, strategy: Object) -> Causes:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == RECREATE:
        text = f"may not be specified when strategy `type` is '{RECREATE}'"
        return [forbidden(f"{path}.rollingUpdate", text)] if rolling is not None else []
    if kind != ROLLING:
        return [unsupported(path, strategy_shown(strategy), (RECREATE, ROLLING))]
    path, rolling = f"{path}.rollingUpdate", rolling or {}
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    causes = causes_of(int_or_percent, f"{path}.maxUnavailable", unavailable)
    causes += causes_of(int_or_percent, f"{path}.maxSurge", surge)
    if not amount(unavailable) and not amount(surge):
        causes.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return causes + causes_of(up_to_all, f"{path}.maxUnavailable", unavailable)


class ReplicaSetStrategy(AppsStrategy):
    """ReplicaSets, of users and of the deployment controller."""

    names_pods = True
    spec_defaults: ClassVar[Object] = {"replicas": 1}
    first_status: ClassVar[Object] = {"replicas": 0}
    status_rules = REPLICA_STATUS

    def validate_create(self, obj: Object) -> list[Cause]:
        spec, selector = spec_of(obj), at(obj, *S)
        causes = causes_of(Struct(fields=numbers("replicas", "minReadySeconds")), "spec", spec)
        causes += selector_causes(selector, EMPTY_FOR_DEPLOYMENT)
        return causes + replicated_causes(template_of(obj), selector)


GENERATION = "deprecated.daemonset.template.generation"
SCHEDULED = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


class DaemonSetStrategy(AppsStrategy):
    """DaemonSets: an annotation counts changes of the template for clients of old versions, as upstream."""

    spec_defaults: ClassVar[Object] = {"revisionHistoryLimit": 10}
    first_status: ClassVar[Object] = dict.fromkeys(SCHEDULED, 0)
    status_rules = status_check(
        (*SCHEDULED, "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable")
    )

    def default(self, obj: Object) -> None:
        super().default(obj)
        default_rolling(obj["spec"], "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})
        self.default_status(obj)

    def default_status(self, obj: Object) -> None:
        if not _generation(obj):  # a default, so that the author owns it
            _count_templates(obj, 0)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _count_templates(obj, 1)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        number = _generation(old) or 1
        _count_templates(new, number + (at(new, "spec", "template") != at(old, "spec", "template")))

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        _count_templates(new, _generation(old) or 1)

    def validate_create(self, obj: Object) -> list[Cause]:
        spec, template, selector = spec_of(obj), template_of(obj), at(obj, *S)
        # Upstream reports a missing selector only by its mismatch.
        empty = "empty selector is invalid for daemonset"
        causes = [] if selector is None else selector_causes(selector, empty, None)
        causes += mismatch_causes(TEMPLATE, template, selector)
        causes += template_causes(TEMPLATE, template) + always_causes(TEMPLATE, template, "DaemonSet")
        causes += causes_of(Struct(fields=numbers("minReadySeconds")), "spec", spec)
        causes += _daemon_update_causes("spec.updateStrategy", spec.get("updateStrategy") or {})
        return causes + causes_of(Struct(fields=numbers("revisionHistoryLimit")), "spec", spec)


def _generation(obj: Object) -> int:
    held = at(obj, "metadata", "annotations", GENERATION)
    return int(held) if isinstance(held, str) and held.isdigit() and held.isascii() and len(held) < 19 else 0


def _count_templates(obj: Object, number: int) -> None:
    """Set the number of the template, which upstream retains for clients of old versions."""
    annotations = at(obj, "metadata", "annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, GENERATION: str(number)}


def _daemon_update_causes(path: str, strategy: Object) -> Causes:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == ON_DELETE:
        return []
    if kind != ROLLING:
        return [unsupported(path, strategy_shown(strategy), (ROLLING, ON_DELETE))]
    path, rolling = f"{path}.rollingUpdate", rolling or {}
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    pairs = ((f"{path}.maxUnavailable", unavailable), (f"{path}.maxSurge", surge))
    causes = [cause for check in (int_or_percent, up_to_all) for pair in pairs for cause in causes_of(check, *pair)]
    if amount(unavailable) and amount(surge):
        causes.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not amount(unavailable) and not amount(surge):
        causes.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _json_object(path: str, data: Any, causes: Causes) -> None:
    if not isinstance(data, dict):
        causes.append(required(path, "data must be a valid JSON object"))


class RevisionStrategy(Strategy):
    """ControllerRevisions: data is immutable and any object; only the number may change."""

    rules = Ordered("data", data=present(_json_object, "data is mandatory"), revision=not_negative)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Report data that is gone as changed only."""
        return changed_causes(new, old, "data") + causes_of(Ordered(revision=not_negative), "", new)
