"""The reconciler with a stand-in for kubelet and a runtime on the bus: responses that are incomplete or wrong."""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from actors.adopt.errors import KubeletBusy, KubeletUnavailable
from actors.adopt.kubelet_client import KubeletClient
from actors.adopt.pod_identity import Sandbox
from actors.adopt.published_state import PublishedState, StateFile
from actors.adopt.reconciler import AdoptMetrics, ListSchedule, Reconciler, ReconcilerOptions
from protocols.bus import Bus, BusOptions, Call, Op, Replica, error_for
from protocols.messages import adopt, cri, devices
from protocols.messages.devices import Device, Machine, PodAllocation
from protocols.wire import cri_pb2 as pb
from tests.support.device_node import until
from tests.support.stand_in_kubelet import StandInKubelet


class Lab:
    """A reconciler, a follower of its streams, and the runtime's list."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.kubelet = StandInKubelet(self.root / "k" / "kubelet.sock")
        self.client = KubeletClient(self.kubelet.socket)
        self.registry = CollectorRegistry()
        self.bus = Bus(BusOptions(name=adopt.OWNER, run_dir=self.root))
        self.runtime = Bus(BusOptions(name=cri.OWNER, run_dir=self.root))
        self.follower = Bus(BusOptions(name="", run_dir=self.root))
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        """Uids and devices of pods, as they were published."""
        self.pods, self.devices, self.machine = Replica(self._on_pod), Replica[Device](), Replica[Machine]()
        self.sandboxes: list[Sandbox] = []
        self.broken = False
        self.states: list[tuple[bool, str]] = []
        schedule = ListSchedule(poll_s=0.2, eventless_s=0.2)
        self.state = PublishedState(self.bus, 1_800_000_000_000_000_000)
        self.reconciler = Reconciler(
            ReconcilerOptions(
                kubelet=self.client,
                bus=self.bus,
                state=self.state,
                schedule=schedule,
                metrics=AdoptMetrics(self.registry),
                log=logging.Logger("adopt", logging.CRITICAL),
                on_status=lambda current, message: self.states.append((current, message)),
                file=StateFile(self.root),
            )
        )

    def _on_pod(self, op: Op, uid: str, new: PodAllocation | None, old: PodAllocation | None) -> None:
        containers = new.containers if new is not None else ()
        self.seen.append((uid, tuple(device.id for container in containers for device in container.devices)))

    async def open(self) -> None:
        for bus in (self.bus, self.runtime, self.follower):
            await bus.start()
        self.runtime.serve(cri.CALL, cri.CriCall, self._call)
        await self.kubelet.start()
        follow = self.follower.follow
        follow(owner=adopt.OWNER, stream=devices.ALLOCATIONS, sink=self.pods, type=PodAllocation)
        follow(owner=adopt.OWNER, stream=devices.ALLOCATABLE, sink=self.devices, type=Device)
        follow(owner=adopt.OWNER, stream=devices.MACHINE, sink=self.machine, type=Machine)

    async def close(self) -> None:
        await self.client.close()
        await self.kubelet.stop()
        for bus in (self.follower, self.runtime, self.bus):
            await bus.close()
        shutil.rmtree(self.root)

    async def _call(self, request: cri.CriCall, call: Call) -> cri.CriReply:
        assert request.operation == "ListPodSandbox"
        if self.broken:
            raise error_for("INTERNAL", "the runtime is ill", {})
        items = [
            pb.PodSandbox(
                id=box.id,
                metadata=pb.PodSandboxMetadata(name=box.name, uid=box.uid, namespace=box.namespace),
                state=pb.SANDBOX_READY if box.ready else pb.SANDBOX_NOTREADY,
                created_at=box.created_ns,
            )
            for box in self.sandboxes
        ]
        return cri.CriReply(pb.ListPodSandboxResponse(items=items).SerializeToString())

    def figure(self, result: str) -> float:
        return self.registry.get_sample_value("nodeplane_adopt_lists_total", {"result": result}) or 0.0


@asynccontextmanager
async def adopting() -> AsyncIterator[Lab]:
    lab = Lab()
    await lab.open()
    running = asyncio.ensure_future(lab.reconciler.run())
    try:
        async with asyncio.timeout(100):
            yield lab
    finally:
        running.cancel()
        await lab.close()


def box(uid: str, name: str, ready: bool = True, created: int = 1) -> Sandbox:
    return Sandbox(f"s-{uid}", uid, "default", name, created, ready)


async def test_reconciler_recreated_pod_is_not_published_under_dead_uid() -> None:
    """No gap between the two is seen: kubelet's list has the same name and the same device."""
    async with adopting() as lab:
        lab.sandboxes = [box("u1", "web-0")]
        lab.kubelet.admit("u1", "web-0", ("g0",))
        await until("the first pod", lambda: "u1" in lab.pods.items)
        lab.kubelet.release("u1")
        lab.kubelet.admit("u2", "web-0", ("g0",))
        lab.sandboxes = [box("u1", "web-0", ready=False)]
        lists = lab.figure("well")
        await until("a list between them", lambda: lab.figure("well") >= lists + 2)
        lab.sandboxes = [box("u1", "web-0", ready=False), box("u2", "web-0", created=2)]
        await until("the second pod", lambda: set(lab.pods.items) == {"u2"})


async def test_reconciler_pods_of_one_name_keep_their_devices_after_forced_recreation() -> None:
    """Kubelet lists the old pod until it has ended, and beside it the new one, which has no sandbox yet."""
    async with adopting() as lab:
        lab.sandboxes = [box("u1", "web-0")]
        lab.kubelet.admit("u1", "web-0", ("g0",))
        await until("the old pod", lambda: "u1" in lab.pods.items)
        lab.kubelet.admit("u2", "web-0", ("g1",))
        lists = lab.figure("well")
        await until("lists of both", lambda: lab.figure("well") >= lists + 3)
        lab.sandboxes = [box("u1", "web-0"), box("u2", "web-0", created=2)]
        await until("the new pod", lambda: set(lab.pods.items) == {"u1", "u2"})
        lab.kubelet.release("u1")
        lab.sandboxes = [box("u1", "web-0", ready=False), box("u2", "web-0", created=2)]
        await until("the old one gone", lambda: set(lab.pods.items) == {"u2"})
        assert lab.seen == [("u1", ("g0",)), ("u2", ("g1",)), ("u1", ())]


async def test_reconciler_started_beside_lingering_sandbox_waits_for_ready_one() -> None:
    async with adopting() as lab:
        lab.sandboxes = [box("u1", "web-0", ready=False)]
        lab.kubelet.admit("u2", "web-0", ("g0",))
        lists = lab.figure("well")
        await until("lists", lambda: lab.figure("well") >= lists + 3)
        assert "u1" not in lab.pods.items
        lab.sandboxes = [box("u1", "web-0", ready=False), box("u2", "web-0", created=2)]
        await until("the pod", lambda: set(lab.pods.items) <= {"u2", "default/web-0"} and lab.pods.items)
        assert "u1" not in lab.pods.items


async def test_an_answer_that_gives_a_device_to_two_pods_is_not_published() -> None:
    async with adopting() as lab:
        lab.sandboxes = [box("u1", "a"), box("u2", "b")]
        lab.kubelet.admit("u1", "a", ("g0",))
        await until("the first picture", lambda: "u1" in lab.pods.items)
        released = lab.kubelet.pods.pop("u1")
        lab.kubelet.admit("u2", "b", ("g0",))
        lab.kubelet.pods["u1"] = released
        torn = lab.figure("torn")
        await until("it is asked again", lambda: lab.figure("torn") >= torn + 2)
        assert set(lab.pods.items) == {"u1"}
        lab.kubelet.release("u1")
        await until("one that is whole", lambda: set(lab.pods.items) == {"u2"})
        assert any("to two pods" in message for _, message in lab.states)


async def test_a_pod_without_a_sandbox_is_published_after_a_delay() -> None:
    async with adopting() as lab:
        await until("an empty picture", lambda: lab.state.owns_streams)
        lab.kubelet.admit("u1", "a", ("g0",))
        await until("the pod", lambda: set(lab.pods.items) == {"default/a"})
        lab.kubelet.release("u1")
        await until("its end", lambda: not lab.pods.items)


async def test_a_kubelet_without_allocatable_resources_is_followed() -> None:
    async with adopting() as lab:
        lab.kubelet.tells_allocatable = False
        lab.kubelet.devices, lab.kubelet.cpus = {"g0": 0}, [1, 2]
        lab.sandboxes = [box("u1", "a")]
        lab.kubelet.admit("u1", "a", ("g0",))
        await until("the pod", lambda: set(lab.pods.items) == {"u1"})
        assert not lab.client.supports_allocatable
        assert not lab.devices.items
        lab.kubelet.tells_allocatable = True
        await until("its devices", lambda: set(lab.devices.items) == {"example.com/gpu g0"})
        await until("its CPUs", lambda: lab.machine.items.get(devices.NODE, Machine()).cpus == (1, 2))


async def test_a_runtime_that_is_away_releases_nothing() -> None:
    async with adopting() as lab:
        lab.sandboxes = [box("u1", "a")]
        lab.kubelet.admit("u1", "a", ("g0",))
        await until("the pod", lambda: set(lab.pods.items) == {"u1"})
        lab.broken = True
        lab.kubelet.release("u1")
        await until("a look that failed", lambda: lab.figure("failed") >= 2)
        assert set(lab.pods.items) == {"u1"}
        lab.broken, lab.sandboxes = False, [box("u1", "a", ready=False)]
        await until("its end", lambda: not lab.pods.items)


async def test_kubelets_words_have_their_meaning() -> None:
    async with adopting() as lab:
        answers = await asyncio.gather(*(lab.client.list() for _ in range(300)), return_exceptions=True)
        assert {type(error) for error in answers if isinstance(error, Exception)} == {KubeletBusy}
        await lab.kubelet.stop()
        with pytest.raises(KubeletUnavailable, match="is it running"):
            await lab.client.list()
