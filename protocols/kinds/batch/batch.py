"""batch/v1: jobs and cron jobs."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.served.columns import AGE, NAME, NONE, age_of, cell, seconds_since, short_duration
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import deferred
from protocols.kinds.workloads.columns import (
    SELECTOR,
    WORKLOAD,
    container_columns,
    has_condition,
    number_text,
    selector,
)
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text

FOLDER = "protocols.kinds.batch"
PODS_REMAIN = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
LATER_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _status(job: Object) -> str:
    for kind in ("Complete", "Failed"):
        if has_condition(job, kind):
            return kind
    if text(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in LATER_STATES if has_condition(job, kind)), "Running")


def _completions(job: Object) -> str:
    done, wanted = at(job, "status", "succeeded") or 0, at(job, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    beside = at(job, "spec", "parallelism") or 0
    return f"{done}/1 of {beside}" if beside > 1 else f"{done}/1"


def _duration(job: Object) -> str:
    """Return the time from the start to the end, or until now."""
    start, end = (seconds_since(text(job, "status", field)) for field in ("startTime", "completionTime"))
    return "" if start is None else short_duration(start if end is None else round(start - end))


def _suspend(job: Object) -> str:
    value = at(job, "spec", "suspend")
    return "<unset>" if value is None else str(bool(value))


def _last(job: Object) -> str:
    moment = text(job, "status", "lastScheduleTime")
    return age_of(moment) if moment else NONE


JOBS = Served(
    **asdict(kinds.JOBS),
    strategy=deferred(f"{FOLDER}.jobs", "JobStrategy", propagation="Orphan", unasked_warning=PODS_REMAIN, **WORKLOAD),
    columns=(
        NAME,
        Column("Status", _status),
        Column("Completions", _completions),
        Column("Duration", _duration),
        AGE,
        *container_columns(),
        SELECTOR,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "Job", "batch", "v1"),),
    fields={"status.successful": number_text("status", "succeeded")},
)

JOB_TEMPLATE = ("spec", "jobTemplate", "spec")
CRONJOBS = Served(
    **asdict(kinds.CRONJOBS),
    strategy=deferred(f"{FOLDER}.cron_jobs", "CronJobStrategy", **WORKLOAD),
    columns=(
        NAME,
        Column("Schedule", cell("spec", "schedule")),
        Column("Timezone", cell("spec", "timeZone", missing=NONE)),
        Column("Suspend", _suspend, type="boolean"),
        Column("Active", lambda obj: len(items(obj, "status", "active")), type="integer"),
        Column("Last Schedule", _last),
        AGE,
        *container_columns(*JOB_TEMPLATE, "template"),
        Column("Selector", selector(*JOB_TEMPLATE, "selector"), 1),
    ),
    subresources=(Subresource("status", STATUS_VERBS, "CronJob", "batch", "v1"),),
)

ROWS = (CRONJOBS, JOBS)
