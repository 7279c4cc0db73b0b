"""The strategy that workloads share: a template, a status, a generation."""

from typing import Any, ClassVar

from protocols.kinds.check.causes import Cause
from protocols.kinds.pods.warnings import pod_warnings
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.workloads.rules import collision_causes
from protocols.kinds.workloads.templates import default_template
from protocols.kube.meta import Object
from protocols.kube.names import label_faults
from protocols.kube.objects import at

POD_NAMES = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is "
    "recommended"
)


def fill(target: Object, defaults: dict[str, Any]) -> None:
    """Set the fields that are absent or null."""
    for field, value in defaults.items():
        if target.get(field) is None:
            target[field] = value


class WorkloadStrategy(Strategy):
    """Subclasses name their defaults and checks."""

    has_status = True
    has_generation = True
    ratcheted = "spec.template"
    spec_defaults: ClassVar[Object] = {}
    first_status: ClassVar[Object] = {}
    names_pods: bool = False
    """Names of pods begin with the name of the object, so that it should be a label."""

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if isinstance(spec, dict):
            fill(spec, self.spec_defaults)
            default_template(spec.get("template"))

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = dict(self.first_status)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        name = new["metadata"].get("name") or ""
        faults = label_faults(name) if self.names_pods and old is None else []
        name_warnings = [f"{POD_NAMES}: [{' '.join(faults)}]"] if faults else []
        changed = old is None or self.bumps_generation(new, old)
        return name_warnings + (self.template_warnings(new) if changed else [])

    def template_warnings(self, new: Object) -> list[str]:
        """Return warnings about the template of pods."""
        return pod_warnings(template_of(new), "spec.template")

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return super().validate_status(new, old) + collision_causes(new, old)


def spec_of(obj: Object) -> Object:
    """Return the object's spec; an empty map if it is missing."""
    return obj.get("spec") or {}


def template_of(obj: Object) -> Object:
    """Return spec.template; an empty map if it is missing."""
    return at(obj, "spec", "template") or {}
