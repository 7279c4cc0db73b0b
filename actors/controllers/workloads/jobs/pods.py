"""New pods of a Job. Pure."""

from actors.controllers.workloads.common.pods import COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED, JOB_TRACKING
from actors.controllers.workloads.common.templates import pod_from, template_of
from actors.controllers.workloads.jobs.indexes import Failures
from protocols.kube.meta import Object, name_of

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def job_pod(job: Object, index: int | None = None, failures: Failures | None = None) -> Object:
    """Return a pod with the finalizer; `index` for an Indexed Job, with its `failures` where each index has a limit."""
    template = template_of(job)
    prefix = f"{name_of(job)}-" if index is None else f"{name_of(job)[: 58 - len(str(index)) - 2]}-{index}-"
    pod = pod_from(job, template, prefix=prefix)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", ()), JOB_TRACKING]
    if index is not None:
        metadata["annotations"][COMPLETION_INDEX] = metadata["labels"][COMPLETION_INDEX] = str(index)
        if failures is not None:
            metadata["annotations"][INDEX_FAILURES] = str(failures.counted)
        if failures is not None and failures.ignored:
            metadata["annotations"][INDEX_IGNORED] = str(failures.ignored)
        _add_index(pod["spec"], f"{name_of(job)}-{index}")
    return pod


def _add_index(spec: Object, hostname: str) -> None:
    spec["hostname"] = hostname
    path = f"metadata.labels['{COMPLETION_INDEX}']"
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        known = container.get("env") or []
        if all(each.get("name") != INDEX_VARIABLE for each in known):
            container["env"] = [*known, variable]
