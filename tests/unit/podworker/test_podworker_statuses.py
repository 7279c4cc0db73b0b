import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.podworker.pods import status_manager as statuses
from actors.podworker.pods.status_manager import StatusManager
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiAway, ApiError
from protocols.lifecycle.pods.types import PodSpec, read_pod
from protocols.lifecycle.status.patch import sets_more, status_patch
from protocols.process.tasks import FAILURES
from tests.support.podworker_fakes import pod
from tests.support.waiting import until_async


class FakeApi:
    """Keeps one pod's status; merges conditions by type, other fields by name."""

    def __init__(self) -> None:
        self.status: Any = {"phase": "Pending"}
        self.version, self.gone = 1, False
        self.bodies: list[Object] = []
        self.asked: list[str] = []
        self.faults: list[Exception] = []
        self.spelling: Object = {}
        self.hold: asyncio.Event | None = None

    async def patch_status(self, spec: PodSpec, body: Object) -> views.Pod:
        self.asked.append(spec.uid)
        if self.hold:
            await self.hold.wait()
        if self.faults:
            raise self.faults.pop(0)
        self.bodies.append(body["status"])
        assert body["metadata"]["uid"] == spec.uid
        for key, value in body["status"].items():
            if key == "conditions":
                merged = {c["type"]: c for c in self.status.get("conditions", [])} | {c["type"]: c for c in value}
                self.status["conditions"] = list(merged.values())
            else:
                self.status[key] = value
        self.version += 1
        return {"metadata": {"resourceVersion": str(self.version)}, "status": self.status | self.spelling}

    async def is_gone(self, spec: PodSpec) -> bool:
        return self.gone


async def settle(manager: StatusManager) -> None:
    await until_async("nothing is left to send", lambda: manager.settled("uid-1"), every=0.002)


@asynccontextmanager
async def running_manager() -> AsyncIterator[tuple[FakeApi, StatusManager, list[str]]]:
    api, told = FakeApi(), list[str]()
    manager = StatusManager(api)
    manager.subscribe(told.append)
    try:
        yield api, manager, told
    finally:
        manager.close()


SPEC = read_pod(pod())


async def test_only_differences_are_sent_and_nothing_when_equal() -> None:
    async with running_manager() as (api, manager, told):
        manager.publish(SPEC, {"phase": "Running", "hostIP": "1"})
        await settle(manager)
        manager.publish(SPEC, {"phase": "Running", "hostIP": "1"})
        manager.publish(SPEC, {"phase": "Running", "hostIP": "2"})
        await settle(manager)
        assert api.bodies == [{"hostIP": "1", "phase": "Running"}, {"hostIP": "2"}]
        assert told == ["uid-1", "uid-1"]


async def test_latest_wins_while_one_is_under_way() -> None:
    async with running_manager() as (api, manager, _told):
        api.hold = asyncio.Event()
        manager.publish(SPEC, {"phase": "Running"})
        await asyncio.sleep(0)
        for n in range(5):
            manager.publish(SPEC, {"phase": "Running", "hostIP": str(n)})
        api.hold.set()
        await settle(manager)
        assert api.status == {"phase": "Running", "hostIP": "4"}
        assert len(api.bodies) == 2


async def test_status_overwritten_before_the_answer_to_ours_is_sent_again() -> None:
    async with running_manager() as (api, manager, _told):
        api.hold = asyncio.Event()
        manager.publish(SPEC, {"phase": "Running", "hostIP": "1"})
        await asyncio.sleep(0)
        raw = pod()
        foreign: views.PodStatus = {"phase": "Running", "hostIP": "other"}
        newer: views.Pod = {**raw, "metadata": {**raw["metadata"], "resourceVersion": "3"}, "status": foreign}
        manager.publish(read_pod(newer), {"phase": "Running", "hostIP": "1"})
        api.hold.set()
        await settle(manager)
        assert api.bodies == [{"hostIP": "1", "phase": "Running"}, {"hostIP": "1"}]


async def test_end_of_a_container_is_sent_while_starts_take_all_their_slots() -> None:
    async with running_manager() as (api, manager, told):
        api.hold = asyncio.Event()
        for number in range(2 * statuses.PARALLEL):
            manager.publish(read_pod(pod(uid=f"starts-{number}")), {"phase": "Pending", "hostIP": "1"})
        await asyncio.sleep(0)
        ended: views.ContainerStatus = {"name": "a", "state": {"terminated": {"exitCode": 137}}}
        api.asked.clear()
        manager.publish(SPEC, {"phase": "Running", "containerStatuses": [ended]})
        await until_async("the end is sent", lambda: api.asked == ["uid-1"], every=0.002)
        api.hold.set()
        await until_async("all are sent", lambda: len(told) == 2 * statuses.PARALLEL + 1, every=0.002)


DELETED = read_pod({**pod(), "metadata": {**pod()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})


def running_status(generation: int) -> views.PodStatus:
    ready: views.PodCondition = {"type": "Ready", "status": "True", "observedGeneration": generation}
    return {"phase": "Running", "observedGeneration": generation, "conditions": [ready]}


async def test_observed_generation_of_a_deleted_pod_is_sent_with_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "OBSERVED_S", 600.0)
    async with running_manager() as (api, manager, _told):
        manager.publish(SPEC, running_status(1))
        await settle(manager)
        manager.publish(DELETED, running_status(2))
        await asyncio.sleep(0.01)
        assert len(api.bodies) == 1
        manager.publish(DELETED, {**running_status(2), "phase": "Succeeded"})
        await settle(manager)
        assert len(api.bodies) == 2
        assert api.status == {**running_status(2), "phase": "Succeeded"}


async def test_observed_generation_of_a_pod_that_goes_on_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "OBSERVED_S", 0.01)
    async with running_manager() as (api, manager, _told):
        for spec, generation in ((SPEC, 1), (SPEC, 2), (DELETED, 3)):
            manager.publish(spec, running_status(generation))
            await settle(manager)
            assert api.status == running_status(generation)


async def test_an_outage_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "REJECTED_FIRST_S", 0.001)

    async with running_manager() as (api, manager, _told):
        api.faults = [ApiAway("away"), ApiError(500, {}), ApiError(409, {})]
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        assert api.status["phase"] == "Running"


async def test_unknown_exception_delays_a_status_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Sending ended for good: nothing marked the pod as unsent, and no later status was sent either."""
    failures = FAILURES["pod status"]
    async with running_manager() as (api, manager, told):
        api.faults = [ZeroDivisionError("a bug"), ValueError("another one")]
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        assert api.status["phase"] == "Running"
        assert told == ["uid-1"]
        assert FAILURES["pod status"] == failures + 2
        assert "task pod status uid-1 failed: ZeroDivisionError: a bug" in caplog.text


async def test_unknown_exception_while_a_pod_is_looked_for_delays_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_manager() as (api, manager, _told):

        async def is_gone(spec: PodSpec) -> bool:
            api.faults.clear()
            raise KeyError("a bug")

        api.faults = [ApiError(422, {})]
        monkeypatch.setattr(api, "is_gone", is_gone)
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        assert api.status["phase"] == "Running"


HEALTH: views.ResourceStatus = {
    "name": "example.com/gpu",
    "resources": [{"resourceID": "gpu-1", "health": "Unhealthy"}],
}
SICK: views.PodStatus = {"phase": "Running", "containerStatuses": [{"name": "a", "allocatedResourcesStatus": [HEALTH]}]}


def refusal(code: int, field: str = "status.phase") -> ApiError:
    return ApiError(code, {"message": f"no: {field}", "details": {"causes": [{"field": field}]}})


@pytest.fixture
def immediate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry rejected statuses at once."""
    monkeypatch.setattr(statuses, "REJECTED_FIRST_S", 0.001)
    monkeypatch.setattr(statuses, "REJECTED_MOST_S", 0.002)


@pytest.mark.parametrize("code", [401, 408, 429, 500])
async def test_a_fault_that_is_not_the_statuss_is_waited_out(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(statuses, "RETRY_MOST_S", 0.002)
    monkeypatch.setattr(statuses, "REJECTED_FIRST_S", 0.001)
    monkeypatch.setattr(statuses, "REJECTED_MOST_S", 0.002)
    async with running_manager() as (api, manager, _told):
        api.faults = [refusal(code)] * (statuses.MAX_REJECTIONS + 3)
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        assert api.status["phase"] == "Running"


@pytest.mark.parametrize("code", [400, 403, 409, 413, 422])
async def test_a_refused_status_is_given_up_until_it_changes(code: int, immediate: None) -> None:
    async with running_manager() as (api, manager, _told):
        api.faults = [refusal(code)] * 1000
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        asked = 1000 - len(api.faults)
        assert asked == statuses.MAX_REJECTIONS
        for _ in range(5):
            manager.publish(SPEC, {"phase": "Running"})
            await settle(manager)
        assert 1000 - len(api.faults) == asked
        api.faults.clear()
        manager.publish(SPEC, {"phase": "Failed"})
        await settle(manager)
        assert api.status["phase"] == "Failed"


async def test_an_abandoned_status_is_retried_without_a_sync(
    immediate: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(statuses, "REJECTED_AGAIN_S", 0.01)

    async with running_manager() as (api, manager, told):
        api.faults = [refusal(403)] * (statuses.MAX_REJECTIONS + 3)
        manager.publish(SPEC, {"phase": "Running"})
        await until_async("Running", lambda: api.status, 15, 0.002, good=lambda status: status["phase"] == "Running")
        await settle(manager)
        assert len(told) == 5
        said = [
            record.levelname
            for record in caplog.records
            if "not sent" in record.message or "given up" in record.message
        ]
        assert said == ["WARNING", "ERROR"]


async def test_a_status_that_changed_or_whose_pod_is_forgotten_is_not_tried_once_more(
    immediate: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statuses, "REJECTED_AGAIN_S", 1.5)

    async with running_manager() as (api, manager, _told):
        api.faults = [refusal(403)] * statuses.MAX_REJECTIONS
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        manager.publish(SPEC, {"phase": "Failed"})
        await settle(manager)
        api.faults = [refusal(403)] * statuses.MAX_REJECTIONS
        manager.publish(SPEC, {"phase": "Unknown"})
        await settle(manager)
        manager.forget("uid-1")
        await asyncio.sleep(1.6)
        assert api.bodies == [{"phase": "Failed"}]


async def test_what_is_refused_of_devices_keeps_nothing_else_from_being_shown() -> None:
    field = "status.containerStatuses[0].allocatedResourcesStatus[0].name"

    async with running_manager() as (api, manager, _told):
        api.faults = [refusal(422, field)]
        manager.publish(SPEC, SICK)
        await settle(manager)
        assert api.status == {"phase": "Running", "containerStatuses": [{"name": "a"}]}
        manager.publish(SPEC, {**SICK, "hostIP": "1"})
        await settle(manager)
        assert api.bodies[-1] == {"hostIP": "1"}
        well: list[views.ContainerStatus] = [{"name": "a", "allocatedResourcesStatus": []}]
        manager.publish(SPEC, {"phase": "Running", "hostIP": "1", "containerStatuses": well})
        manager.publish(SPEC, {**SICK, "allocatedResourcesStatus": [HEALTH], "hostIP": "1"})
        await settle(manager)
        assert api.status["allocatedResourcesStatus"] == [HEALTH]


async def test_a_status_is_given_its_time_and_no_more() -> None:
    async with running_manager() as (api, manager, _told):
        await manager.wait_settled("uid-1", 1)
        api.hold = asyncio.Event()
        manager.publish(SPEC, SICK)
        await manager.wait_settled("uid-1", 0.01)
        assert not api.bodies
        asyncio.get_running_loop().call_later(0.01, api.hold.set)
        await manager.wait_settled("uid-1", 5)
        assert len(api.bodies) == 1


async def test_a_server_that_asks_for_a_pause_gets_it() -> None:
    async with running_manager() as (api, manager, _told):
        api.faults = [ApiError(429, {}, retry_after=0.3)]
        began = time.monotonic()
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        assert time.monotonic() - began >= 0.3
        assert api.status["phase"] == "Running"


async def test_a_pause_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "MAX_RETRY_AFTER_S", 0.01)

    async with running_manager() as (api, manager, _told):
        api.faults = [ApiError(429, {}, retry_after=float("9" * 400))]
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        assert api.status["phase"] == "Running"


async def test_the_time_from_report_to_status_is_observed_once() -> None:
    api, seconds = FakeApi(), list[float]()
    manager = StatusManager(api, on_reported=seconds.append)
    heard = time.time_ns() - 2_000_000_000
    api.faults = [ApiAway("away")]
    manager.publish(SPEC, SICK, heard)
    await settle(manager)
    manager.publish(SPEC, {**SICK, "hostIP": "1"}, heard)
    await settle(manager)
    assert len(seconds) == 1
    assert 2 <= seconds[0] < 30
    manager.close()


async def test_a_pod_that_is_gone_ends_it() -> None:
    async with running_manager() as (api, manager, _told):
        api.faults, api.gone = [ApiError(409, {})], True
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        manager.publish(SPEC, {"phase": "Failed"})
        assert manager.settled("uid-1")
        assert not api.bodies


async def test_a_server_that_spells_differently_is_not_patched_for_ever() -> None:
    async with running_manager() as (api, manager, _told):
        api.spelling = {"hostIP": "one"}
        manager.publish(SPEC, {"phase": "Running", "hostIP": "1"})
        await settle(manager)
        for _ in range(3):
            manager.publish(SPEC, {"phase": "Running", "hostIP": "1"})
            await settle(manager)
        assert len(api.bodies) == 1


async def test_somebody_elses_write_is_noticed() -> None:
    def seen(version: int, **status: Any) -> PodSpec:
        return read_pod(pod(metadata={"resourceVersion": str(version)}, status=status))

    async with running_manager() as (api, manager, _told):
        manager.publish(SPEC, {"phase": "Running"})
        assert not manager.overwritten(seen(99, phase="Unknown")), "ours is on its way"
        await settle(manager)
        assert not manager.overwritten(seen(1, phase="Unknown")), "older than ours"
        assert not manager.overwritten(seen(2, phase="Running")), "ours"
        assert not manager.overwritten(seen(3, phase="Running", qosClass="Burstable")), "nothing of ours"
        other = seen(4, phase="Unknown")
        assert manager.overwritten(other)
        manager.publish(other, {"phase": "Running"})
        await settle(manager)
        assert api.bodies == 2 * [{"phase": "Running"}]
        assert not manager.overwritten(read_pod(pod(uid="another")))
        api.gone, api.faults = True, [ApiError(404, {})]
        manager.publish(seen(5), {"phase": "Running"})
        await settle(manager)
        assert not manager.overwritten(seen(6, phase="Unknown"))


@pytest.mark.parametrize(
    ("shown", "version", "again"),
    [("Pending", 0, True), ("Pending", 1, True), ("Running", 1, False), ("Pending", 2, False)],
)
async def test_status_that_the_watch_does_not_show_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, shown: str, version: int, again: bool
) -> None:
    """A backup that was restored after a write lacks it. A later version is one that a sync compares."""
    monkeypatch.setattr(statuses, "UNSHOWN_S", 0.0)
    async with running_manager() as (api, manager, _told):
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        manager.publish(read_pod(pod(metadata={"resourceVersion": "2"}, status=api.status)), {"phase": "Running"})
        seen = pod(metadata={"resourceVersion": f"{1 + version}"}, status={"phase": shown})
        for _ in range(3):
            manager.repeat_lost(read_pod(seen))
            await settle(manager)
            seen = pod(metadata={"resourceVersion": f"{api.version}"}, status={"phase": "Running"})
        assert api.bodies == [{"phase": "Running"}] * (1 + again)


async def test_watch_has_time_to_show_a_status() -> None:
    async with running_manager() as (api, manager, _told):
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        manager.repeat_lost(read_pod(pod(metadata={"resourceVersion": "1"})))
        await settle(manager)
        assert len(api.bodies) == 1


async def test_status_is_sent_to_a_pod_that_is_back_with_a_restored_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "UNSHOWN_S", 0.0)
    async with running_manager() as (api, manager, _told):
        api.faults = [ApiError(404, {})]
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        assert not api.bodies
        manager.repeat_lost(read_pod(pod(metadata={"resourceVersion": "1"})))
        await settle(manager)
        assert api.bodies == [{"phase": "Running"}]


async def test_what_the_answer_lacks_of_earlier_patches_is_sent_again() -> None:
    """The patch went to a restored backup, which lacks the one before."""
    async with running_manager() as (api, manager, _told):
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        api.status = {"phase": "Pending"}
        manager.publish(SPEC, {"phase": "Running", "message": "later"})
        await settle(manager)
        assert api.bodies[1:] == [{"message": "later"}, {"phase": "Running"}]


@pytest.mark.parametrize(
    ("left", "sent", "more"),
    [
        ({"phase": "Running"}, {"message": "m"}, True),
        ({"phase": "Running"}, {"phase": "Running"}, False),
        ({"phase": None}, {"message": "m"}, False),
        ({"conditions": [{"type": "A"}]}, {"conditions": [{"type": "B"}]}, True),
        ({"conditions": [{"type": "A", "$patch": "delete"}]}, {"conditions": None}, False),
    ],
)
def test_a_patch_sets_more_than_another(left: Object, sent: Object, more: bool) -> None:
    assert sets_more({"status": left}, {"status": sent}) is more
    assert not sets_more(None, {"status": sent})


def test_what_others_write_is_never_patched() -> None:
    """Whatever an older look at the pod has shown, and whoever is faster."""
    others = {"qosClass": "BestEffort", "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c-1"}]}
    assert status_patch("u", {**others, "phase": "Running"}, {"phase": "Running"}) is None
    assert status_patch("u", {"phase": "Pending"}, {**others, "phase": "Running"}) == {
        "metadata": {"uid": "u"},
        "status": {"phase": "Running"},
    }


async def test_somebody_elses_write_is_put_right() -> None:
    async with running_manager() as (api, manager, _told):
        manager.publish(SPEC, {"phase": "Running"})
        await settle(manager)
        changed = pod(metadata={"resourceVersion": "99"}, status={"phase": "Unknown"})
        manager.publish(read_pod(changed), {"phase": "Running"})
        await settle(manager)
        assert api.bodies == [{"phase": "Running"}, {"phase": "Running"}]
