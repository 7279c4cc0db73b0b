"""The strategy of cron jobs."""

from typing import ClassVar

from protocols.kinds.batch.job_rules import job_spec_causes, job_warnings
from protocols.kinds.batch.jobs import default_job_parts
from protocols.kinds.batch.schedules import schedule_fault, zone_faults
from protocols.kinds.check.causes import Cause, invalid, required, unsupported
from protocols.kinds.check.table import Struct, causes_of, one_of
from protocols.kinds.workloads.rules import numbers
from protocols.kinds.workloads.strategy import WorkloadStrategy, fill, spec_of
from protocols.kube.meta import Object
from protocols.kube.objects import at

LONGEST_NAME = 52
"""A job of it has 11 characters more: a label's 63."""
ZONED = (
    "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
SPEC = Struct(
    concurrencyPolicy=one_of("Allow", "Forbid", "Replace", empty=True),
    fields=numbers("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
)


class CronJobStrategy(WorkloadStrategy):
    """CronJobs: names leave room for the suffix that the controller gives to each job."""

    names_pods = True
    ratcheted = "spec.jobTemplate.spec.template"
    spec_defaults: ClassVar[Object] = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        fill(spec, self.spec_defaults)
        if (job := at(spec, "jobTemplate", "spec")) is not None:
            default_job_parts(job)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        zoned = old is not None and "TZ" in (at(new, "spec", "schedule") or "")
        return super().warnings(new, old) + [ZONED] * zoned

    def template_warnings(self, new: Object) -> list[str]:
        return job_warnings("spec.jobTemplate.spec", at(new, "spec", "jobTemplate", "spec") or {})

    def validate_create(self, obj: Object) -> list[Cause]:
        name = obj["metadata"].get("name") or ""
        causes = _spec_causes(spec_of(obj), {})
        if len(name) > LONGEST_NAME:
            causes.append(invalid("metadata.name", name, f"must be no more than {LONGEST_NAME} characters"))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return _spec_causes(spec_of(new), spec_of(old))


def _spec_causes(spec: Object, old: Object) -> list[Cause]:
    causes = _schedule_causes("spec.schedule", spec, "TZ" in (old.get("schedule") or ""))
    zone = spec.get("timeZone")
    if zone is not None and zone != old.get("timeZone"):
        causes += [invalid("spec.timeZone", zone, fault) for fault in zone_faults(zone)]
    path, job = "spec.jobTemplate.spec", at(spec, "jobTemplate", "spec") or {}
    causes += job_spec_causes(path, job) + causes_of(SPEC, "spec", spec)
    if job.get("selector") is not None:
        causes.append(invalid(f"{path}.selector", job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        causes.append(unsupported(f"{path}.manualSelector", True, ("nil", "false")))
    return causes


def _schedule_causes(path: str, spec: Object, zoned_before: bool) -> list[Cause]:
    """Check the schedule. One with a time zone is accepted where the old one had one, too."""
    schedule = spec.get("schedule") or ""
    if not schedule:
        return [required(path)]
    fault = schedule_fault(schedule)
    causes = [invalid(path, schedule, fault)] if fault else []
    if "TZ" in schedule and not zoned_before:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        causes.append(invalid(path, schedule, text))
    elif "TZ" in schedule and spec.get("timeZone") is not None:
        causes.append(invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
    return causes
