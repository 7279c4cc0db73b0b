"""A whole plane on a runtime that lies, hangs, loses answers or floods: each is told in words where a person looks, no
actor dies or spins, no container is ever there twice, and the pod comes to run once the runtime behaves again."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from protocols.wire import cri_pb2 as pb
from tests.bench.plane_bench import cpu_seconds
from tests.support.lying_runtime import LyingRuntime
from tests.support.plane import Plane, condition, until
from tests.support.runtime import RuntimeProcess

WATCHED = ("cri", "pleg", "podworker")
MOST_CPU = 0.6
"""Of a core, all three, while a lie holds: a loop without a pause would take more than one."""
MOST_STOPS = 30

SAYS: dict[str, str] = {
    "wrong-ids": "the runtime answered with",
    "unknown-enums": "ContainerStatusUnknown",
    "stamp-without-statuses": "hint: the runtime does not stamp",
    "huge-list": "larger than max",
    "create-lost": "",
    "start-lost": "",
    "hangs": "no runtime: ",
}
"""Lie -> what is said; empty: the pod runs in spite of it, there is nothing to say. test_cri.py has the others."""
KILLS = ("unknown-enums",)
"""A container in an unknown state is ended, as by kubelet; this pod's is not started again."""


class Twice:
    """Looks all the time whether a container is there twice (I5); one attempt is one container."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.looks = 0

    async def watch(self, runtime: RuntimeProcess) -> None:
        while True:
            running: set[tuple[str, str]] = set()
            for item in (await runtime.call("ListContainers")).containers:
                key = (item.labels["io.kubernetes.pod.uid"], item.metadata.name)
                if item.state == pb.CONTAINER_RUNNING:
                    self.found += [f"{key} runs twice"] if key in running else []
                    running.add(key)
            self.looks += 1
            await asyncio.sleep(0.05)


class Stage:
    def __init__(self, plane: Plane, liar: LyingRuntime, twice: Twice) -> None:
        self.plane = plane
        self.liar = liar
        self.twice = twice

    def said(self, pod: str) -> str:
        """Everything a person may read of it: status notes, the node's conditions, the pod's status and events."""
        notes = [actor["beat"]["note"] for actor in self.plane.status().values() if actor.get("beat")]
        conditions = [each for node in self.plane.list("node") for each in node["status"]["conditions"]]
        messages = [each.get("message", "") for each in (*conditions, *self.plane.events())]
        return "\n".join([*notes, *messages, str(self.plane.get("pod", pod).get("status"))])

    def lives(self) -> dict[str, int]:
        return {name: actor["restarts"] for name, actor in self.plane.status().items()}


@contextmanager
def staged() -> Iterator[Stage]:
    """The runtime and its front live in a loop of their own beside the blocking tests."""
    loop, ready, over, twice = asyncio.new_event_loop(), threading.Event(), asyncio.Event(), Twice()
    held: list[LyingRuntime] = []

    async def whole() -> None:
        async with RuntimeProcess() as runtime, LyingRuntime(runtime) as liar:
            held.append(liar)
            watching = asyncio.ensure_future(twice.watch(runtime))
            ready.set()
            await over.wait()
            watching.cancel()

    thread = threading.Thread(target=loop.run_until_complete, args=(whole(),))
    thread.start()
    try:
        assert ready.wait(90)
        with Plane("--runtime", f"unix://{held[0].socket}") as plane:
            yield Stage(plane, held[0], twice)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(90)
        loop.close()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A plane on a lying runtime, once its events are used."""
    with staged() as stage:
        until("evented", lambda: "evented" in stage.plane.status()["pleg"]["beat"]["note"])
        yield stage


def pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("lie", SAYS)
def test_a_lie(stage: Stage, lie: str) -> None:
    name, plane = f"pod-{lie}", stage.plane
    before, pids = stage.lives(), [plane.status()[actor]["pid"] for actor in WATCHED]
    used, began = cpu_seconds(pids), time.monotonic()
    stage.liar.lie(lie)
    try:
        plane.apply(pod(name))
        if SAYS[lie]:
            until(f"says {SAYS[lie]!r}", lambda: SAYS[lie] in stage.said(name), every=0.3)
        else:
            plane.pod_phase(name, "Running")
        share = (cpu_seconds(pids) - used) / (time.monotonic() - began)
    finally:
        stage.liar.lie("")
    assert share < MOST_CPU, f"{lie}: {share:.2f} of a core"
    calls = stage.liar.calls()["StopContainer"]
    running = plane.pod_phase(name, "Failed" if lie in KILLS else "Running")
    assert calls < MOST_STOPS, "stopped in a loop"
    assert running["status"]["containerStatuses"][0]["restartCount"] == 0
    assert stage.lives() == before, "an actor died of it"
    assert not stage.twice.found
    plane.delete("pod", name, wait=False)


@pytest.mark.scenario("S7")
def test_a_static_pod_is_created_once_despite_mirror_changes(stage: Stage) -> None:
    """121349: the mirror's coming brought a second sync while the container was only created, and a second container.
    Here its start is slow, and meanwhile the mirror is changed and deleted all the time."""
    plane, before = stage.plane, stage.liar.calls()
    stage.liar.lie("slow-start")
    try:
        manifest = pod("static") | {"apiVersion": "v1", "kind": "Pod"}
        (plane.root / "kubelet" / "manifests" / "static.json").write_text(json.dumps(manifest))
        name = until("a mirror", lambda: _mirror(plane))
        for number in range(4):
            plane.kubectl("annotate", "pod", name, f"x={number}", "--overwrite", check=False)
            plane.kubectl("delete", "pod", name, "--wait=false", check=False)
        until("ready", lambda: condition(plane.get("pod", _mirror(plane) or name), "Ready") == "True")
    finally:
        stage.liar.lie("")
    after = stage.liar.calls()
    assert after["CreateContainer"] - before["CreateContainer"] == 1
    assert after["RunPodSandbox"] - before["RunPodSandbox"] == 1
    assert not stage.twice.found


def _mirror(plane: Plane) -> str:
    names = (str(pod["metadata"]["name"]) for pod in plane.list("pod"))
    return next((name for name in names if name.startswith("static-")), "")
