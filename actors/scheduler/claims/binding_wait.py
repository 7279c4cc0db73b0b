"""Wait until the devices of a pod's claims are ready for its binding (KEP-5007).

A wait may take ten minutes. It holds no slot of the binding cycle: it is a task that sleeps until one of its claims
changes or its time is up. Waits are bounded by the pods whose devices are allocated. All that a wait knows is in the
claims, so that a scheduler that starts anew goes on with it.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from actors.scheduler.model.claim_demand import Assignment
from actors.scheduler.model.errors import BindingFailed, ClaimChanged, WaitPreempted
from protocols.bounded import BoundedMap
from protocols.dra.binding import FAILED, READY, BindingVerdict, has_binding_conditions, verdict
from protocols.dra.pods import is_reserved_for
from protocols.kinds import views
from protocols.kube.meta import uid_of
from protocols.process.tasks import wait_set

T = TypeVar("T")
MAX_REMEMBERED = 1024
"""Pods whose failed nodes are remembered; the oldest is forgotten."""


class BindingWait:
    """Waits of all pods whose devices are being prepared, and the nodes where that failed before."""

    def __init__(self, claim: Callable[[str], views.ResourceClaim | None], enabled: bool, timeout: float) -> None:
        self._claim, self._enabled, self._timeout = claim, enabled, timeout
        self._woken: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._failed_nodes = BoundedMap[str, set[str]](MAX_REMEMBERED)
        self._waits: dict[str, asyncio.Event] = {}
        """Events that wake the waits, by uid of the pod."""
        self._writing: set[str] = set()
        """Pods whose claims are being written."""
        self._giving_way: dict[str, asyncio.Event] = {}
        """Set once the claims of a preempted pod are released."""

    @contextmanager
    def interruptible(self, uid: str) -> Iterator[None]:
        """Let a pod give way while its claims are written; raise WaitPreempted at the end if it has to."""
        self._writing.add(uid)
        try:
            yield
        except Exception:
            self._check_preempted(uid)
            raise
        finally:
            self._writing.discard(uid)
        self._check_preempted(uid)

    @property
    def waiting(self) -> int:
        """Number of pods that wait."""
        return len(self._waits)

    def is_needed(self, assignments: Iterable[Assignment]) -> bool:
        """Return True if a claim has devices with binding conditions."""
        claims = (self._claim(assignment.key) for assignment in assignments) if self._enabled else ()
        return any(claim is not None and has_binding_conditions(claim) for claim in claims)

    def is_failed(self, claim: views.ResourceClaim) -> bool:
        """Return True for an allocated claim whose devices failed or took too long: no pod may use it."""
        return self._enabled and has_binding_conditions(claim) and self._verdict(claim).state == FAILED

    def claim_changed(self, key: str) -> None:
        for event in self._woken.get(key, ()):
            event.set()

    async def wait(self, pod: views.Pod, assignments: Collection[Assignment]) -> None:
        """Raises BindingFailed, WaitPreempted, or ClaimChanged if a claim is no longer reserved for the pod."""
        changed = self._waits[uid_of(pod)] = asyncio.Event()
        for assignment in assignments:
            self._woken[assignment.key].add(changed)
        try:
            end = time.time() + self._timeout  # for allocations without a time of their own
            while (deadline := self._next_deadline(pod, assignments, end)) is not None:
                changed.clear()
                await wait_set(changed, deadline - time.time())
        finally:
            del self._waits[uid_of(pod)]
            for assignment in assignments:
                self._forget(assignment.key, changed)

    def _next_deadline(self, pod: views.Pod, assignments: Collection[Assignment], end: float) -> float | None:
        """Return when the wait ends, or None if all claims are ready. Raises the errors of `wait`."""
        self._check_preempted(uid_of(pod))
        waiting = []
        for assignment in assignments:
            claim = self._claim(assignment.key)
            if claim is None or uid_of(claim) != assignment.uid or not is_reserved_for(claim, uid_of(pod)):
                raise ClaimChanged(f"claim {assignment.key} changed while its devices were prepared")
            verdict = self._verdict(claim)
            if verdict.state == FAILED:
                raise BindingFailed(verdict.text)
            if verdict.state != READY:
                waiting.append(end if verdict.deadline is None else verdict.deadline)
        if waiting and time.time() >= end:
            raise BindingFailed("device binding timeout")
        return min(*waiting, end) if waiting else None

    def _check_preempted(self, uid: str) -> None:
        if uid in self._giving_way:
            raise WaitPreempted("a pod of higher priority takes its place")

    def _verdict(self, claim: views.ResourceClaim) -> BindingVerdict:
        return verdict(claim, time.time(), self._timeout)

    def _forget(self, key: str, changed: asyncio.Event) -> None:
        events = self._woken[key]
        events.discard(changed)
        if not events:
            del self._woken[key]

    async def give_way(self, uid: str) -> bool:
        """End the binding cycle of a preempted pod.

        Return True once its claims are released, False if the pod neither waits nor has claims that are being written:
        then it is about to be bound.
        """
        done = self._giving_way.get(uid)
        if done is None:
            changed = self._waits.get(uid)
            if changed is None and uid not in self._writing:
                return False
            done = self._giving_way[uid] = asyncio.Event()
            if changed is not None:
                changed.set()
        await done.wait()
        return True

    def gave_way(self, uid: str) -> None:
        if done := self._giving_way.pop(uid, None):
            done.set()

    # nodes on which devices of a pod failed

    def node_failed(self, uid: str, node: str) -> None:
        self._failed_nodes.get_or_make(uid, set).add(node)

    def bound(self, uid: str) -> None:
        self._failed_nodes.pop(uid, None)

    def is_tried(self, uid: str) -> bool:
        """Return True if devices of the pod failed on some node."""
        return uid in self._failed_nodes

    def untried(self, uid: str, nodes: Mapping[str, T]) -> dict[str, T]:
        """Return the nodes on which no devices of the pod failed, or all nodes if there are none."""
        failed = self._failed_nodes.get(uid, ())
        left = {name: each for name, each in nodes.items() if name not in failed}
        if not left:
            self.bound(uid)
        return left or dict(nodes)
