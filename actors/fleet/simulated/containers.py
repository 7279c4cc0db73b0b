"""The sandboxes and containers of one simulated pod, as a runtime would report them. Pure.

A container runs as soon as it is started, ends at the time of its script or of its stop, and leaves nothing behind.
Times are nanoseconds of the wall clock.
"""

import re
from collections.abc import Iterator
from typing import cast

import msgspec

from protocols.kinds import views
from protocols.kube.meta import STATUS_LISTS
from protocols.kube.pods import FINISHED
from protocols.kube.times import time_or
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.hollow import HollowScript
from protocols.lifecycle.pods.types import SECOND, Kill, PodActions, PodSpec, Start
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus

TERMINATED_CODE, KILLED_CODE = 143, 137
"""128 and the number of SIGTERM, SIGKILL."""
RUNTIME = "hollow"
"""Name of the runtime in container ids."""
_ID = re.compile("[0-9a-f]{40}")


class HollowStop(msgspec.Struct, frozen=True):
    """End of a container that got SIGTERM."""

    at_ns: int
    code: int


class Containers:
    """Sandboxes and containers of one pod in the runtime of a simulated node."""

    __slots__ = ("_brief", "_made", "_stops", "status")

    def __init__(self, status: PodStatus, brief: frozenset[str]) -> None:
        """`status`: what is known of the pod from before, empty for a new one.

        `brief`: names of containers that succeed at once, unless their script has a duration.
        """
        self.status = status
        self._brief = brief
        ids = [sandbox.id for sandbox in status.sandboxes] + [run.id for run in status.containers]
        self._made = max((int(id[-8:], 16) for id in ids), default=0)
        self._stops: dict[str, HollowStop] = {}

    def next_ns(self, script: HollowScript) -> int:
        """Return when the first container ends by itself or by its stop; 0 for never."""
        return min((end[0] for run in self.status.containers if (end := self._end(run, script))), default=0)

    def expire(self, script: HollowScript, now_ns: int) -> bool:
        """End the containers whose time is over. Return True if there were any."""
        ends = {run.id: end for run in self.status.containers if (end := self._end(run, script)) and end[0] <= now_ns}
        for id, (at_ns, code, reason) in ends.items():
            self._exit(id, at_ns, code, reason)
        return bool(ends)

    def stop(self, kill: Kill, grace_s: int, takes_ns: int, now_ns: int) -> None:
        """Send SIGTERM: the container ends `takes_ns` later, or by SIGKILL after `grace_s`."""
        in_time = takes_ns <= grace_s * SECOND
        wait_ns = takes_ns if in_time else grace_s * SECOND
        stop = HollowStop(now_ns + wait_ns, TERMINATED_CODE if in_time else KILLED_CODE)
        known = self._stops.get(kill.id)
        if known is None or stop.at_ns < known.at_ns:  # a grace period may shrink
            self._stops[kill.id] = stop

    def is_stopping(self, id: str) -> bool:
        return id in self._stops

    def crash(self, code: int, now_ns: int) -> None:
        """End the running containers."""
        for run in runtime_status.live(self.status):
            self._exit(run.id, now_ns, code, "")

    def stop_sandboxes(self, ids: tuple[str, ...]) -> None:
        sandboxes = (msgspec.structs.replace(s, ready=False) if s.id in ids else s for s in self.status.sandboxes)
        self._replace(sandboxes=tuple(sandboxes))

    def apply(self, spec: PodSpec, plan: PodActions, now_ns: int, ip: str) -> None:
        """Make the planned changes but the kills. `ip`: address of a sandbox with a network of its own."""
        self.stop_sandboxes(plan.stop_sandboxes)
        if plan.remove:
            self._replace(containers=tuple(run for run in self.status.containers if run.id not in plan.remove))
        if plan.remove_sandboxes:
            self._replace(sandboxes=tuple(s for s in self.status.sandboxes if s.id not in plan.remove_sandboxes))
        sandbox = plan.sandbox
        if plan.create_sandbox >= 0:
            sandbox = self._create_sandbox(spec, plan.create_sandbox, now_ns, ip)
        for step in plan.start if sandbox else ():
            self._start(spec, step, sandbox, now_ns)

    def _create_sandbox(self, spec: PodSpec, attempt: int, now_ns: int, ip: str) -> str:
        own = "" if spec.host_network else ip
        sandbox = SandboxStatus(self._id(spec), True, attempt, now_ns, own, spec.host_network)
        self._replace(sandboxes=(sandbox, *self.status.sandboxes), ips=(own,) if own else ())
        return sandbox.id

    def _start(self, spec: PodSpec, step: Start, sandbox: str, now_ns: int) -> None:
        container = spec.find(step.name)
        if container is None:
            return
        run = ContainerStatus(
            id=self._id(spec),
            sandbox_id=sandbox,
            name=step.name,
            attempt=step.attempt,
            state=runtime_status.RUNNING,
            created_ns=now_ns,
            started_ns=now_ns,
            image=container.image,
            image_id=container.image,
            restart_count=step.attempt,
            spec_hash=container.hash,
        )
        self._replace(containers=(run, *self.status.containers))

    def _id(self, spec: PodSpec) -> str:
        self._made += 1
        return f"{spec.uid.replace('-', '')}{self._made:08x}"

    def _end(self, run: ContainerStatus, script: HollowScript) -> tuple[int, int, str] | None:
        """Return time, exit code and reason of the end of a running container; None if it has none in sight."""
        if run.state != runtime_status.RUNNING:
            return None
        if run.name in self._brief and not script.duration_ns:
            return run.started_ns, 0, ""
        own = (run.started_ns + script.duration_ns, script.exit_code, "OOMKilled" if script.oom_killed else "")
        stop = self._stops.get(run.id)
        if stop is None or (script.duration_ns and own[0] < stop.at_ns):
            return own if script.duration_ns else None
        return stop.at_ns, stop.code, ""

    def _exit(self, id: str, at_ns: int, code: int, reason: str) -> None:
        self._stops.pop(id, None)
        ended = {"state": runtime_status.EXITED, "finished_ns": at_ns, "exit_code": code, "reason": reason}
        containers = (msgspec.structs.replace(c, **ended) if c.id == id else c for c in self.status.containers)
        self._replace(containers=tuple(containers))

    def _replace(self, **changes: object) -> None:
        self.status = msgspec.structs.replace(self.status, **changes)


def runtime_of(spec: PodSpec, shown: views.PodStatus) -> PodStatus:
    """Return what the runtime had of a pod, as far as its status shows it; nothing of a pod that never ran here."""
    entries = [entry for key in STATUS_LISTS for entry in cast("list[views.ContainerStatus]", shown.get(key) or ())]
    known = [entry for entry in entries if _id_of(entry.get("containerID"))]
    if not known:
        return PodStatus(spec.uid)
    id = f"{spec.uid.replace('-', '')}{0:08x}"
    ip = "" if spec.host_network else str(shown.get("podIP") or "")
    sandbox = SandboxStatus(id, shown.get("phase") not in FINISHED, 0, 0, ip, spec.host_network)
    runs = [run for entry in known for run in _runs(spec, entry, id)]
    runs.sort(key=lambda run: run.started_ns, reverse=True)
    return PodStatus(spec.uid, ips=(ip,) if ip else (), sandboxes=(sandbox,), containers=tuple(runs))


def _runs(spec: PodSpec, entry: views.ContainerStatus, sandbox: str) -> Iterator[ContainerStatus]:
    """Yield the last run of a container that its status shows. An earlier one stays in the status by itself."""
    name = str(entry.get("name"))
    container = spec.find(name)
    state = entry.get("state") or {}
    running, ended = state.get("running"), state.get("terminated") or (entry.get("lastState") or {}).get("terminated")
    times = running or ended
    if container is None or times is None:
        return
    yield ContainerStatus(
        id=_id_of(entry.get("containerID")),
        sandbox_id=sandbox,
        name=name,
        attempt=int(entry.get("restartCount") or 0),
        state=runtime_status.RUNNING if running else runtime_status.EXITED,
        created_ns=_ns(times.get("startedAt")),
        started_ns=_ns(times.get("startedAt")),
        finished_ns=0 if running else _ns((ended or {}).get("finishedAt")),
        exit_code=0 if running else int((ended or {}).get("exitCode") or 0),
        reason="" if running else str((ended or {}).get("reason") or ""),
        image=container.image,
        image_id=container.image,
        restart_count=int(entry.get("restartCount") or 0),
        spec_hash=container.hash,
    )


def _id_of(container_id: str | None) -> str:
    """Return the id behind `hollow://`; empty for one that no fleet made."""
    prefix, _, id = str(container_id or "").partition("://")
    return id if prefix == RUNTIME and _ID.fullmatch(id) else ""


def _ns(text: str | None) -> int:
    return int(time_or(text) * SECOND)
