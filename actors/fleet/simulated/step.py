"""One step of one pod of a simulated node: what is to be done about it now. Pure: the caller writes.

A pod goes through the stages of a real node's pod (syncing, terminating, terminated) by the same rules; what a worker
of a real node asks of a runtime, the pod's `Containers` do at once.
"""

import sys
from collections.abc import Mapping

import msgspec

from actors.fleet.simulated.containers import RUNTIME, Containers
from actors.fleet.simulated.pod import Pod, fingerprint, unpacked
from actors.fleet.simulated.probes import ProbeBook, read_outcomes
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.errors import ClaimsNotReady, HollowInvalid, RoomTaken
from protocols.lifecycle.node import resize
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.admission import REJECTED
from protocols.lifecycle.pods.claims import check, entries, uses_claims
from protocols.lifecycle.pods.deadline import EXCEEDED, deadline_ns
from protocols.lifecycle.pods.hollow import HOLLOW, HollowScript, parse_duration, read_hollow
from protocols.lifecycle.pods.probes import FIELDS, ProbeVerdict, probed
from protocols.lifecycle.pods.resources import Sizes
from protocols.lifecycle.pods.stages import Facts, advance
from protocols.lifecycle.pods.types import SECOND, PodActions, PodStage, Waiting, read_pod
from protocols.lifecycle.restarts import backoff
from protocols.lifecycle.restarts.kills import stop_all
from protocols.lifecycle.restarts.plan import CREATING, compute_actions
from protocols.lifecycle.status.conditions import RESTARTING_ALL
from protocols.lifecycle.status.device_health import Retention, initializing
from protocols.lifecycle.status.events import RESIZE_STARTED, PodEvent, claims_not_prepared, new_backoffs, sync_failed
from protocols.lifecycle.status.patch import status_patch
from protocols.lifecycle.status.pod import StatusInputs, compute_status, is_over, restart_counts
from protocols.messages.health import PodHeld

STOP = "nodeplane.dev/hollow-stop"
"""Annotation: how long a container takes to end after SIGTERM, such as `5s`; it ends at once without it."""
ROUNDS = 50
"""Plans that one step follows, each on what the last one left; a pod that needs more goes on at its next step."""
RETRY_NS = 2 * SECOND
"""Pause before an admission or preparation that failed is tried again."""
CREATE_ERROR = "CreateContainerError"


class StepInputs(msgspec.Struct, frozen=True):
    """Inputs of a step beside the pod itself."""

    now_ns: int
    """Wall clock."""
    now: float
    """Seconds of a clock that never steps, as `Devices` counts them."""
    start_s: float = 0.0
    """Seconds from admission until containers run."""
    claims: Mapping[str, views.ResourceClaim | None] = {}
    """The claims that the last outcome asked for, by name; None for one that does not exist."""
    node_read: bool = False
    """The Node object was read since the last outcome asked for it."""


class Outcome(msgspec.Struct):
    """Work for the caller after a step."""

    patch: Object | None = None
    """Body of PATCH pods/NAME/status."""
    delete: bool = False
    """Delete the pod now, with grace period 0."""
    wake_ns: int = 0
    """Time of the next step; 0 for not before something changes."""
    claims: tuple[str, ...] = ()
    """Names of the ResourceClaims to read before the next step."""
    reads_node: bool = False
    """Read the Node object before the next step: a rejection is final, and the object may be an old one."""
    events: list[PodEvent] = msgspec.field(default_factory=list)


class PodStep:
    """One step of one pod."""

    def __init__(self, pod: Pod, inputs: StepInputs) -> None:
        self._pod = pod
        self._node = pod.node
        self._inputs = inputs
        self._now_ns = inputs.now_ns
        self._spec = read_pod(unpacked(pod.packed))
        self._shown = self._spec.raw.get("status") or {}
        pod.phase = sys.intern(self._shown.get("phase") or "Pending")
        self._annotations = (self._spec.raw.get("metadata") or {}).get("annotations") or {}
        self._script = HollowScript()
        self._stop_ns = 0
        """Time that a container takes to end after SIGTERM."""
        self._problem: Waiting | None = None
        self._outcome = Outcome()

    def run(self) -> Outcome:
        """Advance the pod, which was taken over, as far as it goes now."""
        pod = self._pod
        self._read_script()
        self._runtime.expire(self._script, self._now_ns)
        if pod.stage is PodStage.SYNCING:
            finished = self._is_unwanted() or self._sync()
            pod.stage = advance(pod.stage, Facts(deleting=self._spec.deleting, finished=finished))
        if pod.stage is PodStage.TERMINATING:
            alive = not self._terminate()
            pod.stage = advance(pod.stage, Facts(alive=alive, released=pod.released))
        if pod.stage is PodStage.TERMINATED:
            self._publish(final=True)
            self._outcome.delete = self._spec.deleting and self._outcome.patch is None
        self._wake(self._runtime.next_ns(self._script))
        return self._outcome

    @property
    def _runtime(self) -> Containers:
        assert self._pod.containers is not None
        return self._pod.containers

    # syncing

    def _is_unwanted(self) -> bool:
        pod = self._pod
        return self._spec.deleting or self._spec.terminal or pod.rejected is not None or pod.ended_early is not None

    def _sync(self) -> bool:
        """Return True if the pod has finished."""
        ready = (self._pod.admitted or self._admit()) and self._is_prepared()
        if self._pod.rejected is not None:
            return True
        plan = self._act() if ready else PodActions()
        if ready:
            self._hold()
        shown = self._publish(plan)
        ends_ns = deadline_ns(self._spec, shown)
        if ends_ns and self._now_ns >= ends_ns:
            self._pod.ended_early = EXCEEDED
            self._event("Normal", EXCEEDED.reason, EXCEEDED.message)
            return True
        self._wake(ends_ns)
        return ready and is_over(self._spec, shown) and not plan.restart_all

    def _admit(self) -> bool:
        """Return True once the pod counts on its node."""
        if self._waits():
            return False
        try:
            rejected = self._node.admit(self._spec)
        except RoomTaken:
            self._retry()
            return False
        if rejected is not None and not self._inputs.node_read:
            self._outcome.reads_node = True
            return False
        if rejected is not None:
            self._pod.rejected = rejected
            self._event("Warning", rejected.reason, rejected.message.removeprefix(REJECTED))
            return False
        self._pod.admitted = True
        self._pod.start_ns = self._now_ns + int(self._inputs.start_s * SECOND)
        return True

    def _is_prepared(self) -> bool:
        """Return True once the claims of the pod are known to be its own."""
        if self._pod.claims or not uses_claims(self._spec):
            return True
        if self._waits():
            return False
        try:
            wanted = entries(self._spec)
            if missing := tuple(entry.claim for entry in wanted if entry.claim not in self._inputs.claims):
                self._outcome.claims = missing
                return False
            self._pod.claims = tuple(check(self._spec, entry, self._inputs.claims[entry.claim]) for entry in wanted)
            self._check_drivers()
        except ClaimsNotReady as error:
            self._pod.claims = ()
            text = f"prepare dynamic resources: {error}"
            self._outcome.events += [claims_not_prepared(text), sync_failed(text)]
            self._retry()
            return False
        return True

    def _check_drivers(self) -> None:
        """Raise ClaimsNotReady if a driver that has to prepare a claim is away."""
        for claim in self._pod.claims:
            for name in sorted({result.driver for result in claim.results}):
                if not self._node.has_driver(name):
                    raise ClaimsNotReady(f"DRA driver {name} is not registered")

    def _act(self) -> PodActions:
        """Follow plans until one has nothing more to do, and return it."""
        plan = PodActions()
        for _ in range(ROUNDS):
            plan = self._plan()
            if plan.mutates and not self._is_held_back(plan) and not self._is_news(plan):
                self._follow(plan)
                if plan.restart_all and plan.remove:
                    break  # the status shows their end before they start again
            elif not self._resize():
                break
        self._wake(plan.wake_ns)
        return plan

    def _is_news(self, plan: PodActions) -> bool:
        """Return True if all containers are to restart and the status does not show yet how they ended."""
        conditions = self._shown.get("conditions") or ()
        return plan.restart_all and not any(
            condition.get("type") == RESTARTING_ALL and condition.get("status") == "True" for condition in conditions
        )

    def _resize(self) -> bool:
        """Give the containers what the spec wants. Return True if some are ended for it."""
        spec, node = self._spec, self._node
        sizes = self._pod.sizes = self._pod.sizes or Sizes()
        runs = resize.running(self._runtime.status)
        resize.adopt(spec, sizes, runs, self._shown)
        allocatable = (node.object.get("status") or {}).get("allocatable") or {}
        events = resize.allocate(spec, sizes, resize.ResizeLimits(node.room.capacity_for(spec, allocatable)))
        if RESIZE_STARTED in events:
            node.room.count(spec, sizes.allocated)
        node.room.defer(spec, sizes.is_deferred)
        changes = resize.size_changes(spec, sizes, runs)
        sizes.actuated.update((change.run.id, change.size) for change in changes if change.kill is None)
        self._outcome.events += events + resize.conclude(sizes, changes)
        if sizes.is_deferred:
            self._wake(self._now_ns + RETRY_NS)
        kill = tuple(change.kill for change in changes if change.kill and not self._runtime.is_stopping(change.run.id))
        if kill:
            self._follow(PodActions(kill=kill))
        return bool(kill)

    def _is_held_back(self, plan: PodActions) -> bool:
        """Return True before the time that a start takes has passed, and for containers that cannot be created."""
        if not plan.start and plan.create_sandbox < 0:
            return False
        if self._now_ns < self._pod.start_ns:
            self._wake(self._pod.start_ns)
            return True
        return self._problem is not None

    def _plan(self) -> PodActions:
        pod, status = self._pod, self._runtime.status
        for ids in (pod.replaced, pod.announced):
            if ids:
                ids.intersection_update({run.id for run in status.containers})
        counts = restart_counts(self._shown)
        plan = compute_actions(
            self._spec, status, pod.backoffs, self._now_ns, counts, self._verdicts(), tuple(pod.replaced)
        )
        kill = tuple(container for container in plan.kill if not self._runtime.is_stopping(container.id))
        self._outcome.events += new_backoffs(self._spec, status, plan.waiting, pod.announced)
        return msgspec.structs.replace(plan, kill=kill)

    def _verdicts(self) -> dict[str, ProbeVerdict]:
        if self._pod.probes is None:
            if not probed(self._spec):
                return {}
            self._pod.probes = ProbeBook()
        if self._problem is not None:
            return {}
        return self._pod.probes.follow(self._spec, self._runtime.status, self._annotations, self._now_ns)

    def _follow(self, plan: PodActions) -> None:
        for kill in plan.kill:
            if kill.restart:
                self._pod.replaced.add(kill.id)
            self._runtime.stop(kill, kill.grace or self._spec.grace, self._stop_ns, self._now_ns)
        for step in plan.start:
            self._advance_backoff(step.name, step.crashed_ns)
        ip = self._node.address_for(self._pod.uid) if plan.create_sandbox >= 0 else ""
        self._runtime.apply(self._spec, plan, self._now_ns, ip)
        self._runtime.expire(self._script, self._now_ns)

    def _advance_backoff(self, name: str, crashed_ns: int) -> None:
        container = self._spec.find(name)
        if crashed_ns and container is not None:
            entry = self._pod.backoffs.get(name)
            self._pod.backoffs[name] = backoff.advance(entry, crashed_ns, self._now_ns, container.hash)

    def _hold(self) -> None:
        """Note what the pod holds now, and take the health of it."""
        node = self._node
        node.devices.hold(self._spec, self._pod.claims, initializing(self._spec, self._shown))
        node.refresh(self._inputs.now)
        self._pod.resources = node.health.pop(self._pod.uid, self._pod.resources)

    # terminating

    def _terminate(self) -> bool:
        """Return True once nothing runs and the devices are free."""
        if live := runtime_status.live(self._runtime.status):
            for kill in stop_all(self._spec, live):
                self._runtime.stop(kill, self._spec.grace, self._stop_ns, self._now_ns)
            self._runtime.expire(self._script, self._now_ns)
        if runtime_status.live(self._runtime.status):
            self._publish()
            return False
        self._runtime.stop_sandboxes(tuple(s.id for s in self._runtime.status.sandboxes if s.ready))
        if not self._pod.released:
            self._pod.released = True
            self._node.release(self._pod.uid)
        return True

    # status

    def _publish(self, plan: PodActions | None = None, final: bool = False) -> views.PodStatus:
        """Compute the status, and the patch to it."""
        pod, node = self._pod, self._node
        waiting = dict(plan.waiting) if plan is not None else {}
        if self._problem is not None:
            waiting |= {c.name: self._problem for c in self._spec.containers}
        if plan is not None:
            waiting = {**dict.fromkeys(plan.restarting, Waiting(CREATING)), **waiting}
        status = compute_status(
            StatusInputs(
                spec=self._spec,
                runtime=self._runtime.status,
                before=self._shown,
                waiting=waiting,
                resources=None if pod.health_rejected else pod.resources,
                verdicts=self._verdicts() if not final else {},
                ended_early=pod.ended_early,
                runtime_name=RUNTIME,
                host_ip=node.address,
                now_ns=self._now_ns,
                final=final,
                retention=Retention.UNREPORTED if final else Retention.NOTHING,
                held_before=PodHeld(),
                devices_held=not pod.released and pod.rejected is None,
                sizes=pod.sizes or Sizes(),
                health_enabled=not pod.health_rejected,
                rejected=pod.rejected,
            )
        )
        patch = status_patch(pod.uid, self._shown, status)
        if patch is not None and pod.accepted == (fingerprint(patch), pod.version):
            patch = None  # the API took it, and shows it in its own way
        self._outcome.patch = patch
        if pod.probes is not None:
            self._wake(pod.probes.due_ns)
        return status

    # helpers

    def _read_script(self) -> None:
        try:
            self._script = read_hollow({**self._annotations, HOLLOW: "true"}, simulated=True) or self._script
            self._stop_ns = parse_duration(text) if (text := self._annotations.get(STOP, "")) else 0
            for kind in FIELDS:
                read_outcomes(self._annotations, kind)
        except HollowInvalid as error:
            self._problem = Waiting(CREATE_ERROR, str(error))

    def _waits(self) -> bool:
        """Return True while the pause after a failure lasts."""
        if self._now_ns >= self._pod.retry_ns:
            return False
        self._wake(self._pod.retry_ns)
        return True

    def _retry(self) -> None:
        self._pod.retry_ns = self._now_ns + RETRY_NS
        self._wake(self._pod.retry_ns)

    def _wake(self, at_ns: int) -> None:
        if at_ns:
            self._outcome.wake_ns = min(self._outcome.wake_ns or at_ns, at_ns)

    def _event(self, kind: str, reason: str, message: str) -> None:
        self._outcome.events.append(PodEvent(kind, reason, message))
