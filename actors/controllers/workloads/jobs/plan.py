"""Jobs: which pods to create and delete, when it is finished, and the status. Pure.

| state | meaning |
|---|---|
| running | pods are created up to `parallelism` |
| Suspended | active pods are deleted and not counted |
| FailureTarget, SuccessCriteriaMet | decided: active pods are deleted, then finished ones counted |
| Failed, Complete | no pod is left that is not counted |

Source: pkg/controller/job of Kubernetes 1.36.
"""

from collections.abc import Sequence, Set

import msgspec

from actors.controllers.workloads.common.conditions import find, without
from actors.controllers.workloads.common.pods import PodView
from actors.controllers.workloads.common.ranking import deletion_order
from actors.controllers.workloads.jobs.accounting import Account, account
from actors.controllers.workloads.jobs.indexes import (
    BACKOFF_S,
    LONGEST_BACKOFF_S,
    Failures,
    due,
    failures_with,
    verdict,
)
from actors.controllers.workloads.jobs.spec import JobSpec, job_spec, missing_indexes, parse_indexes
from protocols.kube.meta import Object, terminating
from protocols.kube.times import format_time, time_or
from protocols.process.rates import backoff_delay

FAILING, SUCCEEDING, FAILED, COMPLETE, SUSPENDED = (
    "FailureTarget", "SuccessCriteriaMet", "Failed", "Complete", "Suspended"
)  # fmt: skip


class _JobEvent(msgspec.Struct, frozen=True):
    type: str
    reason: str
    message: str


class JobPlan(msgspec.Struct, kw_only=True):
    """Changes of one pass; `wait` is in seconds, None if no time passes that matters."""

    status: Object
    """The fields to write; None removes one."""
    account: Account
    create: int = 0
    indexes: list[int] = msgspec.field(default_factory=list)
    """Completion indexes of the pods to create, for an Indexed Job."""
    failures: dict[int, Failures] = msgspec.field(default_factory=dict)
    """Earlier failures of these indexes, with `backoffLimitPerIndex`."""
    drop: list[PodView] = msgspec.field(default_factory=list)
    """Pods to delete without counting them."""
    stop: list[PodView] = msgspec.field(default_factory=list)
    """Pods to delete that are counted when they end."""
    events: list[_JobEvent] = msgspec.field(default_factory=list)
    wait: float | None = None


def plan(job: Object, pods: Sequence[PodView], gone: Set[str], now: float, *, settled: bool = True) -> JobPlan:
    """Decide one pass. Without `settled` the informer does not show all pods yet: only count."""
    return _Pass(job, pods, gone, now).run(settled)


def finished(job: Object) -> Object | None:
    """Return the condition that finished the Job."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next(
        (condition for condition in conditions if condition.get("type") in (FAILED, COMPLETE) and _true(condition)),
        None,
    )


def seconds_to_live(job: Object, now: float) -> float | None:
    """Return the seconds until a finished Job is due for deletion, at most 0 if it is; None for one that stays."""
    done, ttl = finished(job), job_spec(job).ttl
    if done is None or ttl is None or terminating(job):
        return None
    return time_or(done.get("lastTransitionTime")) + ttl - now


def _true(condition: Object | None) -> bool:
    return condition is not None and condition.get("status") == "True"


class _Pass:
    def __init__(self, job: Object, pods: Sequence[PodView], gone: Set[str], now: float) -> None:
        self._job, self._pods, self._now, self._spec = job, pods, now, job_spec(job)
        self._status = job.get("status") or {}
        self._conditions = list(self._status.get("conditions") or [])
        self._ending = any(_true(find(self._conditions, kind)) for kind in (FAILING, SUCCEEDING, FAILED, COMPLETE))
        self._active = [pod for pod in pods if pod.active]
        self._terminating = [pod for pod in pods if pod.deleting and not pod.finished]
        self._account = account(self._spec, self._status, pods, gone, ending=self._ending)
        self._plan = JobPlan(status={}, account=self._account)
        self._start = time_or(self._status.get("startTime"))

    def run(self, settled: bool) -> JobPlan:
        if finished(self._job) is None:
            self._begin(settled)
            if not self._ending:
                self._decide(settled)
            if settled and not terminating(self._job):
                self._manage()
            if settled:
                self._conclude()
        self._write()
        return self._plan

    # start, suspend

    def _begin(self, settled: bool) -> None:
        """Start, suspend or resume; a Job that has its successes is complete and not suspended, as upstream."""
        known = find(self._conditions, SUSPENDED)
        if self._spec.suspended and not self._ending and not self._success(settled):
            self._start = 0.0
            if not _true(known):
                self._set(SUSPENDED, "JobSuspended", "Job suspended")
                self._event("Normal", "Suspended", "Job suspended")
            return
        if _true(known) and not self._spec.suspended:
            self._set(SUSPENDED, "JobResumed", "Job resumed", status="False")
            self._event("Normal", "Resumed", "Job resumed")
            self._start = 0.0
        self._start = self._start or self._now

    # verdict

    def _decide(self, settled: bool) -> None:
        if failure := self._failure():
            self._set(FAILING, *failure)
        elif success := self._success(settled):
            self._set(SUCCEEDING, *success)
        self._ending = any(_true(find(self._conditions, kind)) for kind in (FAILING, SUCCEEDING))

    def _failure(self) -> tuple[str, str] | None:
        spec = self._spec
        if self._account.fatal:
            return "PodFailurePolicy", self._account.fatal
        if self._account.total_failed > spec.backoff_limit or self._restarted_too_often():
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        if by_index := verdict(spec, self._account.failed_indexes, self._account.completed):
            return by_index
        if spec.deadline is None or not self._start:
            return None
        left = self._start + spec.deadline - self._now
        if left <= 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        self._wait(left)
        return None

    def _restarted_too_often(self) -> bool:
        if not self._spec.on_failure:
            return False
        restarts = sum(pod.restarts for pod in self._active)
        limit = self._spec.backoff_limit
        return restarts >= limit if limit else restarts > 0

    def _success(self, settled: bool) -> tuple[str, str] | None:
        spec, done = self._spec, self._account.total_succeeded
        for number, rule in enumerate(spec.success_rules if spec.indexed else ()):
            if _matches(rule, spec, self._account.completed):
                return "SuccessPolicy", f"Matched rules at index {number}"
        reached = settled and done > 0 and not self._active if spec.completions is None else done >= spec.completions
        return ("CompletionsReached", "Reached expected number of succeeded pods") if reached else None

    # pods

    def _manage(self) -> None:
        if self._ending:
            failing = _true(find(self._conditions, FAILING))
            (self._plan.stop if failing else self._plan.drop).extend(self._active)
        elif self._spec.suspended:
            self._plan.drop = list(self._active)
        else:
            self._scale()

    def _scale(self) -> None:
        spec, active = self._spec, self._kept()
        wanted = self._wanted(len(active))
        if len(active) > wanted:
            self._plan.drop += deletion_order(active, active, self._now)[: len(active) - wanted]
            return
        blocked = len(self._terminating) if spec.replace_failed_only else 0
        count = wanted - len(active) - blocked
        if count <= 0:
            return
        if spec.backoff_limit_per_index is not None:
            enough = count + len(self._account.last_failed)  # no other index has to wait
            self._again(missing_indexes(spec, self._taken(active), enough), count)
            return
        left = self._backoff()
        if left > 0:
            self._wait(left)
            return
        self._plan.create = count
        if spec.indexed:
            self._plan.indexes = missing_indexes(spec, self._taken(active), count)
            self._plan.create = len(self._plan.indexes)

    def _again(self, missing: list[int], count: int) -> None:
        """Create pods of the first indexes whose own backoff is over."""
        failed = self._account.last_failed
        ready, left = due(self._spec, missing, failed, self._now)
        self._plan.indexes = ready[:count]
        self._plan.create = len(self._plan.indexes)
        self._plan.failures = {
            index: failures_with(self._spec, failed[index]) if index in failed else Failures()
            for index in self._plan.indexes
        }
        if left > 0 and len(ready) < count:
            self._wait(left)

    def _kept(self) -> list[PodView]:
        """Return the active pods, without those whose index is done, unknown or taken by an older one."""
        if not self._spec.indexed:
            return self._active
        kept: dict[int, PodView] = {}
        ended = self._account.ended_indexes
        for pod in sorted(self._active, key=lambda each: (not each.ready, each.created, each.name)):
            index = -1 if pod.index is None else pod.index
            valid = 0 <= index < (self._spec.completions or 0) and index not in ended
            if valid and index not in kept:
                kept[index] = pod
            else:
                self._plan.drop.append(pod)
        return list(kept.values())

    def _wanted(self, active: int) -> int:
        spec, done = self._spec, self._account.total_succeeded
        if spec.completions is None:
            return active if done else spec.parallelism
        return max(0, min(spec.parallelism, spec.completions - done - len(self._account.failed_indexes)))

    def _taken(self, active: Sequence[PodView]) -> set[int]:
        blocked = self._terminating if self._spec.replace_failed_only else []
        return self._account.ended_indexes | {pod.index for pod in (*active, *blocked) if pod.index is not None}

    def _backoff(self) -> float:
        """Return the seconds until the next pod may be created, after the failures since the last success.

        Failures that the pod failure policy ignores count here: a pod that fails at once must not be made in a loop.
        """
        ended = sorted((pod for pod in self._pods if pod.finished), key=lambda pod: (pod.ended, pod.name))
        failures = 0
        for pod in ended:
            failures = 0 if pod.phase == "Succeeded" else failures + 1
        if not failures:
            return 0.0
        last = max(pod.ended for pod in ended if pod.phase == "Failed")
        return last + backoff_delay(failures, BACKOFF_S, LONGEST_BACKOFF_S) - self._now

    # end

    def _conclude(self) -> None:
        """Finish the Job when no pod runs and every pod is counted."""
        if not self._ending or self._active or self._terminating or not self._account.settled:
            return
        failing = find(self._conditions, FAILING)
        if failing is not None and _true(failing):
            self._set(FAILED, str(failing["reason"]), str(failing["message"]))
            self._event("Warning", str(failing["reason"]), str(failing["message"]))
        else:
            met = find(self._conditions, SUCCEEDING) or {}
            self._set(COMPLETE, str(met.get("reason")), str(met.get("message")))
            self._plan.status["completionTime"] = format_time(self._now)
            self._event("Normal", "Completed", "Job completed")

    # helpers

    def _set(self, kind: str, reason: str, message: str, status: str = "True") -> None:
        stamp = format_time(self._now)
        entry = {"type": kind, "status": status, "reason": reason, "message": message}
        times = {"lastProbeTime": stamp, "lastTransitionTime": stamp}
        self._conditions = [*without(self._conditions, kind), {**entry, **times}]

    def _event(self, type: str, reason: str, message: str) -> None:
        self._plan.events.append(_JobEvent(type, reason, message))

    def _wait(self, seconds: float) -> None:
        self._plan.wait = seconds if self._plan.wait is None else min(self._plan.wait, seconds)

    def _write(self) -> None:
        start = format_time(self._start) if self._start else None
        self._plan.status |= {
            **self._account.status(self._spec),
            "active": len(self._active),
            "ready": sum(pod.ready for pod in self._active),
            "terminating": len(self._terminating),
            "startTime": start,
            "conditions": self._conditions,
        }


def _matches(rule: Object, spec: JobSpec, completed: Set[int]) -> bool:
    """Return True if a rule of the success policy is met."""
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    wanted = parse_indexes(str(indexes), spec.completions or 0) if indexes is not None else None
    done = completed if wanted is None else completed & wanted
    if count is not None:
        return len(done) >= int(count)
    return wanted is not None and wanted <= completed
