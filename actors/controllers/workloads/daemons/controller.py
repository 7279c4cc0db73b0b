"""The DaemonSet controller."""

import asyncio
from collections.abc import Mapping, Sequence

from actors.controllers.workloads.common.controller import Tools, WorkloadController, guard
from actors.controllers.workloads.common.index import OwnerIndex
from actors.controllers.workloads.common.pod_control import MOST_AT_ONCE
from actors.controllers.workloads.common.pods import REVISION_HASH, PodView, pod_view
from actors.controllers.workloads.common.templates import same_template, template_of
from actors.controllers.workloads.daemons.nodes import daemon_pod, fit
from actors.controllers.workloads.daemons.plan import Daemons, DaemonSetPlan
from actors.controllers.workloads.daemons.revisions import (
    hash_of,
    history_of,
    new_revision,
    number_of,
    stored_template,
    surplus,
)
from protocols.kinds import views
from protocols.kinds.table import CONTROLLERREVISIONS, DAEMONSETS, PODS
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, labels_of, name_of, namespace_of, terminating, uid_of
from protocols.process.rates import backoff_delay

FAILED_S, LONGEST_FAILED_S = 1.0, 900.0
"""Pause before a failed pod on a node is replaced, doubled with each failure."""


class FailureBackoff:
    """Pauses before failed pods are replaced, by DaemonSet and node. Pure; bounded by `forget`."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, float]] = {}
        """Failures in a row and when the last one was replaced."""

    def left(self, owner: str, node: str, now: float) -> float:
        failures, at = self._known.get((owner, node), (0, 0.0))
        return max(0.0, at + self._delay(failures) - now)

    def replaced(self, owner: str, node: str, now: float) -> None:
        failures, at = self._known.get((owner, node), (0, 0.0))
        recovered = now - at > 2 * LONGEST_FAILED_S
        self._known[(owner, node)] = (1 if recovered else failures + 1), now

    def forget(self, gone: str) -> None:
        """Forget a DaemonSet by its uid, or a node by its name."""
        for key in [key for key in self._known if gone in key]:
            del self._known[key]

    def _delay(self, failures: int) -> float:
        return backoff_delay(failures, FAILED_S, LONGEST_FAILED_S) if failures else 0.0


class DaemonSetController(WorkloadController):
    """Reconciles one DaemonSet at a time; changes of nodes enqueue all of them."""

    kind = "DaemonSet"
    resource = DAEMONSETS

    def __init__(self, tools: Tools, pods: OwnerIndex, revisions: OwnerIndex, nodes: Mapping[str, views.Node]) -> None:
        super().__init__(tools, pods)
        self._revisions, self._nodes = revisions, nodes
        self._failures = FailureBackoff()

    def on_delete(self, obj: Object) -> None:
        super().on_delete(obj)
        self._failures.forget(uid_of(obj))

    def node_changed(self, old: views.Node | None, new: views.Node | None) -> None:
        """Enqueue all DaemonSets if a node came, went, or changed what pods fit it by."""
        if old is not None and new is None:
            self._failures.forget(name_of(old))
        if old is None or new is None or _fit_fields(old) != _fit_fields(new):
            for key in self.items:
                self.enqueue(key)

    async def sync(self, obj: Object) -> None:
        if not (obj.get("spec") or {}).get("selector"):
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            self._tools.recorder.event(obj, "Warning", "SelectingAll", text)
            return
        if terminating(obj):
            return
        settled = await self.settled(obj)
        pods = await self.claim_pods(obj)
        current, old = await self._history(obj, pods)
        daemons, fault = self._daemons(obj, current, pods), None
        if settled:
            try:
                await self._manage(obj, daemons, hash_of(current))
                await self._clean(obj, old, pods)
            except (ApiAway, ApiError) as error:
                fault = error
        await self.write_status(obj, daemons.status(observed=settled))
        self.again(obj, daemons.next_available())
        if fault is not None:
            raise fault

    def _daemons(self, obj: Object, current: Object, pods: Sequence[PodView]) -> Daemons:
        fits = {name: fit(node, obj) for name, node in self._nodes.items()}
        return Daemons(obj, hash_of(current), fits, pods, self._tools.clock())

    async def _manage(self, obj: Object, daemons: Daemons, revision_hash: str) -> None:
        uid, loop = uid_of(obj), asyncio.get_running_loop()
        plan = daemons.repair(lambda node: self._failures.left(uid, node, loop.time()))
        for pod in plan.failed:
            self._report(obj, pod)
            if pod.phase == "Failed":
                self._failures.replaced(uid, pod.target, loop.time())
        self.again(obj, plan.wait)
        if not plan.create and not plan.delete:
            plan = daemons.update()
        await self._carry_out(obj, plan, revision_hash)

    async def _carry_out(self, obj: Object, plan: DaemonSetPlan, revision_hash: str) -> None:
        pods = [daemon_pod(obj, node, revision_hash) for node in plan.create[:MOST_AT_ONCE]]
        try:
            await self._control.create(obj, pods)
        finally:
            await self._control.delete(obj, plan.delete[:MOST_AT_ONCE])

    def _report(self, obj: Object, pod: PodView) -> None:
        where = f"daemon pod {pod.namespace}/{pod.name} on node {pod.target}"
        if pod.phase == "Failed":
            text = f"Found failed {where}, will try to kill it"
            self._tools.recorder.event(obj, "Warning", "FailedDaemonPod", text)
        else:
            text = f"Found succeeded {where}, will try to delete it"
            self._tools.recorder.event(obj, "Normal", "SucceededDaemonPod", text)

    # revisions

    async def _history(self, obj: Object, pods: list[PodView]) -> tuple[Object, list[Object]]:
        """Return the revision of the current template, created if necessary, and the old ones.

        Pods of other revisions of the template get its label, also in `pods`: else they would be replaced.
        """
        history = history_of(obj, await self.claim_from(obj, self._revisions))
        if history.current is None:
            return await self._snapshot(obj, history.number), history.old
        for duplicate in history.duplicates:
            await self._relabel(pods, hash_of(duplicate), hash_of(history.current))
            await self._tools.client.delete(
                CONTROLLERREVISIONS, name_of(duplicate), namespace_of(obj), uid=uid_of(duplicate)
            )
        if number_of(history.current) != history.number:
            body = {"metadata": guard(history.current), "revision": history.number}
            name = name_of(history.current)
            return await self._tools.client.patch(CONTROLLERREVISIONS, name, namespace_of(obj), body), history.old
        return history.current, history.old

    async def _snapshot(self, obj: Object, number: int) -> Object:
        revision, client = new_revision(obj, number), self._tools.client
        try:
            return await client.create(CONTROLLERREVISIONS, revision, namespace_of(obj))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            known = await client.get(CONTROLLERREVISIONS, name_of(revision), namespace_of(obj))
            if same_template(stored_template(known), template_of(obj)):
                return known
            count = int((obj.get("status") or {}).get("collisionCount") or 0)
            await self.write_status(obj, {"collisionCount": count + 1})
            raise

    async def _clean(self, obj: Object, old: Sequence[Object], pods: Sequence[PodView]) -> None:
        for revision in surplus(obj, old, pods):
            name, uid = name_of(revision), uid_of(revision)
            await self._tools.client.delete(CONTROLLERREVISIONS, name, namespace_of(obj), uid=uid)

    async def _relabel(self, pods: list[PodView], old: str, new: str) -> None:
        for at, pod in enumerate(pods):
            if pod.labels.get(REVISION_HASH) == old:
                body = {"metadata": {**guard(pod.obj), "labels": {REVISION_HASH: new}}}
                pods[at] = pod_view(await self._tools.client.patch(PODS, pod.name, pod.namespace, body))


def _fit_fields(node: views.Node) -> tuple[object, ...]:
    spec = node.get("spec") or {}
    return labels_of(node), spec.get("taints"), spec.get("unschedulable")
