"""cri and pleg as real processes on some runtime, the bus between them, and what a follower hears there."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from actors.pleg.state_machine.cri_status import container_status, sandbox_status
from protocols.bus import Bus, BusOptions, Event, Replica, StreamSink
from protocols.messages import cri, pleg
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from protocols.process.settings import Settings, save_settings
from tests.support.actor_process import Process, start_actor
from tests.support.waiting import until_true

AGE = "kubelet_evented_pleg_connection_latency_seconds"


class Heard(StreamSink[pleg.PodLifecycleEvent]):
    """Sink of the lifecycle stream: all events, and how often something may have been lost."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.at: dict[tuple[str, str], int] = {}
        """(id, type) -> when it was first heard, ns."""
        self.gaps = 0

    def on_snapshot(self, items: list[tuple[str, pleg.PodLifecycleEvent]], mark: int) -> None:
        self.gaps += 1

    def on_event(self, event: Event[pleg.PodLifecycleEvent]) -> None:
        if event.value is not None:
            self.at.setdefault((event.value.id, event.value.type), time.time_ns())
            self.events.append((event.value.uid, event.value.type, event.value.id))


class PlegNode:
    """`async with PlegNode(settings) as node:` starts both and follows them; `mode` and gates go into the settings."""

    def __init__(self, settings: Settings, **changes: Any) -> None:
        self.settings = msgspec.structs.replace(settings, **changes)
        self.root = self.settings.layout.root
        self.bus = Bus(BusOptions(name="", run_dir=self.settings.layout.run))
        self.backwards: list[str] = []
        """Breaches of I1 and I5, seen on the status stream."""
        self.statuses = Replica[pleg.PodStatus](self._on_status)
        self.runtime = Replica[cri.RuntimeState]()
        self.states = Replica[pleg.PlegState]()
        self.heard = Heard()
        self.processes: dict[str, Process] = {}

    async def __aenter__(self) -> "PlegNode":
        save_settings(self.settings.layout.settings, self.settings)
        await self.bus.start()
        follow = self.bus.follow
        follow(owner=pleg.OWNER, stream=pleg.POD_STATUS, sink=self.statuses, type=pleg.PodStatus)
        follow(owner=pleg.OWNER, stream=pleg.PLEG_STATE, sink=self.states, type=pleg.PlegState)
        follow(owner=pleg.OWNER, stream=pleg.POD_LIFECYCLE, sink=self.heard, type=pleg.PodLifecycleEvent)
        follow(owner=cri.OWNER, stream=cri.RUNTIME_STATE, sink=self.runtime, type=cri.RuntimeState)
        for name in ("cri", "pleg"):
            self.start(name)
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        for name in list(self.processes):
            await self.end(name, signal.SIGTERM)
        await self.bus.close()
        if error is not None:
            print(self.errors(), file=sys.stderr)

    # processes

    def start(self, name: str) -> None:
        self.processes[name] = start_actor(name, self.settings.layout.settings, self.root / f"{name}.err")

    async def end(self, name: str, number: int) -> None:
        process = self.processes.pop(name)
        process.send_signal(number)
        await asyncio.to_thread(process.wait, 30)

    def errors(self) -> str:
        return "".join(
            (self.root / f"{name}.err").read_text() for name in ("cri", "pleg") if (self.root / f"{name}.err").exists()
        )

    def alive(self) -> bool:
        return all(process.poll() is None for process in self.processes.values())

    def cpu(self) -> float:
        """Seconds of CPU both have used."""
        total = 0
        for process in self.processes.values():
            with open(f"/proc/{process.pid}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    # what is known

    @property
    def runtime_state(self) -> cri.RuntimeState:
        return self.runtime.items.get("runtime", cri.RuntimeState())

    @property
    def state(self) -> pleg.PlegState:
        return self.states.items.get("pleg", pleg.PlegState())

    def _on_status(self, op: object, uid: str, new: pleg.PodStatus | None, old: pleg.PodStatus | None) -> None:
        order = {"created": 0, "unknown": 0, "running": 1, "exited": 2}
        before = {item.id: order[item.state] for item in (old.containers if old else ())}
        running: set[str] = set()
        for item in new.containers if new else ():
            if order[item.state] < before.get(item.id, 0):
                self.backwards.append(f"I1: {uid} {item.id} went back to {item.state}")
            if item.state == "running" and item.name in running:
                self.backwards.append(f"I5: {uid} runs {item.name} twice")
            running |= {item.name} if item.state == "running" else set()

    def container(self, uid: str, id_: str) -> pleg.ContainerStatus | None:
        status = self.statuses.items.get(uid)
        return next((item for item in (status.containers if status else ()) if item.id == id_), None)

    def is_in(self, uid: str, id_: str, state: str) -> bool:
        item = self.container(uid, id_)
        return item is not None and item.state == state

    def view(self) -> dict[str, Any]:
        """Statuses, comparable with `truth`."""
        return {
            uid: (
                sorted((item.id, item.ready) for item in status.sandboxes),
                sorted((item.id, item.state, item.exit_code, item.finished_ns) for item in status.containers),
            )
            for uid, status in self.statuses.items.items()
        }

    # questions

    async def newer(self, uid: str, min_ns: int | None = None, timeout: float = 60.0) -> pleg.PodStatus:
        question = pleg.GetNewerThan(uid=uid, min_ns=time.time_ns() if min_ns is None else min_ns)
        return await self.bus.call(pleg.OWNER, pleg.GET_NEWER_THAN, question, pleg.PodStatus, timeout=timeout)

    async def chaos(self, fault: str, count: int = 0, seconds: float = 0.0) -> None:
        await self.bus.call(cri.OWNER, cri.CHAOS, cri.ChaosRuntime(fault, count, seconds), cri.Empty, timeout=20)

    async def metric(self, actor: str, start: str) -> float:
        """Sum of all samples whose line begins so."""
        text = (await self.bus.call(actor, METRICS, Empty(), MetricsText, timeout=20)).text
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(start))

    async def aged(self) -> tuple[float, float]:
        """Events counted, and those of them older than a second."""
        count = await self.metric("pleg", f"{AGE}_count")
        return count, count - await self.metric("pleg", f'{AGE}_bucket{{le="1"}}')

    async def evented(self, timeout: float = 60.0) -> None:
        """Until pleg believes events' content, and this test has heard of it."""
        await until_true(self._is_evented, timeout, "evented mode")

    def _is_evented(self) -> bool:
        return self.state.mode == "evented" and self.state.healthy and self.runtime_state.streaming

    async def until(self, holds: Callable[[], Any], timeout: float = 60.0, what: str = "") -> None:
        await until_true(holds, timeout, f"{what}; pleg {self.state}, runtime {self.runtime_state}")


async def truth(runtime: Any) -> dict[str, Any]:
    """A fresh inspection of the whole runtime: what PlegNode.view() has to equal (I4)."""
    pods: dict[str, Any] = {}
    containers = (await runtime.call("ListContainers")).containers
    for item in (await runtime.call("ListPodSandbox")).items:
        answer = sandbox_status((await runtime.call("PodSandboxStatus", pod_sandbox_id=item.id)).status)
        found = [
            container_status(await runtime.status(c.id), item.id) for c in containers if c.pod_sandbox_id == item.id
        ]
        sandboxes, known = pods.setdefault(item.metadata.uid, ([], []))
        sandboxes.append((answer.id, answer.ready))
        known += [(c.id, c.state, c.exit_code, c.finished_ns) for c in found]
    return {uid: (sorted(sandboxes), sorted(known)) for uid, (sandboxes, known) in pods.items()}


async def agrees(node: PlegNode, runtime: Any, timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while (real := await truth(runtime)) != node.view():
        assert time.monotonic() < deadline, f"pleg knows {node.view()}, the runtime holds {real}"
        await asyncio.sleep(0.05)
    assert not node.backwards, node.backwards
