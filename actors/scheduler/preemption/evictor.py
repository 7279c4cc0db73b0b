"""Evict victims: the condition that says why, a graceful deletion, an event."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from actors.scheduler.model.nominations import Candidate, Nomination, Victim
from protocols.kinds import views
from protocols.kinds.table import PODDISRUPTIONBUDGETS, PODS
from protocols.kube.errors import suppress_status
from protocols.kube.meta import Object
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient, ApiError
from protocols.kubeclient.events import EventRecorder
from protocols.trace import span

AT_ONCE = 8
"""Evictions under way for one preemptor."""


GiveWay = Callable[[str], Awaitable[bool]]
"""Ends the wait of a pod that is not bound yet, by its uid; returns False if there is none."""


class Evictor:
    """Methods raise ApiError and ApiAway."""

    def __init__(
        self, client: ApiClient, recorder: EventRecorder, log: logging.Logger, name: str, give_way: GiveWay
    ) -> None:
        self._client, self._recorder, self._log, self._name = client, recorder, log, name
        self._give_way = give_way

    async def budgets(self) -> list[views.PodDisruptionBudget]:
        """Return all PodDisruptionBudgets. They are read when they are needed, so that nobody else pays for them."""
        return list((await self._client.list(PODDISRUPTIONBUDGETS)).get("items") or ())

    async def evict(self, candidate: Candidate, preemptor: Nomination) -> None:
        """Delete the victims that are not terminating yet; after an error the others go on."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(victim: Victim) -> None:
            async with slots:
                await self._evict(victim, candidate.node, preemptor)

        tasks = (one(victim) for victim in candidate.victims if not victim.terminating)
        errors = [error for error in await asyncio.gather(*tasks, return_exceptions=True) if error is not None]
        if errors:
            raise errors[0]

    async def _evict(self, victim: Victim, node: str, preemptor: Nomination) -> None:
        try:
            if not await self._give_way(victim.uid):  # it does not run yet: as upstream, it is queued again
                with span(victim.uid, "preempted", by=_by(preemptor), node=node, priority=victim.priority):
                    await self._write_condition(victim)
                    await self._client.delete(PODS, victim.name, victim.namespace, uid=victim.uid)
        except ApiError as error:
            if error.code != 404:  # 409: too many writes at once, or another pod has its name; a new plan sees which
                raise
            return
        self._log.info(
            "pod preempted pod=%s/%s priority=%d by=%s node=%s",
            victim.namespace, victim.name, victim.priority, _by(preemptor), node,
        )  # fmt: skip
        metadata = {"namespace": victim.namespace, "name": victim.name, "uid": victim.uid}
        text = f"Preempted by pod {preemptor.uid} on node {node}"
        self._recorder.event({**PODS.type_meta, "metadata": metadata}, "Normal", "Preempted", text)

    async def _write_condition(self, victim: Victim) -> None:
        entry: Object = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": now(),
        }
        if victim.generation:
            entry["observedGeneration"] = victim.generation
        body = {"metadata": {"uid": victim.uid}, "status": {"conditions": [entry]}}
        await self._client.patch(PODS, victim.name, victim.namespace, body, kind="strategic", subresource="status")

    async def clear_nomination(self, pod: Nomination) -> None:
        """Clear status.nominatedNodeName of a pod that is no longer going to that node."""
        body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": None}}
        with suppress_status(404, 409):
            await self._client.patch(PODS, pod.name, pod.namespace, body, kind="strategic", subresource="status")


def _by(preemptor: Nomination) -> str:
    return f"{preemptor.namespace}/{preemptor.name} (priority {preemptor.priority})"
