"""Templates of pods: defaults and validation. Messages equal upstream's."""

from protocols.kinds.check.causes import Cause, forbidden, invalid, required, unsupported
from protocols.kinds.check.metadata import annotations
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Causes, causes_of
from protocols.kinds.check.values import labels
from protocols.kinds.pods.annotations import annotation_causes, profile_causes
from protocols.kinds.pods.defaults import default_spec
from protocols.kinds.pods.rules import pod_causes
from protocols.kinds.pods.spec.claims import claim_causes
from protocols.kube.errors import KubeError
from protocols.kube.meta import Object
from protocols.kube.objects import at, items
from protocols.kube.selectors import LabelSelector, label_selector_from_object

MISMATCH = "`selector` does not match template `labels`"
ALWAYS = "Always"


def default_template(template: object) -> None:
    """Set the defaults of a template in place. Unlike in pods, admission adds nothing."""
    spec = at(template, "spec")
    if not isinstance(spec, dict):
        return
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    default_spec(spec)


def template_causes(path: str, template: Object) -> Causes:
    """Validate a template at `path`."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    causes = causes_of(labels, f"{path}.labels", metadata.get("labels") or {})
    causes += causes_of(annotations, f"{path}.annotations", metadata.get("annotations") or {})
    causes += annotation_causes(template, f"{path}.annotations")
    causes += profile_causes(template, f"{path}.spec")
    pod = {"metadata": {}, "spec": spec}
    causes += [
        cause._replace(field=f"{path}.{cause.field}")
        for cause in (*pod_causes(pod), *claim_causes(pod))
        if not cause.field.endswith(".image.reference")  # of an image volume: only pods must have it
    ]
    if items(spec, "ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        causes.append(forbidden(f"{path}.spec.ephemeralContainers", text))
    return causes


def always_causes(path: str, template: Object, kind: str) -> Causes:
    """Check what only a pod that runs forever may have: no end, and a restart after each exit."""
    spec, path = template.get("spec") or {}, f"{path}.spec"
    causes = []
    if (policy := spec.get("restartPolicy") or "") != ALWAYS:
        causes.append(unsupported(f"{path}.restartPolicy", policy, (ALWAYS,)))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden(f"{path}.activeDeadlineSeconds", text))
    return causes


def parsed(selector: Object | None) -> LabelSelector | None:
    """Return a selector; None for an invalid one."""
    try:
        return label_selector_from_object(selector)
    except (KubeError, TypeError, ValueError, AttributeError):
        return None


def template_labels(template: Object) -> Object:
    """Return the labels of a template; an empty map if it has none."""
    given = at(template, "metadata", "labels")
    return given if isinstance(given, dict) else {}


def mismatch_causes(path: str, template: Object, selector: Object | None) -> Causes:
    """Check that a selector of the object form matches the labels of a template; a missing one matches nothing."""
    given = template_labels(template)
    wanted = parsed(selector)
    if wanted is None or (selector is not None and wanted.matches(given)):
        return []
    return [invalid(f"{path}.metadata.labels", given, MISMATCH)]


def selector_causes(selector: Object | None, empty: str, unusable: str | None = "invalid label selector") -> Causes:
    """Validate spec.selector; `empty` is the text for an empty one, `unusable` that for one that cannot be parsed."""
    path = "spec.selector"
    if selector is None:
        return [required(path)]
    causes = causes_of(label_selector, path, selector)
    if causes and unusable is not None and parsed(selector) is None:
        causes.append(invalid(path, selector, unusable))
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(invalid(path, selector, empty))
    return causes


def immutable_causes(path: str, new: object, old: object) -> list[Cause]:
    """Check that a field is unchanged."""
    return [] if new == old else [invalid(path, new, "field is immutable")]
