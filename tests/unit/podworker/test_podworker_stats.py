"""Rates from counters, the second look where there is none yet, and kubelet's form of it."""

import asyncio

import pytest

from actors.podworker.endpoint import stats as sampling
from actors.podworker.endpoint.stats import Sample, UsageSampler, summary
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from protocols.wire import cri_pb2 as pb

S = 1_000_000_000


def stats(
    at: int, cpu: int, id: str = "c1", name: str = "a", uid: str = "u1", memory: int = 5 << 20
) -> pb.ContainerStats:
    labels = {
        "io.kubernetes.pod.name": "p",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": uid,
        "io.kubernetes.container.name": name,
    }
    return pb.ContainerStats(
        attributes=pb.ContainerAttributes(id=id, labels=labels if uid else {}),
        cpu=pb.CpuUsage(timestamp=at, usage_core_nano_seconds=pb.UInt64Value(value=cpu)),
        memory=pb.MemoryUsage(
            timestamp=at,
            working_set_bytes=pb.UInt64Value(value=memory),
            usage_bytes=pb.UInt64Value(value=memory + (2 << 20)),
        ),
    )


class Runtime:
    def __init__(self, *looks: list[pb.ContainerStats]) -> None:
        self.looks = list(looks)
        self.asked = 0

    async def __call__(self) -> pb.ListContainerStatsResponse:
        self.asked += 1
        return pb.ListContainerStatsResponse(stats=self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sampler wait for its second look a moment only; how old a look is, the tests' clock says."""
    monkeypatch.setattr(sampling, "FRESH_S", 0.01)


async def test_rates_windows_and_how_often_the_runtime_is_asked() -> None:
    now = [100.0]
    runtime = Runtime(
        [stats(S, 0)],
        [stats(3 * S, S), stats(3 * S, 7 * S, id="new", name="b"), stats(3 * S, 0, id="x", uid="")],
        [stats(5 * S, 4 * S), stats(5 * S, 7 * S, id="new", name="b")],
    )
    sampler = UsageSampler(runtime, lambda: now[0])

    async def look() -> tuple[Sample, Sample, Sample]:
        task = asyncio.create_task(sampler.sample())
        await asyncio.sleep(0)
        now[0] += 2
        first = await task
        again = await sampler.sample()
        now[0] += 2
        return first, again, await sampler.sample()

    first, again, later = await look()
    assert first is again, "within a second nobody is asked again"
    assert runtime.asked == 3
    assert [(c.name, c.usage.nanocores) for c in first.containers] == [("a", S // 2), ("b", 0)]
    assert [(c.name, c.usage.nanocores) for c in later.containers] == [("a", 3 * S // 2), ("b", 0)]
    assert later.window == 2.0
    assert first.node.working > 0


async def test_counters_that_go_back_are_no_usage() -> None:
    now = [0.0]
    sampler = UsageSampler(Runtime([stats(S, 9 * S)], [stats(2 * S, S)]), lambda: now[0])

    async def look() -> Sample:
        task = asyncio.create_task(sampler.sample())
        await asyncio.sleep(0)
        now[0] += 1
        return await task

    (container,) = (await look()).containers
    assert container.usage.nanocores == 0
    status = PodStatus(
        "u1",
        containers=(ContainerStatus("c1", "s1", "a", 0, "running", 5 * S),),
        sandboxes=(SandboxStatus("s1", True, 0, 3 * S),),
    )
    told = summary("n1", (await look()), lambda uid: status if uid == "u1" else None)
    (pod,) = told["pods"]
    assert pod["podRef"] == {"name": "p", "namespace": "ns", "uid": "u1"}
    memory = pod["containers"][0]["memory"]
    assert (memory["workingSetBytes"], memory["usageBytes"]) == (5 << 20, 7 << 20)
    starts = [each["startTime"] for each in (pod, pod["containers"][0])]
    assert starts == ["1970-01-01T00:00:03Z", "1970-01-01T00:00:05Z"]
    assert told["node"]["nodeName"] == "n1"
