"""Restart policies and rules, and the decision to start a container now, later or never again. Pure."""

from collections.abc import Collection, Mapping

from protocols.kinds import views
from protocols.kube.times import format_duration
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.types import (
    INIT,
    NEVER,
    ON_FAILURE,
    RESTART,
    RESTART_ALL,
    SECOND,
    SIDECAR,
    BackoffEntry,
    ContainerSpec,
    PodSpec,
    Start,
    Waiting,
    format_pod,
)
from protocols.lifecycle.restarts import backoff
from protocols.messages.pleg import ContainerStatus, PodStatus

CRASH_LOOP = "CrashLoopBackOff"


def own_policy(container: ContainerSpec) -> str:
    """Return the container's own restart policy; empty if the pod's applies."""
    return "" if container.kind == SIDECAR else str(container.raw.get("restartPolicy") or "")


def policy_of(pod_policy: str, container: ContainerSpec) -> str:
    """Return the restart policy of a container: its own, else the pod's."""
    return own_policy(container) or pod_policy


def may_restart(pod_policy: str, container: ContainerSpec, exit_code: int) -> bool:
    """Return True if an ended container restarts.

    Sidecars always do; init containers until they succeed; apps by policy. A matching rule restarts in any case.
    """
    if container.kind == SIDECAR or matching_action(container, exit_code):
        return True
    policy = policy_of(pod_policy, container)
    if policy == NEVER:
        return False
    return not (exit_code == 0 and (policy == ON_FAILURE or container.kind == INIT))


def matching_action(container: ContainerSpec, exit_code: int) -> str:
    """Return the action of the first rule that the exit code matches; empty if there is none."""
    rules = container.raw.get("restartPolicyRules") or ()
    matching = (str(rule.get("action")) for rule in rules if _matches(rule, exit_code))
    return next((action for action in matching if action in (RESTART, RESTART_ALL)), "")


def _matches(rule: views.ContainerRestartRule, exit_code: int) -> bool:
    condition = rule.get("exitCodes") or {}
    inside = exit_code in (condition.get("values") or ())
    return {"In": inside, "NotIn": not inside}.get(str(condition.get("operator")), False)


class Restarts:
    """Start decisions for the containers of one pod at one moment; collects waiting ones and the next wake-up."""

    def __init__(
        self,
        spec: PodSpec,
        status: PodStatus,
        backoffs: Mapping[str, BackoffEntry],
        now_ns: int,
        counts: Mapping[str, int],
        replaced: Collection[str] = (),
    ) -> None:
        """`replaced`: ids of containers that were killed to be started again."""
        self._spec = spec
        self._attempts = runtime_status.by_name(status)
        self._backoffs = backoffs
        self._now_ns = now_ns
        self._counts = counts
        self._replaced = replaced
        self.restarting: set[str] = set()
        self.waiting: dict[str, Waiting] = {}
        self.wake_ns = 0

    def should_run(self, container: ContainerSpec) -> bool:
        """Return True if the container should run, whatever its back-off."""
        last = self._newest(container.name)
        return last is None or last.state != runtime_status.EXITED or self._may_restart(container, last)

    def _may_restart(self, container: ContainerSpec, last: ContainerStatus) -> bool:
        if may_restart(self._spec.restart_policy, container, last.exit_code):
            return True
        if last.id in self._replaced:
            self.restarting.add(container.name)
            return True
        return False

    def decide(self, container: ContainerSpec, last: ContainerStatus | None) -> Start | None:
        """Decide on a container whose newest run in the current sandbox is `last`."""
        if last is None:
            return self._first(container)
        if last.state == runtime_status.CREATED:
            return Start(name=container.name, attempt=last.restart_count, existing=last.id)
        if last.state != runtime_status.EXITED or not self._may_restart(container, last):
            return None
        return self._again(container, last)

    def once(self, container: ContainerSpec) -> Start | None:
        """Decide on a container that runs once, even if only the API knows that it did."""
        before = self._newest(container.name)
        if before is not None and before.state == runtime_status.CREATED:
            return Start(name=container.name, attempt=before.restart_count, existing=before.id)
        return None if before is not None or container.name in self._counts else Start(container.name, 0)

    def _first(self, container: ContainerSpec) -> Start | None:
        """Decide on the first start in this sandbox. Init containers run in each, apps by their restart policy."""
        before = self._newest(container.name)
        if before is None:
            return Start(name=container.name, attempt=self._next_attempt(container.name))
        if container.kind != INIT and not self.should_run(container):
            return None
        failed = before.state == runtime_status.EXITED and (before.exit_code != 0 or container.kind != INIT)
        return self._again(container, before) if failed else self._start(container, before)

    def _again(self, container: ContainerSpec, before: ContainerStatus) -> Start | None:
        entry = self._backoffs.get(container.name)
        if entry is not None and entry.hash == container.hash:
            ready_ns = backoff.ready_ns(entry, before.finished_ns, self._now_ns)
            if ready_ns > self._now_ns:
                self._wait(container.name, entry, ready_ns)
                return None
        return self._start(container, before)

    def _start(self, container: ContainerSpec, before: ContainerStatus) -> Start:
        attempt, crashed_ns = self._next_attempt(container.name), before.finished_ns
        if backoff.ended_with_node(self._backoffs.get(container.name), crashed_ns):
            crashed_ns = 0
        return Start(name=container.name, attempt=attempt, crashed_ns=crashed_ns)

    def _wait(self, name: str, entry: BackoffEntry, ready_ns: int) -> None:
        text = f"back-off {format_duration(entry.delay_ns / SECOND)} restarting failed container={name}"
        self.waiting[name] = Waiting(CRASH_LOOP, f"{text} pod={format_pod(self._spec)}")
        self.wake_ns = min(self.wake_ns or ready_ns, ready_ns)

    def _newest(self, name: str) -> ContainerStatus | None:
        attempts = self._attempts.get(name)
        return attempts[0] if attempts else None

    def _next_attempt(self, name: str) -> int:
        """Return one more than any known attempt: names stay reserved in the runtime, counts never shrink."""
        known = [max(c.restart_count, c.attempt) for c in self._attempts.get(name, ())]
        return max((*known, self._counts.get(name, -1))) + 1
