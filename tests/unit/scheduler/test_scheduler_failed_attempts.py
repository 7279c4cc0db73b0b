"""Follow-up of attempts that found no node: each counts once, whatever it leads to."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from actors.scheduler.cycles.failed_attempts import FailedAttempts
from actors.scheduler.cycles.metrics import SchedulerMetrics
from actors.scheduler.cycles.shared import Shared
from actors.scheduler.model.claim_demand import Demand
from actors.scheduler.model.nominations import Candidate, Nomination, Nominations
from actors.scheduler.model.queue import Queue
from actors.scheduler.model.views import pod_view
from actors.scheduler.nodes.node_cache import Cache
from actors.scheduler.preemption.planner import FailedAttempt, PreemptionPlan
from actors.scheduler.preemption.preemptor import Preemptor
from protocols.kinds import views
from protocols.kubeclient.client import ApiError


class Api:
    """The API and the preemptor: they take everything."""

    nominations = Nominations()

    async def report_unschedulable(self, *_: Any, **__: Any) -> None: ...

    def nominate(self, *_: Any) -> None: ...

    async def carry_out(self, *_: Any) -> None: ...


POD = cast("views.Pod", {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {}})
FAILED = FailedAttempt(POD, pod_view(POD), Demand(), frozenset(), {}, "", "", "", 0.0)


def shared_by(queue: Queue, binder: Any) -> Shared:
    metrics, nothing = SchedulerMetrics(CollectorRegistry()), cast("Any", SimpleNamespace())
    return Shared(Cache(), queue, binder, nothing, nothing, metrics, logging.getLogger(), lambda: None)


@pytest.mark.parametrize("plan", [PreemptionPlan(decided=False), PreemptionPlan(Candidate("n1", ()))])
async def test_attempt_that_is_repeated_without_a_change_backs_off_once(plan: PreemptionPlan) -> None:
    queue, api = Queue(), cast("Any", Api())
    queue.add("u")
    queue.start("u")
    await FailedAttempts(shared_by(queue, api), api)._planned(FAILED, plan)
    assert queue._pods["u"].attempts == 1
    assert queue.next_at() == queue._pods["u"].not_before


async def test_pod_that_lost_its_nomination_is_tried_again_although_the_eviction_failed() -> None:
    class Refusing:
        async def clear_nomination(self, nomination: Nomination) -> None: ...

        async def evict(self, *_: Any) -> None:
            raise ApiError(500, {"message": "no"})

    world = cast("Any", SimpleNamespace(nominations=Nominations()))
    preemptor, queue = Preemptor(world, cast("Any", Refusing())), Queue()
    preemptor.nominations.add(Nomination("low", "ns", "low", -1, "n1", {}))
    for uid in ("low", "u"):
        queue.add(uid)
        queue.start(uid)
    queue.failed("low", 0.0)
    await FailedAttempts(shared_by(queue, Api()), preemptor)._planned(FAILED, PreemptionPlan(Candidate("n1", ())))
    assert preemptor.nominations.get("low") is None
    assert set(queue.ready(1e12)) == {"low", "u"}
