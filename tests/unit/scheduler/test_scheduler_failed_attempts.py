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
from actors.scheduler.model.nominations import Candidate, Nominations
from actors.scheduler.model.queue import Queue
from actors.scheduler.model.views import pod_view
from actors.scheduler.nodes.node_cache import Cache
from actors.scheduler.preemption.planner import FailedAttempt, PreemptionPlan
from protocols.kinds import views


class Api:
    """The API and the preemptor: they take everything."""

    nominations = Nominations()

    async def report_unschedulable(self, *_: Any, **__: Any) -> None: ...

    def nominate(self, *_: Any) -> None: ...

    async def carry_out(self, *_: Any) -> list[str]:
        return []


@pytest.mark.parametrize("plan", [PreemptionPlan(decided=False), PreemptionPlan(Candidate("n1", ()))])
async def test_attempt_that_is_repeated_without_a_change_backs_off_once(plan: PreemptionPlan) -> None:
    pod = cast("views.Pod", {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {}})
    queue, api = Queue(), cast("Any", Api())
    metrics, nothing = SchedulerMetrics(CollectorRegistry()), cast("Any", SimpleNamespace())
    shared = Shared(Cache(), queue, api, nothing, nothing, metrics, logging.getLogger(), lambda: None)
    failed = FailedAttempt(pod, pod_view(pod), Demand(), frozenset(), {}, "", "", "", 0.0)
    queue.add("u")
    queue.start("u")
    await FailedAttempts(shared, api)._planned(failed, plan)
    assert queue._pods["u"].attempts == 1
    assert queue.next_at() == queue._pods["u"].not_before
