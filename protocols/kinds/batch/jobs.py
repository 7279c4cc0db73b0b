"""The strategy of jobs: defaults, the generated selector, what may change."""

from protocols.kinds.batch.job_rules import job_spec_causes, job_warnings
from protocols.kinds.batch.job_status import job_status_causes
from protocols.kinds.check.causes import Cause, invalid, required
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Causes, causes_of, changed_causes
from protocols.kinds.workloads.columns import has_condition
from protocols.kinds.workloads.strategy import WorkloadStrategy, fill, spec_of, template_of
from protocols.kinds.workloads.templates import (
    default_template,
    immutable_causes,
    mismatch_causes,
    parsed,
    template_labels,
)
from protocols.kube.meta import Object
from protocols.kube.names import label_faults
from protocols.kube.objects import at, items

PREFIX = "batch.kubernetes.io/"
OWN_LABELS = ("controller-uid", "job-name")
JOB_DEFAULTS = {"completionMode": "NonIndexed", "manualSelector": False, "suspend": False}
INDEXED = "Indexed"
BACKOFF, UNLIMITED = 6, 2**31 - 1
IMMUTABLE = (
    "spec.selector",
    "spec.completionMode",
    "spec.podFailurePolicy",
    "spec.backoffLimitPerIndex",
    "spec.managedBy",
    "spec.successPolicy",
)


def default_job_parts(spec: Object) -> None:
    """Set the defaults that jobs and the templates of cron jobs share."""
    for rule in items(spec, "podFailurePolicy", "rules"):
        for pattern in items(rule, "onPodConditions"):
            pattern["status"] = pattern.get("status") or "True"
    default_template(spec.get("template"))


def _default_job(spec: Object) -> None:
    if spec.get("parallelism") is None:
        if spec.get("completions") is None:
            spec["completions"] = 1
        spec["parallelism"] = 1
    limit = BACKOFF if spec.get("backoffLimitPerIndex") is None else UNLIMITED
    policy = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    fill(spec, {**JOB_DEFAULTS, "backoffLimit": limit, "podReplacementPolicy": policy})
    default_job_parts(spec)


class JobStrategy(WorkloadStrategy):
    """Jobs: selector and labels are generated from the uid unless `manualSelector` is set."""

    names_pods = True

    def default(self, obj: Object) -> None:
        if isinstance(spec := obj.setdefault("spec", {}), dict):
            _default_job(spec)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        if not spec_of(obj).get("manualSelector"):
            _generate_selector(obj)
        _label(obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        _label(new)

    def template_warnings(self, new: Object) -> list[str]:
        return job_warnings("spec", spec_of(new))

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return job_status_causes(new, old)

    def validate_create(self, obj: Object) -> list[Cause]:
        spec, name = spec_of(obj), obj["metadata"].get("name") or ""
        causes = _generated_causes(obj) + _whole_causes(obj)
        completions = spec.get("completions") or 0
        if spec.get("completionMode") == INDEXED and completions > 0 and name:
            last = f"{name}-{completions - 1}"
            if label_faults(last):
                text = f"will not able to create pod with invalid DNS label: {last}"
                causes.append(invalid("metadata.name", name, text))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        after, before = spec_of(new), spec_of(old)
        causes = _whole_causes(new) + ([] if _generated_causes(old) else _generated_causes(new))
        causes += _completions_causes(after, before)
        causes += immutable_causes("spec.template", after.get("template"), _changeable(new, old))
        return causes + changed_causes(new, old, *IMMUTABLE)


def _label(job: Object) -> None:
    """Give a job without labels those of its template."""
    given = template_labels(template_of(job))
    if given and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(given)


def _generate_selector(job: Object) -> None:
    """Select the pods by the job's uid, and label them with it and the job's name, where nobody did."""
    spec, metadata = spec_of(job), job["metadata"]
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    own = dict(zip(OWN_LABELS, (metadata["uid"], metadata.get("name") or ""), strict=True))
    labels = {f"{prefix}{key}": value for prefix in (PREFIX, "") for key, value in own.items()}
    held = template.setdefault("metadata", {})
    held["labels"] = {**labels, **(held.get("labels") or {})}
    selector = spec.get("selector") or {}
    key = f"{PREFIX}{OWN_LABELS[0]}"
    spec["selector"] = {**selector, "matchLabels": {key: metadata["uid"], **(selector.get("matchLabels") or {})}}


def _generated_causes(job: Object) -> Causes:
    spec, metadata = spec_of(job), job["metadata"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return []
    given, path = template_labels(template_of(job)), "spec.template.metadata.labels"
    expected = {}
    causes: Causes = []
    for prefix in ("", PREFIX):
        for key, value in zip(OWN_LABELS, (metadata["uid"], metadata.get("name") or ""), strict=True):
            name, text = f"{prefix}{key}", f"must be '{value}'"
            expected[name] = value
            if name not in given:
                causes.append(required(f"{path}[{name}]", text))
            elif given[name] != value:
                causes.append(invalid(f"{path}[{name}]", given, text))
    wanted = parsed(selector)
    if wanted is not None and not wanted.matches(expected):
        causes.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return causes


def _whole_causes(job: Object) -> Causes:
    spec = spec_of(job)
    selector = spec.get("selector")
    causes = job_spec_causes("spec", spec)
    causes += [required("spec.selector")] if selector is None else causes_of(label_selector, "spec.selector", selector)
    return causes + mismatch_causes("spec.template", template_of(job), selector)


def _completions_causes(after: Object, before: Object) -> Causes:
    """Check the completions: only an indexed job changes them, together with its parallelism."""
    new, old, path = after.get("completions"), before.get("completions"), "spec.completions"
    if after.get("completionMode") != INDEXED:
        return immutable_causes(path, new, old)
    if new is None or new == old or new == after.get("parallelism"):
        return []
    return [invalid(path, new, "can only be modified in tandem with spec.parallelism")]


def _changeable(new: Object, old: Object) -> Object:
    """Return the old template with what a suspended job may change: scheduling directives, and resources."""
    before, after = template_of(old), template_of(new)
    if not _may_reschedule(old):
        return before
    spec, wanted = dict(before.get("spec") or {}), after.get("spec") or {}
    metadata, given = dict(before.get("metadata") or {}), after.get("metadata") or {}
    _take(spec, wanted, ("nodeSelector", "tolerations", "schedulingGates"))
    _take(metadata, given, ("annotations", "labels"))
    affinity = dict(spec.get("affinity") or {})
    _take(affinity, wanted.get("affinity") or {}, ("nodeAffinity",))
    if affinity or "affinity" in wanted:
        spec["affinity"] = affinity
    else:
        spec.pop("affinity", None)
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = _with_resources(items(spec, field), items(wanted, field))
    return {**before, "metadata": metadata, "spec": spec}


def _with_resources(containers: list[Object], wanted: list[Object]) -> list[Object]:
    copies = [dict(container) for container in containers]
    for container, source in zip(copies, wanted, strict=False):
        _take(container, source, ("resources",))
    return copies


def _may_reschedule(old: Object) -> bool:
    if not at(old, "spec", "suspend"):
        return False
    return not at(old, "status", "startTime") or (has_condition(old, "Suspended") and not at(old, "status", "active"))


def _take(target: Object, source: Object, fields: tuple[str, ...]) -> None:
    for field in fields:
        if field in source:
            target[field] = source[field]
        else:
            target.pop(field, None)
