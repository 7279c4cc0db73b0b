"""Jobs whose pods succeed and fail: each pod is counted once, and none runs beyond the parallelism."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from protocols.kinds.table import JOBS
from protocols.kube.meta import Object, annotations_of, meta, name_of, terminating, uid_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import (
    Written,
    created,
    latest,
    listed,
    lives,
    make_namespace,
    owner_uid,
    template,
    user,
)

MOST = 4
"""Jobs at a time."""
PAUSE_S = 1.5
BACKOFF_LIMIT = 2
"""Failures after which a job fails, so that back-offs end before the run."""
INDEX = "batch.kubernetes.io/job-completion-index"


class Jobs:
    name = "jobs"

    def __init__(self) -> None:
        self._made = 0

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {self.name: user(options, self._step, PAUSE_S)}

    async def _step(self, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, self.name)
        jobs = await listed(client, JOBS, self.name)
        if len(jobs) < MOST:
            self._made += 1
            await created(client, JOBS, {"spec": _spec(chance)}, f"job-{self._made}", self.name)
        done = [job for job in jobs if has_ended(job)]
        for job in done if chance.random() < 0.3 else ():
            await client.delete(JOBS, name_of(job), self.name, uid=uid_of(job), policy="Foreground")
        if jobs and chance.random() < 0.1:
            job = chance.choice(jobs)
            await client.delete(JOBS, name_of(job), self.name, uid=uid_of(job), policy="Background")

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        counts = _Counts()
        for each in commits:
            yield from counts.take(each)
        for name, job in latest(commits, "jobs").items():
            yield from counts.at_end(name, job)
        uids = {uid_of(job) for job in latest(commits, "jobs").values()}
        for name, pod in latest(commits, "pods").items():
            if owner_uid(pod) not in uids:
                yield Broken("garbage is collected", f"pod {name} has a job that is gone")


def _spec(chance: random.Random) -> Object:
    mode = chance.choice(("Indexed", "NonIndexed"))
    pod = template({"ends": "true"}, restartPolicy="Never")
    numbers = {"completions": chance.randint(1, 6), "parallelism": chance.randint(1, 3), "backoffLimit": BACKOFF_LIMIT}
    return {**numbers, "completionMode": mode, "template": pod}


def has_ended(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def _indexes(text: str) -> set[str]:
    """Return the numbers of a list such as 0,2-4."""
    found: set[str] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= {str(number) for number in range(int(first), int(last or first) + 1)}
    return found


class _Counts:
    """What pods did, by the uid of their job."""

    def __init__(self) -> None:
        self._live: dict[str, set[str]] = defaultdict(set)
        self._succeeded: dict[str, set[str]] = defaultdict(set)
        self._indexes: dict[str, set[str]] = defaultdict(set)
        self._failed: dict[str, set[str]] = defaultdict(set)
        self._parallelism: dict[str, int] = {}

    def take(self, each: Written) -> Iterator[Broken]:
        if each.resource == "pods":
            yield from self._pod(each)
        elif each.resource == "jobs" and each.obj is not None:
            self._parallelism[uid_of(each.obj)] = each.obj["spec"]["parallelism"]
            yield from self._job(each)

    def _pod(self, each: Written) -> Iterator[Broken]:
        pod, job = each.last, owner_uid(each.last)
        uid, phase = uid_of(pod), (pod.get("status") or {}).get("phase")
        if phase == "Succeeded":
            self._succeeded[job].add(uid)
            self._indexes[job].add(str(annotations_of(pod).get(INDEX)))
        elif not lives(each.obj):
            self._failed[job].add(uid)
        (self._live[job].add if lives(each.obj) else self._live[job].discard)(uid)
        if (count := len(self._live[job])) > (most := self._parallelism.get(job, 1)):
            yield Broken("a job runs no more pods than it may", f"{each.name} at {each.revision}: {count} of {most}")

    def _job(self, each: Written) -> Iterator[Broken]:
        job, status = uid_of(each.last), each.last.get("status") or {}
        before = (each.before or {}).get("status") or {}
        for field, pods in (("succeeded", self._succeeded[job]), ("failed", self._failed[job])):
            listed = (status.get("uncountedTerminatedPods") or {}).get(field) or ()
            counted = int(status.get(field) or 0) + len(listed)
            if counted > len(pods) or not pods.issuperset(listed):
                text = f"{each.name} at {each.revision}: {counted} {field}, {len(pods)} did"
                yield Broken("no pod is counted twice", text)
            if counted < int(before.get(field) or 0) and not terminating(each.last):
                yield Broken("no count is lost", f"{each.name} at {each.revision}: {counted} {field}, there were more")
        if not _indexes(status.get("completedIndexes") or "") <= self._indexes[job]:
            text = f"{each.name} at {each.revision}: {status['completedIndexes']}"
            yield Broken("an index that is complete had a success", text)

    def at_end(self, name: str, job: Object) -> Iterator[Broken]:
        """Jobs have ended, as all back-offs have; nothing of them is lost."""
        status, uid = job.get("status") or {}, uid_of(job)
        if terminating(job):
            yield Broken("converged", f"job {name} is still to end, finalizers {meta(job).get('finalizers')}")
        elif not has_ended(job):
            yield Broken("converged", f"job {name} goes on: {status}")
        indexed = job["spec"]["completionMode"] == "Indexed"
        succeeded = self._indexes[uid] if indexed else self._succeeded[uid]
        if has_ended(job) and int(status.get("succeeded") or 0) != len(succeeded):
            yield Broken("no count is lost", f"{name}: {status.get('succeeded')} succeeded, {len(succeeded)} did")
