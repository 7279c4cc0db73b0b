"""The strategy of cron jobs; their schedules and time zones, as upstream's parser reads them, with its messages."""

import re
from typing import ClassVar

from protocols.kinds.batch.job_rules import job_spec_causes, job_warnings
from protocols.kinds.batch.jobs import default_job_parts
from protocols.kinds.check.causes import Cause, invalid, required, unsupported
from protocols.kinds.check.table import Struct, causes_of, one_of
from protocols.kinds.workloads.rules import numbers
from protocols.kinds.workloads.strategy import WorkloadStrategy, fill, spec_of
from protocols.kube.meta import Object
from protocols.kube.objects import at
from protocols.kube.times import DURATION

BOUNDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 6))
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
NAMES = {
    "month": {name: number for number, name in enumerate(MONTHS, 1)},
    "day of week": {name: number for number, name in enumerate(DAYS)},
}
DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
EVERY = "@every "
NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
LONGEST_NUMBER = 18


class ScheduleInvalid(ValueError):
    """Raised for a schedule that has no times."""


def schedule_fault(text: str) -> str:
    """Return what is wrong with a schedule; an empty text for a valid one."""
    try:
        _parse(_without_zone(text))
    except ScheduleInvalid as error:
        return str(error)
    return ""


def _without_zone(text: str) -> str:
    if not text.startswith(("TZ=", "CRON_TZ=")):
        return text
    zone, _, rest = text.partition(" ")
    name = zone.partition("=")[2]
    if fault := zone_fault(name):
        raise ScheduleInvalid(f"provided bad location {name}: {fault}")
    return rest.strip()


def _parse(text: str) -> None:
    if not text:
        raise ScheduleInvalid("empty spec string")
    if text.startswith("@"):
        return _descriptor(text)
    fields = text.split()
    if len(fields) != len(BOUNDS):
        listed = " ".join(fields)
        raise ScheduleInvalid(f"expected exactly {len(BOUNDS)} fields, found {len(fields)}: [{listed}]")
    for field, (name, low, high) in zip(fields, BOUNDS, strict=True):
        for part in filter(None, field.split(",")):
            _range(part, low, high, NAMES.get(name, {}))
    return None


def _descriptor(text: str) -> None:
    if text.startswith(EVERY):
        duration = text.removeprefix(EVERY)
        if not DURATION.fullmatch(duration):
            raise ScheduleInvalid(f'failed to parse duration {text}: time: invalid duration "{duration}"')
    elif text not in DESCRIPTORS:
        raise ScheduleInvalid(f"unrecognized descriptor: {text}")


def _range(text: str, low: int, high: int, names: dict[str, int]) -> None:
    span, *steps = text.split("/")
    first, *rest = span.split("-")
    start, end = (low, high) if first in ("*", "?") else (_number(first, names),) * 2
    if first not in ("*", "?") and rest:
        if len(rest) > 1:
            raise ScheduleInvalid(f"too many hyphens: {text}")
        end = _number(rest[0], names)
    if len(steps) > 1:
        raise ScheduleInvalid(f"too many slashes: {text}")
    step = _number(steps[0]) if steps else 1
    end = high if steps and not rest else end
    if start < low:
        raise ScheduleInvalid(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise ScheduleInvalid(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise ScheduleInvalid(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleInvalid(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int] | None = None) -> int:
    if names and (named := names.get(text.lower())) is not None:
        return named
    if not NUMBER.fullmatch(text):
        raise ScheduleInvalid(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text) > LONGEST_NUMBER:
        raise ScheduleInvalid(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    number = int(text)
    if number < 0:
        raise ScheduleInvalid(f"negative number ({number}) not allowed: {text}")
    return number


PART = re.compile(r"(?!-)[A-Za-z._\-0-9+]{1,14}", re.ASCII)
EXPLICIT = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"


def zone_faults(name: str) -> list[str]:
    """Return what is wrong with spec.timeZone."""
    if not name:
        return ["timeZone must be nil or non-empty string"]
    if not all(PART.fullmatch(part) and part not in (".", "..") for part in name.split("/")):
        return [f"unknown time zone {name}"]
    local = [EXPLICIT] if name.lower() == "local" else []
    fault = zone_fault(name) if name != "Local" else ""
    return [*local, fault] if fault else local


def zone_fault(name: str) -> str:
    """Return the fault of a time zone that the host's database lacks; no fault on a host without a database."""
    import zoneinfo  # only cron jobs need it

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return f"unknown time zone {name}" if _has_zones() else ""
    return ""


def _has_zones() -> bool:
    import zoneinfo

    try:
        zoneinfo.ZoneInfo("UTC")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


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
