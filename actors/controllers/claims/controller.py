"""Resource claim controller: create claims from templates, and release claims of finished pods.

Decisions read the informers' stores; writes carry the resourceVersion that the decision was made on.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import TypeVar, cast

from actors.controllers.claims.metrics import ClaimMetrics
from actors.controllers.claims.templates import claim_for, found, missing, statuses
from protocols.bounded import BoundedMap
from protocols.dra.pods import (
    allocation_of,
    claim_entries,
    claim_names,
    consumers,
    deallocated,
    has_finalizer,
    has_released_claims,
    is_from_template,
    is_fully_reserved,
    is_owned_by,
    is_pod,
    is_reserved_for,
    owner_pod,
    releasing,
    reserving,
    used_claims,
    without_finalizer,
)
from protocols.kinds import views
from protocols.kinds.table import PODS, RESOURCECLAIMS
from protocols.kube.errors import ApiError, suppress_status
from protocols.kube.meta import join_key, key_of, name_of, namespace_of, split_key, terminating, uid_of, version_of
from protocols.kubeclient.client import ApiClient, find
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.workqueue import Key, WorkQueue
from protocols.trace import span

POD, CLAIM = "pod", "claim"
REMEMBERED = 2000
UNSEEN_S = 5.0
"""Delay of the next pass over a claim whose pod only the API has: the informer may never report the pod's end."""
FULL_S = 5.0
"""Delay of the next pass over a bound pod whose claim has as many consumers as it may."""
FAILED = "FailedResourceClaimCreation"
MISSING_TEMPLATE = 'resource claim template "{0}": resourceclaimtemplate.resource.k8s.io "{0}" not found'
"""Upstream's text."""
T = TypeVar("T")


class ResourceClaimController:
    """Creates claims of pods; deallocates claims without consumers, and deletes those that were generated."""

    def __init__(self, client: ApiClient, recorder: EventRecorder, log: logging.Logger, metrics: ClaimMetrics) -> None:
        self._client, self._recorder, self._metrics = client, recorder, metrics
        self._work = WorkQueue(self._step, log)
        metrics.waiting = lambda: len(self._work)
        self._pods_seen = PodLookup(client)
        self._owned: defaultdict[str, set[str]] = defaultdict(set)
        """Pod uid -> keys of the claims generated for it."""
        self._made = BoundedMap[tuple[str, str], str](REMEMBERED)
        """Pod uid and entry -> created claim; bridges the time until the informer shows it."""
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        """Missing template -> pods that wait for it."""
        self._unreserved: defaultdict[str, set[str]] = defaultdict(set)
        """Missing or unallocated claim -> bound pods to reserve it for."""
        self._acted = BoundedMap[tuple[str, str], bool](REMEMBERED)
        """Uid and resourceVersion of claims that this controller wrote and has acted on, until their events come."""
        self.templates: Mapping[str, views.ResourceClaimTemplate] = {}

    @property
    def claims(self) -> Mapping[str, views.ResourceClaim]:
        return self._metrics.claims

    @claims.setter
    def claims(self, items: Mapping[str, views.ResourceClaim]) -> None:
        self._metrics.claims = items

    @property
    def pods(self) -> Mapping[str, views.Pod]:
        return self._pods_seen.known

    @pods.setter
    def pods(self, items: Mapping[str, views.Pod]) -> None:
        self._pods_seen.known = items

    async def run(self) -> None:
        await self._work.run()

    # what changed

    def pod_changed(self, pod: views.Pod) -> None:
        if not claim_entries(pod) and not used_claims(pod):
            return
        self._work.put((POD, key_of(pod)))
        if has_released_claims(pod):
            self._enqueue_claims_of(pod)

    def pod_gone(self, pod: views.Pod) -> None:
        if claim_entries(pod) or used_claims(pod):
            self._stop_waiting(pod)
            self._enqueue_claims_of(pod)

    def _stop_waiting(self, pod: views.Pod) -> None:
        templates = [each["resourceClaimTemplateName"] for each in filter(is_from_template, claim_entries(pod))]
        for names, waiting in ((templates, self._waiting), (used_claims(pod), self._unreserved)):
            for key in {f"{namespace_of(pod)}/{name}" for name in names}:
                waiting[key].discard(key_of(pod))
                if not waiting[key]:
                    del waiting[key]

    def _enqueue_claims_of(self, pod: views.Pod) -> None:
        named = {f"{namespace_of(pod)}/{name}" for name in used_claims(pod)}
        self._work.put(*((CLAIM, key) for key in sorted(named | self._owned.get(uid_of(pod), set()))))

    def claim_changed(self, claim: views.ResourceClaim) -> None:
        owner = owner_pod(claim)
        if owner is not None:
            self._owned[owner[1]].add(key_of(claim))
        if not self._acted.pop((uid_of(claim), version_of(claim)), False):
            self._work.put((CLAIM, key_of(claim)))
        if owner is not None and allocation_of(claim) is not None and not consumers(claim):
            self._work.put((POD, f"{namespace_of(claim)}/{owner[0]}"))
        if allocation_of(claim) is not None:
            self._work.put(*((POD, key) for key in sorted(self._unreserved.pop(key_of(claim), ()))))

    def claim_gone(self, claim: views.ResourceClaim) -> None:
        owner = owner_pod(claim)
        if owner is None:
            return
        held = self._owned[owner[1]]
        held.discard(key_of(claim))
        if not held:
            del self._owned[owner[1]]
        self._work.put((POD, f"{namespace_of(claim)}/{owner[0]}"))

    def template_changed(self, template: views.ResourceClaimTemplate) -> None:
        self._work.put(*((POD, key) for key in sorted(self._waiting.pop(key_of(template), ()))))

    # what to do

    async def _step(self, key: Key) -> None:
        kind, name = key
        if kind == POD:
            pod = self.pods.get(name)
            if pod is not None and not terminating(pod) and not has_released_claims(pod):
                await self._make_missing(pod)
                await self._reserve_for_bound(pod)
        elif (claim := self.claims.get(name)) is not None:
            await self._process(claim)

    async def _make_missing(self, pod: views.Pod) -> None:
        claims = {}
        for entry in [*missing(pod), *await self._lost(pod)]:
            name = str(entry["name"])
            claim = await self._make(pod, name, str(entry["resourceClaimTemplateName"]))
            if claim:
                claims[name] = claim
        if claims:
            body = {"metadata": {"uid": uid_of(pod)}, "status": {"resourceClaimStatuses": statuses(pod, claims)}}
            with span(uid_of(pod), "publish claims"):
                await self._client.patch(
                    PODS, name_of(pod), namespace_of(pod), body, kind="strategic", subresource="status"
                )

    async def _lost(self, pod: views.Pod) -> list[views.PodResourceClaim]:
        """Return the entries whose claim is not the pod's any more, before the pod had a node.

        It was deleted, and perhaps another one has its name.
        """
        if (pod.get("spec") or {}).get("nodeName"):
            return []
        names = claim_names(pod)
        named = [entry for entry in claim_entries(pod) if is_from_template(entry) and names.get(str(entry.get("name")))]
        return [entry for entry in named if not await self._has(pod, str(names[str(entry["name"])]))]

    async def _has(self, pod: views.Pod, claim: str) -> bool:
        """Return True if the claim exists and was generated for the pod."""
        known = self.claims.get(f"{namespace_of(pod)}/{claim}")
        if known is not None:
            return is_owned_by(known, pod)
        read = await find(self._client, RESOURCECLAIMS, claim, namespace_of(pod))
        return read is not None and is_owned_by(cast("views.ResourceClaim", read), pod)

    async def _make(self, pod: views.Pod, entry: str, template_name: str) -> str:
        """Return the name of the entry's claim, created if necessary; empty while its template is missing."""
        owned = (self.claims[key] for key in self._owned.get(uid_of(pod), ()) if key in self.claims)
        known = found(pod, entry, owned) or self._made.get((uid_of(pod), entry), "")
        if known and await self._has(pod, known):
            return known
        key = f"{namespace_of(pod)}/{template_name}"
        template = self.templates.get(key)
        if template is None:
            self._waiting[key].add(key_of(pod))
            self._failed(pod, entry, MISSING_TEMPLATE.format(template_name))
            return ""
        try:
            with span(uid_of(pod), "create claim", entry=entry, template=template_name):
                claim = await self._client.create(RESOURCECLAIMS, claim_for(pod, entry, template), namespace_of(pod))
        except ApiError as error:
            self._metrics.created("failure")
            self._failed(pod, entry, str(error))
            raise
        self._metrics.created("success")
        self._made[uid_of(pod), entry] = name_of(claim)
        return name_of(claim)

    def _failed(self, pod: views.Pod, entry: str, why: str) -> None:
        self._recorder.event(pod, "Warning", FAILED, f"PodResourceClaim {entry}: {why}")

    async def _reserve_for_bound(self, pod: views.Pod) -> None:
        """Reserve allocated claims for a pod that was bound without the scheduler."""
        if not (pod.get("spec") or {}).get("nodeName"):
            return
        for entry, name in claim_names(pod).items():
            if not name:
                continue
            claim = self.claims.get(key := join_key(namespace_of(pod), name))
            if claim is None or allocation_of(claim) is None:
                self._unreserved[key].add(key_of(pod))
                continue
            if terminating(claim):
                continue
            if is_reserved_for(claim, uid_of(pod)) or not self._usable(claim, pod, entry):
                continue
            if is_fully_reserved(claim):
                self._work.put_later((POD, key_of(pod)), FULL_S)
                continue
            await self._update(reserving(claim, pod), "status")

    def _usable(self, claim: views.ResourceClaim, pod: views.Pod, entry: str) -> bool:
        """Return False for a generated claim of another pod."""
        generated = any(
            claim_entry.get("name") == entry and claim_entry.get("resourceClaimTemplateName")
            for claim_entry in claim_entries(pod)
        )
        return is_owned_by(claim, pod) if generated else True

    async def _process(self, claim: views.ResourceClaim) -> None:
        """Release, deallocate and delete in one go: the events of its own writes lead to nothing more."""
        gone = await self._gone(claim)
        if gone:
            claim = await self._released(releasing(claim, gone), "status")
        if not consumers(claim):
            await self._unused(claim, gone)

    async def _gone(self, claim: views.ResourceClaim) -> frozenset[str]:
        """Return the uids of finished pods that the claim is reserved for. Other kinds of consumers are left alone."""
        namespace, _ = split_key(key_of(claim))
        pods = [consumer for consumer in consumers(claim) if is_pod(consumer)]
        gone = frozenset([str(pod.get("uid")) for pod in pods if await self._pods_seen.done(namespace, pod)])
        if any(str(pod.get("uid")) not in gone and not self._pods_seen.has(namespace, pod) for pod in pods):
            self._work.put_later((CLAIM, key_of(claim)), UNSEEN_S)
        return gone

    async def _unused(self, claim: views.ResourceClaim, gone: frozenset[str]) -> None:
        """Deallocate or delete a claim without consumers; `gone`: uids of those that it had until now.

        An allocation that was never reserved stays: it may have been made in advance. So does a finalizer if no
        consumer was removed, because the scheduler writes it just before the allocation.
        """
        if terminating(claim) and allocation_of(claim) is not None and has_finalizer(claim):
            claim = await self._released(deallocated(claim), "status")
        if allocation_of(claim) is None and has_finalizer(claim) and (gone or terminating(claim)):
            claim = await self._released(without_finalizer(claim))
        owner = owner_pod(claim)
        if owner is not None and not terminating(claim):
            name, uid = owner
            if uid in gone or await self._pods_seen.done(namespace_of(claim), {"name": name, "uid": uid}):
                await self._delete(claim)

    async def _delete(self, claim: views.ResourceClaim) -> None:
        with suppress_status(404):
            await self._client.delete(RESOURCECLAIMS, name_of(claim), namespace_of(claim), uid=uid_of(claim))

    async def _released(self, claim: views.ResourceClaim, subresource: str = "") -> views.ResourceClaim:
        written = await self._update(claim, subresource)
        self._acted[uid_of(written), version_of(written)] = True
        return written

    async def _update(self, claim: views.ResourceClaim, subresource: str = "") -> views.ResourceClaim:
        return await self._client.update(RESOURCECLAIMS, claim, namespace_of(claim), subresource)


class PodLookup:
    """Find out which pods have finished: from the informer, or else the API server.

    A deletion is not remembered: the pod is back, with its uid, where the store was restored from a backup.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.known: Mapping[str, views.Pod] = {}
        """The informer's store, set when it exists."""

    async def done(self, namespace: str, consumer: views.ResourceClaimConsumerReference) -> bool:
        """Return True if the pod with this uid is deleted or finished.

        Raises:
            ApiError, ApiAway: The API server could not be asked.
        """
        name = str(consumer.get("name") or "")
        cached = self.has(namespace, consumer)
        pod = self.known[f"{namespace}/{name}"] if cached else await self._live(namespace, name)
        return pod is None or uid_of(pod) != str(consumer.get("uid") or "") or has_released_claims(pod)

    def has(self, namespace: str, consumer: views.ResourceClaimConsumerReference) -> bool:
        """Return True if the informer has the pod with this uid."""
        pod = self.known.get(f"{namespace}/{consumer.get('name') or ''}")
        return pod is not None and uid_of(pod) == str(consumer.get("uid") or "")

    async def _live(self, namespace: str, name: str) -> views.Pod | None:
        """Read the pod from the API server: it may be newer than the informer's store."""
        return cast("views.Pod | None", await find(self._client, PODS, name, namespace))
