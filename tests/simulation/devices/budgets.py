"""Preemption beside a disruption budget: pods that it guards are the last choice, and keep nobody waiting."""

import random
from collections.abc import Iterator

from protocols.kinds.table import PODDISRUPTIONBUDGETS, PODS
from protocols.kube.meta import Object, labels_of, name_of, terminating
from protocols.kube.pods import node_of
from protocols.kubeclient.client import ApiClient
from tests.simulation.devices.ledger import Ledger, runs
from tests.simulation.devices.preemption import Nominated, Preemption, is_preempted, kind_of, priority_of
from tests.simulation.model import Broken
from tests.simulation.workloads.flow import Written, created

GUARDED = {"guarded": "yes"}
SHARE = 0.5
"""Of the pods that the budget guards."""
OFTEN = "low", "low", "middle", "high"
RECENT_S = 5.0
"""Whoever was there for as long was there for the scheduler."""
HEALTHY = 99
"""What the budget asks for: no disruption is ever allowed."""


class Budgets(Preemption):
    name = "budgets"
    most = 6

    def __init__(self) -> None:
        super().__init__()
        self._bound: dict[str, float] = {}
        """When pods were bound, by name."""

    async def _prepare(self, client: ApiClient) -> None:
        await super()._prepare(client)
        spec = {"minAvailable": HEALTHY, "selector": {"matchLabels": GUARDED}}
        await created(client, PODDISRUPTIONBUDGETS, {"spec": spec}, "all", self.name)

    def _leaving(self, chance: random.Random, pods: list[Object]) -> Object:
        """Whoever could preempt goes, so that others come in and are preempted."""
        return max(pods, key=priority_of)

    async def _make(self, client: ApiClient, chance: random.Random) -> None:
        labels = GUARDED if chance.random() < SHARE else {"guarded": "no"}
        metadata = {"name": f"pod-{self._made}", "labels": labels}
        spec = self._spec("cpu", chance.choice(OFTEN))
        await client.create(PODS, {**PODS.type_meta, "metadata": metadata, "spec": spec}, self.name)

    def _judge(self, each: Written, ledger: Ledger, nominated: Nominated) -> Iterator[Broken]:
        """A guarded pod goes only if no other of its node can go for the one pod that is nominated there."""
        if runs(each.obj):
            self._bound.setdefault(each.name, each.at)
        ahead = nominated.ahead(each, RECENT_S)
        if not is_preempted(each) or labels_of(each.last) != GUARDED or len(ahead) != 1:
            return
        others = [pod for pod in ledger.pods.values() if self._could_go(pod, each, ahead[0].priority)]
        if others:
            text = f"{each.name} at {each.revision} in place of {[name_of(pod) for pod in others]}"
            yield Broken("guarded pods are the last victims", text)

    def _could_go(self, pod: Object, victim: Written, below: int) -> bool:
        if (node_of(pod), kind_of(pod)) != (node_of(victim.last), kind_of(victim.last)) or not runs(pod):
            return False
        is_old = self._bound.get(name_of(pod), victim.at) < victim.at - RECENT_S
        return is_old and labels_of(pod) != GUARDED and not terminating(pod) and priority_of(pod) < below
