"""The Job controller, and the pods that it makes."""

from actors.controllers.workloads.common.claims import selector_of
from actors.controllers.workloads.common.controller import Tools, WorkloadController
from actors.controllers.workloads.common.index import OwnerIndex
from actors.controllers.workloads.common.pod_control import MOST_AT_ONCE
from actors.controllers.workloads.common.pods import (
    COMPLETION_INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED,
    JOB_TRACKING,
    ControllerOwner,
    PodView,
    pod_view,
)
from actors.controllers.workloads.common.templates import pod_from, template_of
from actors.controllers.workloads.jobs.indexes import Failures
from actors.controllers.workloads.jobs.plan import JobPlan, finished, plan, seconds_to_live
from actors.controllers.workloads.jobs.spec import managed_elsewhere, unsupported
from protocols.kinds.table import JOBS, PODS
from protocols.kube.errors import suppress_status
from protocols.kube.meta import Object, key_of, meta, name_of, namespace_of, terminating, uid_of, version_of
from protocols.kubeclient.client import find
from protocols.kubeclient.workqueue import Key

ORPHAN = "job pod"
"""Kind of queue keys for pods whose Job is gone."""
RETRY_S = 1.0


INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


class JobController(WorkloadController):
    """Reconciles one Job at a time; pods that lost their Job lose their finalizer, too."""

    kind = "Job"
    resource = JOBS

    def __init__(self, tools: Tools, pods: OwnerIndex) -> None:
        super().__init__(tools, pods)
        self._released: dict[str, set[str]] = {}
        """Job uid -> uids of pods that were seen without the finalizer or gone; bounded by the list in the status."""

    def on_delete(self, obj: Object) -> None:
        super().on_delete(obj)
        self._released.pop(uid_of(obj), None)
        # Orphans too: while the informer still showed the Job, it might have adopted them.
        for pod in (*self._pods.owned(uid_of(obj)), *self._pods.orphans(namespace_of(obj))):
            if JOB_TRACKING in (meta(pod).get("finalizers") or ()):
                self.queue.put((ORPHAN, key_of(pod)))

    def pod_changed(self, owner: ControllerOwner, pod: Object) -> None:
        self._control.observe(pod, owner.uid)
        if not self.enqueue_owner(owner, pod):
            self.queue.put((ORPHAN, key_of(pod)))

    def orphan_changed(self, obj: Object) -> None:
        super().orphan_changed(obj)
        if JOB_TRACKING in (meta(obj).get("finalizers") or ()):
            self.queue.put((ORPHAN, key_of(obj)))

    def pod_gone(self, owner: ControllerOwner, pod: Object) -> None:
        if owner.uid in self._released:
            self._released[owner.uid].add(uid_of(pod))
        super().pod_gone(owner, pod)

    async def _step(self, key: Key) -> None:
        if key[0] == ORPHAN:
            await self._free_orphan(key[1])
        else:
            await super()._step(key)

    async def sync(self, obj: Object) -> None:
        if managed_elsewhere(obj):
            await self._expire(obj)
            return
        if why := unsupported(obj):
            self._tools.recorder.event(obj, "Warning", "NotManaged", why)
            return
        settled = await self.settled(obj)
        pods = await self.claim_pods(obj)
        decided = plan(obj, pods, await self._gone(obj, pods), self._tools.clock(), settled=settled)
        obj = await self.write_status(obj, decided.status)
        self._forget_counted(obj)
        for event in decided.events:  # at once: their condition is written, and no later pass has them
            self._tools.recorder.event(obj, event.type, event.reason, event.message)
        for pod in decided.account.release:
            await self._free(pod)
        if settled and not terminating(obj):
            await self._manage(obj, decided)
        self.again(obj, RETRY_S if decided.account.more else decided.wait)
        await self._expire(obj)

    async def _manage(self, obj: Object, decided: JobPlan) -> None:
        drop = decided.drop[:MOST_AT_ONCE]
        for pod in drop:
            await self._free(pod)
        await self._control.delete(obj, [*drop, *decided.stop][:MOST_AT_ONCE])
        indexes: list[int | None] = [*decided.indexes[:MOST_AT_ONCE]] or [None] * min(decided.create, MOST_AT_ONCE)
        pods = [job_pod(obj, index, decided.failures.get(-1 if index is None else index)) for index in indexes]
        await self._control.create(obj, pods)

    async def _expire(self, obj: Object) -> None:
        """Delete a finished Job that is due. The live read guards against a longer time to live."""
        now = self._tools.clock()
        if (left := seconds_to_live(obj, now)) is None or left > 0:
            self.again(obj, left)
            return
        live = await self._tools.client.get(JOBS, name_of(obj), namespace_of(obj))
        left, uid = seconds_to_live(live, now), uid_of(live)
        if uid == uid_of(obj) and left is not None and left <= 0:
            where = (JOBS, name_of(obj), namespace_of(obj))
            await self._tools.client.delete(*where, uid=uid, version=version_of(live), policy="Foreground")

    def adopts(self, owner: Object, pod: Object) -> bool:
        return finished(owner) is None and not managed_elsewhere(owner)

    def adoption(self, owner: Object, obj: Object) -> Object:
        patch = super().adoption(owner, obj)
        patch["metadata"]["finalizers"] = [*dict.fromkeys([*(meta(obj).get("finalizers") or ()), JOB_TRACKING])]
        return patch

    # counted pods

    async def _gone(self, obj: Object, pods: list[PodView]) -> set[str]:
        """Return the uids in the status' list whose pods are gone, which a stale informer cannot prove."""
        lists = (obj.get("status") or {}).get("uncountedTerminatedPods") or {}
        listed = {str(uid) for uids in lists.values() for uid in uids or ()}
        seen = self._released.setdefault(uid_of(obj), set())
        unknown = listed - {pod.uid for pod in pods} - seen
        if unknown:
            live = await self._live_pods(obj)
            seen |= {uid for uid in unknown if uid not in live}
        return seen & listed

    async def _live_pods(self, obj: Object) -> set[str]:
        """Return the uids of the Job's pods that have the finalizer."""
        selector = f"batch.kubernetes.io/controller-uid={uid_of(obj)}"
        manual = (obj.get("spec") or {}).get("manualSelector")
        listed = await self._tools.client.list(PODS, namespace_of(obj), label_selector="" if manual else selector)
        return {uid_of(pod) for pod in listed.get("items") or () if JOB_TRACKING in (meta(pod).get("finalizers") or ())}

    def _forget_counted(self, obj: Object) -> None:
        lists = (obj.get("status") or {}).get("uncountedTerminatedPods") or {}
        listed = {str(uid) for uids in lists.values() for uid in uids or ()}
        if (seen := self._released.get(uid_of(obj))) is not None:  # None: the Job was deleted meanwhile
            seen &= listed

    async def _free(self, pod: PodView) -> None:
        """Remove the finalizer. The resourceVersion guards the other finalizers."""
        if not pod.tracked:
            return
        metadata = meta(pod.obj)
        rest = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != JOB_TRACKING]
        guarded = {field: metadata[field] for field in ("uid", "resourceVersion")}
        body = {"metadata": {**guarded, "finalizers": rest or None}}
        with suppress_status(404):
            await self._tools.client.patch(PODS, pod.name, pod.namespace, body)

    async def _has_job(self, pod: PodView) -> bool:
        """Confirm by a live read that the Job is gone: the informer may not show a new one yet."""
        if pod.owner is None:
            return any(self._selects(job, pod) for job in self.items.values())
        live = await find(self._tools.client, JOBS, pod.owner.name, pod.namespace)
        return live is not None and uid_of(live) == pod.owner.uid

    def _selects(self, job: Object, pod: PodView) -> bool:
        if namespace_of(job) != pod.namespace or terminating(job) or not self.adopts(job, pod.obj):
            return False
        selector = selector_of(job)
        return selector is not None and selector.matches(pod.labels)

    async def _free_orphan(self, key: str) -> None:
        """Remove the finalizer of a pod that no Job has, nor will adopt."""
        known = self._pods.items.get(key)
        pod = pod_view(known) if known is not None else None
        if pod is None or not pod.tracked or await self._has_job(pod):
            return
        with suppress_status(409):
            await self._free(pod)


def job_pod(job: Object, index: int | None = None, failures: Failures | None = None) -> Object:
    """Return a pod with the finalizer; `index` for an Indexed Job, with its `failures` where each index has a limit."""
    template = template_of(job)
    prefix = f"{name_of(job)}-" if index is None else f"{name_of(job)[: 58 - len(str(index)) - 2]}-{index}-"
    pod = pod_from(job, template, prefix=prefix)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", ()), JOB_TRACKING]
    if index is not None:
        metadata["annotations"][COMPLETION_INDEX] = metadata["labels"][COMPLETION_INDEX] = str(index)
        if failures is not None:
            metadata["annotations"][INDEX_FAILURES] = str(failures.counted)
        if failures is not None and failures.ignored:
            metadata["annotations"][INDEX_IGNORED] = str(failures.ignored)
        _add_index(pod["spec"], f"{name_of(job)}-{index}")
    return pod


def _add_index(spec: Object, hostname: str) -> None:
    spec["hostname"] = hostname
    path = f"metadata.labels['{COMPLETION_INDEX}']"
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        known = container.get("env") or []
        if all(entry.get("name") != INDEX_VARIABLE for entry in known):
            container["env"] = [*known, variable]
