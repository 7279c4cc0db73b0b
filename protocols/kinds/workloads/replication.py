"""Strategies of replication controllers and templates of pods."""

from typing import ClassVar

from protocols.kinds.check.causes import Cause, invalid, required
from protocols.kinds.check.table import Struct, causes_of
from protocols.kinds.pods.warnings import pod_warnings
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.workloads.rules import numbers, status_check, within
from protocols.kinds.workloads.strategy import WorkloadStrategy, spec_of, template_of
from protocols.kinds.workloads.templates import (
    MISMATCH,
    always_causes,
    default_template,
    template_causes,
    template_labels,
)
from protocols.kube.meta import Object
from protocols.kube.objects import at

REPLICATION = Struct(fields=numbers("minReadySeconds", "replicas"))
READY_BOUND = ("availableReplicas", "readyReplicas", "cannot be greater than readyReplicas")
COUNTED = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
REPLICA_STATUS = status_check(COUNTED, [*within("replicas", *COUNTED[1:4]), READY_BOUND])


class ReplicationStrategy(WorkloadStrategy):
    """ReplicationControllers: selector and labels default to the labels of the template."""

    names_pods = True
    spec_defaults: ClassVar[Object] = {"replicas": 1}
    first_status: ClassVar[Object] = {"replicas": 0}
    status_rules = REPLICA_STATUS

    def default(self, obj: Object) -> None:
        super().default(obj)
        if given := template_labels(template_of(obj)):
            if not obj["spec"].get("selector"):
                obj["spec"]["selector"] = dict(given)
            if not at(obj, "metadata", "labels"):
                obj["metadata"]["labels"] = dict(given)

    def validate_create(self, obj: Object) -> list[Cause]:
        spec, template, path = spec_of(obj), template_of(obj), "spec.template"
        causes = causes_of(REPLICATION, "spec", spec)
        selector = spec.get("selector")
        if not selector:
            causes.append(required("spec.selector"))
        if not template:
            return [*causes, required(path)]
        if selector:
            given = template_labels(template)
            if not selector.items() <= given.items():
                causes.append(invalid(f"{path}.metadata.labels", given, MISMATCH))
        causes += template_causes(path, template)
        return causes + always_causes(path, template, "ReplicationController")


class TemplateStrategy(Strategy):
    """PodTemplates, which have no spec: the template itself counts for the generation."""

    has_generation = True
    ratcheted = "template"

    def default(self, obj: Object) -> None:
        default_template(obj.get("template"))

    def validate_create(self, obj: Object) -> list[Cause]:
        return template_causes("template", obj.get("template") or {})

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return pod_warnings(new.get("template") or {}, "template")

    def bumps_generation(self, new: Object, old: Object) -> bool:
        return new.get("template") != old.get("template")
