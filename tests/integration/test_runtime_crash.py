"""kill -9 of the runtime, its launcher and its shims: containers live on or end with the truth, and nothing is left."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from pathlib import Path

import grpc
import pytest

from actors.runtime.shim.system import children
from protocols.bus import Bus, BusOptions
from protocols.lifecycle.pods.hollow import DURATION, EXIT_CODE, HOLLOW, LOG, OOM
from protocols.messages.runtime import OWNER, STOP_CONTAINERS, Empty, StopContainers
from protocols.process.linux import PR_SET_CHILD_SUBREAPER, prctl
from protocols.wire import cri_pb2 as pb
from tests.support.runtime import RuntimeProcess, alive
from tests.support.waiting import until_true


@pytest.fixture(scope="module", autouse=True)
def others() -> set[int]:
    """Children that this process has of other modules' tests, such as what multiprocessing keeps.

    Those of `nodeplane test` and `conform` make it adopt the orphans of all that follow.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 0)
    return set(children())


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def launcher_of(runtime: RuntimeProcess) -> int:
    names = {pid: Path(f"/proc/{pid}/comm").read_text() for pid in children_of(runtime.pid)}
    return next(pid for pid, name in names.items() if name.startswith("nodeplane-launc"))


async def test_containers_live_on_and_are_taken_over() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox("p")
        id = await runtime.run(sandbox, "sh", "-c", "while :; do echo tick; sleep 0.02; done", name="a")
        waiting = await runtime.create(sandbox, "sh", "-c", "exit 4", name="b")
        before = (await runtime.call("PodSandboxStatus", pod_sandbox_id=sandbox)).status
        pid = runtime.started(id)["pid"]
        launcher = launcher_of(runtime)
        await runtime.kill()
        await until_true(lambda: not alive(launcher))
        assert alive(pid)
        log = runtime.logs / "p" / "a" / "0.log"
        size = log.stat().st_size
        await until_true(lambda: log.stat().st_size > size)
        await runtime.start()
        status = await runtime.status(id)
        assert (status.state, status.started_at) == (pb.CONTAINER_RUNNING, runtime.started(id)["started_at"])
        assert (await runtime.call("PodSandboxStatus", pod_sandbox_id=sandbox)).status == before
        with pytest.raises(grpc.aio.AioRpcError, match="reserved for"):
            await runtime.sandbox("p")
        # everything still works on what was taken over, and on what had not begun
        done = await runtime.call("ExecSync", container_id=id, cmd=["echo", "hi"])
        assert done.stdout == b"hi\n"
        await runtime.call("ReopenContainerLog", container_id=id)
        stream = await runtime.events()
        await runtime.call("StopContainer", container_id=id, timeout=10)
        assert (await asyncio.wait_for(stream.read(), 60)).container_event_type == pb.CONTAINER_STOPPED_EVENT
        assert (await runtime.status(id)).exit_code == 143
        await runtime.call("StartContainer", container_id=waiting)
        assert (await runtime.ended(waiting)).exit_code == 4


async def test_an_exit_while_the_runtime_is_down_is_reported_with_code_and_time() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        gate = runtime.root / "gate"
        id = await runtime.run(sandbox, "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.01; done; exit 42")
        pid, shim = runtime.started(id)["pid"], await runtime.shim(id)
        await runtime.kill()
        before = time.time_ns()
        gate.touch()
        await until_true(lambda: not alive(pid) and not alive(shim))
        after = time.time_ns()
        await asyncio.sleep(0.1)
        for _ in range(2):  # and it stays so
            await runtime.start()
            status = await runtime.status(id)
            assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, 42, "Error")
            assert before <= status.finished_at <= after
            await runtime.kill()


@pytest.mark.parametrize("down", [False, True], ids=["runtime up", "runtime down"])
async def test_a_killed_shim_takes_its_container_along(down: bool) -> None:
    def state_of(runtime: RuntimeProcess, id: str) -> bytes:
        return (runtime.root / "runtime" / "containers" / f"{id}.json").read_bytes()

    async with RuntimeProcess() as runtime:
        stream = await runtime.events()
        id = await runtime.run(await runtime.sandbox(), "sh", "-c", "sleep 500 & sleep 500 & wait")
        pid, shim = runtime.started(id)["pid"], await runtime.shim(id)
        await until_true(lambda: len(children_of(pid)) == 2)
        pids = [pid, *children_of(pid)]
        if down:
            await runtime.kill()
        os.kill(shim, signal.SIGKILL)
        if down:
            await runtime.start()
        status = await runtime.ended(id)
        assert (status.exit_code, status.reason) == (137, "ContainerStatusUnknown")
        await until_true(lambda: not any(map(alive, pids)))
        if not down:
            kinds = [(await asyncio.wait_for(stream.read(), 60)).container_event_type for _ in range(5)]
            assert kinds[-1] == pb.CONTAINER_STOPPED_EVENT
        await until_true(lambda: b'"exit_code":137' in state_of(runtime, id))
        await runtime.kill()
        await runtime.start()
        assert (await runtime.status(id)).finished_at == status.finished_at


async def test_a_killed_launcher_is_replaced_and_its_containers_go_on() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        id = await runtime.run(sandbox, "sleep", "500", name="a")
        os.kill(launcher_of(runtime), signal.SIGKILL)
        other = await runtime.run(sandbox, "sleep", "500", name="b")
        for each in (id, other):
            assert (await runtime.status(each)).state == pb.CONTAINER_RUNNING
            await runtime.call("StopContainer", container_id=each, timeout=10)
            assert (await runtime.status(each)).exit_code == 143


async def test_a_runtime_killed_among_many_starts_neither_loses_nor_doubles_a_container() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        mark = runtime.root / "marks"
        mark.mkdir()
        script = 'mktemp "$0/$1.XXXXXX" >/dev/null; exec sleep 500'
        ids = [await runtime.create(sandbox, "sh", "-c", script, str(mark), str(n), name=f"c{n}") for n in range(12)]
        starts = [asyncio.create_task(runtime.call("StartContainer", container_id=id)) for id in ids]
        await until_true(lambda: len(list(mark.iterdir())) >= 3)
        await runtime.kill()
        await asyncio.gather(*starts, return_exceptions=True)
        await runtime.start()
        for id in ids:
            if (await runtime.status(id)).state == pb.CONTAINER_CREATED:
                await runtime.call("StartContainer", container_id=id)
        states = [(await runtime.status(id)).state for id in ids]
        assert states == [pb.CONTAINER_RUNNING] * len(ids)
        await until_true(lambda: len(list(mark.iterdir())) == len(ids))
        assert len({entry.name.partition(".")[0] for entry in mark.iterdir()}) == len(ids)


async def test_unknown_clients_at_a_shims_socket_disturb_nothing() -> None:
    """Silent ones, ones that talk nonsense, and more of them than it lets in; the next runtime gets through."""

    async with RuntimeProcess() as runtime:
        id = await runtime.run(await runtime.sandbox("p"), "sleep", "500")
        path = next((runtime.root / "runtime" / "shims").glob("*/shim.sock"))
        with contextlib.ExitStack() as held:
            for data in (b"", b"garbage", b"[" * 100_000, b'{"op": 7}', b'{"op": "kill"}', *[b""] * 20):
                stranger = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                stranger.connect(str(path))
                if data:
                    stranger.send(data)
            done = await runtime.call("ExecSync", container_id=id, cmd=["echo", "hi"])
            assert done.stdout == b"hi\n"
            await runtime.kill()
            await runtime.start()
            assert (await runtime.status(id)).state == pb.CONTAINER_RUNNING
            await runtime.call("StopContainer", container_id=id, timeout=10)
            assert (await runtime.status(id)).exit_code == 143


async def test_a_stale_socket_file_and_a_damaged_record_do_not_stop_a_start() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        await runtime.kill()
        assert runtime.socket.exists()
        (runtime.root / "runtime" / "containers" / f"{'a' * 64}.json").write_text('{"id": ')
        (runtime.root / "runtime" / "shims" / ("b" * 64)).mkdir()
        await runtime.start()
        assert [item.id for item in (await runtime.call("ListPodSandbox")).items] == [sandbox]
        assert "state file skipped" in runtime.errors()
        await until_true(lambda: not list((runtime.root / "runtime" / "shims").iterdir()))


async def test_of_two_records_with_one_name_the_one_in_use_is_kept() -> None:
    """As a restored backup brings them: an old sandbox and container beside their successors."""

    async with RuntimeProcess() as runtime:
        old = await runtime.sandbox("twice")
        await runtime.create(old, "true", name="main")
        state = runtime.root / "runtime"
        saved = {path: path.read_bytes() for part in ("sandboxes", "containers") for path in (state / part).iterdir()}
        await runtime.call("RemovePodSandbox", pod_sandbox_id=old)
        new = await runtime.sandbox("twice")
        kept = await runtime.run(new, "sleep", "500", name="main")
        await runtime.kill()
        for path, data in saved.items():
            path.write_bytes(data)
        (state / "sandboxes" / "copy.json").write_bytes((state / "sandboxes" / f"{new}.json").read_bytes())
        await runtime.start()
        assert [item.id for item in (await runtime.call("ListPodSandbox")).items] == [new]
        assert [item.id for item in (await runtime.call("ListContainers")).containers] == [kept]
        assert (await runtime.status(kept)).state == pb.CONTAINER_RUNNING
        assert "its name is in use" in runtime.errors()
        for path in saved:
            path.unlink()


async def test_hollow_lives_go_on_from_their_stored_start() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        forever = await runtime.run(sandbox, name="forever", image="hollow/app")
        script = {HOLLOW: "true", DURATION: "600ms", EXIT_CODE: "9"}
        timed = await runtime.run(sandbox, name="timed", image="app", annotations=script)
        status = await runtime.status(timed)
        assert status.state == pb.CONTAINER_RUNNING or time.time_ns() - status.started_at > 600_000_000
        await runtime.kill()
        await asyncio.sleep(0.7)
        await runtime.start()
        status = await runtime.status(timed)
        assert (status.state, status.exit_code) == (pb.CONTAINER_EXITED, 9)
        assert status.finished_at - status.started_at == 600_000_000
        assert (await runtime.status(forever)).state == pb.CONTAINER_RUNNING
        await runtime.call("StopContainer", container_id=forever, timeout=5)
        assert (await runtime.status(forever)).exit_code == 143
        killed = await runtime.run(sandbox, name="killed", image="hollow/app")
        await runtime.call("StopContainer", container_id=killed, timeout=0)
        assert (await runtime.status(killed)).exit_code == 137
        scripted = {HOLLOW: "true", DURATION: "10ms", OOM: "true", LOG: "one\ntwo"}
        starved = await runtime.ended(await runtime.run(sandbox, name="oom", image="app", annotations=scripted))
        assert (starved.exit_code, starved.reason) == (137, "OOMKilled")
        lines = (runtime.logs / "pod-1" / "oom" / "0.log").read_text().splitlines()
        assert [line.split(" ", 1)[1] for line in lines] == ["stdout F one", "stdout F two"]
        again = await runtime.run(sandbox, name="again", image="app", annotations=script)
        assert (await runtime.ended(again)).exit_code == 9
        more = await runtime.run(sandbox, name="more", image="hollow/app")
        assert (await runtime.call("ExecSync", container_id=more, cmd=["x"])).exit_code == 0


async def test_stop_containers_ends_all_of_them_and_refuses_new_starts() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        polite = await runtime.run(sandbox, "sleep", "500", name="polite")
        script = f"trap '' TERM; touch {runtime.root}/armed; while :; do sleep 0.01; done"
        stubborn = await runtime.run(sandbox, "sh", "-c", script, name="stubborn")
        await until_true((runtime.root / "armed").exists, what="its trap")
        hollow = await runtime.run(sandbox, name="hollow", image="hollow/x")
        late = await runtime.create(sandbox, "true", name="late")
        bus = Bus(BusOptions(name="tester", run_dir=runtime.settings.layout.run))
        await bus.start()
        try:
            await bus.call(OWNER, STOP_CONTAINERS, StopContainers(grace_s=1.5), Empty, timeout=30)
        finally:
            await bus.close()
        assert [(await runtime.status(id)).exit_code for id in (polite, stubborn, hollow)] == [143, 137, 143]
        with pytest.raises(grpc.aio.AioRpcError, match="going down"):
            await runtime.call("StartContainer", container_id=late)
        with pytest.raises(grpc.aio.AioRpcError, match="going down"):
            await runtime.sandbox()
        (item,) = (await runtime.call("ListPodSandbox")).items
        assert item.state == pb.SANDBOX_NOTREADY, "so that nobody takes the ends for crashes"


@pytest.mark.scenario("S9")
async def test_a_client_that_never_reads_events_loses_its_stream_and_slows_nobody() -> None:
    async def churn(runtime: RuntimeProcess, rounds: int) -> None:
        sandbox = await runtime.sandbox()
        for number in range(rounds):  # the weight is the containers': what an earlier event has is not queued again
            weight = {"weight": "x" * 60_000}
            id = await runtime.run(sandbox, name=f"c{number}", image="hollow/x", annotations=weight)
            await runtime.call("StopContainer", container_id=id)
            await runtime.call("RemoveContainer", container_id=id)

    async def count(stream: "grpc.aio.UnaryStreamCall[pb.GetEventsRequest, pb.ContainerEventResponse]", n: int) -> None:
        for _ in range(n):
            assert await stream.read() is not grpc.aio.EOF

    async with RuntimeProcess() as runtime:
        stuck, quick = await runtime.events(), await runtime.events()
        counted = asyncio.create_task(count(quick, 8 * (2 + 35 * 4)))
        await asyncio.gather(*(churn(runtime, 35) for _ in range(8)))
        await asyncio.wait_for(counted, 60)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(count(stuck, 10**9), 60)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_this_process_has_no_children_left(others: set[int]) -> None:
    assert set(children()) <= others
