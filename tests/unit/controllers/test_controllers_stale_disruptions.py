"""DisruptionTarget of pods that nobody deletes: when it is stale, and its reset."""

import asyncio
import logging
from typing import Any

from actors.controllers.common.informers import ChangeHandler
from actors.controllers.lifecycle.pod_gc import trim_pod
from actors.controllers.lifecycle.stale_disruptions import TIMEOUT_S, StaleDisruptionController, stale_in
from protocols.kinds.table import PODS
from protocols.kube.meta import Object
from protocols.kube.times import format_time
from tests.support.memory_api import Follower, MemoryApi
from tests.support.waiting import until_async

NOW = 1_800_000_000.0


def pod(since: str, **more: Any) -> Object:
    """A pod whose eviction was approved."""
    target = {"type": "DisruptionTarget", "status": "True", "reason": "r", "lastTransitionTime": since}
    conditions = [{"type": "Ready", "status": "True"}, target]
    metadata = {"name": "a", "namespace": "ns", "uid": "u-a", **more}
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Running", "conditions": conditions}}


def test_disruption_target_of_a_pod_that_nobody_deletes_becomes_stale() -> None:
    marked = trim_pod(pod(format_time(NOW)))
    assert stale_in(marked, NOW + 20) == TIMEOUT_S - 20
    assert stale_in(marked, NOW + 500) == 0
    assert stale_in(trim_pod(pod(format_time(NOW), deletionTimestamp=format_time(NOW))), NOW) is None
    (target,) = marked["status"]["conditions"]
    target["reason"] = "TerminationByKubelet"
    assert stale_in(marked, NOW) is None
    marked["status"]["conditions"] = []
    assert stale_in(marked, NOW) is None


async def test_stale_disruption_target_is_reset_without_any_budget() -> None:
    api = MemoryApi()
    client: Any = api
    controller = StaleDisruptionController(client, logging.getLogger("t"))
    follower = Follower(api, PODS, ChangeHandler(controller.pod_changed, controller.pod_gone))
    controller.pods = follower.items

    def conditions() -> list[tuple[str, str]]:
        follower.read(100)
        held = api.objects["pods"]["ns/a"]["status"]["conditions"]
        return [(condition["type"], condition["status"]) for condition in held]

    api.put(PODS, pod("2026-01-01T00:00:00Z"))
    running = asyncio.create_task(controller.run())
    expected = [("Ready", "True"), ("DisruptionTarget", "False")]
    await until_async("the condition is reset", conditions, good=lambda held: held == expected)
    running.cancel()
