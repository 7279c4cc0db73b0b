"""The embedded runtime over its socket: life cycle, logs, exit codes, events, idempotence, bad input."""

import asyncio
import os
import signal
import stat
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import grpc
import pytest

from protocols.wire import cri_pb2 as pb
from tests.support.runtime import RuntimeProcess, running
from tests.support.waiting import until_true


async def refused(awaitable: Awaitable[Any], code: grpc.StatusCode, says: str = "") -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable
    assert caught.value.code() is code, caught.value
    details = caught.value.details() or ""
    assert says in details
    return details


def log_lines(path: str) -> list[tuple[str, str, str]]:
    return [tuple(line.split(" ", 3)[1:]) for line in Path(path).read_text().splitlines()]  # type: ignore[misc]  # always three words


async def test_a_container_from_creation_to_removal() -> None:
    async with RuntimeProcess() as runtime:
        assert stat.S_IMODE(runtime.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(runtime.socket.parent.stat().st_mode) == 0o700
        sandbox = await runtime.sandbox(labels={"l": "1"}, annotations={"a": "2"})
        id = await runtime.create(
            sandbox,
            "sh",
            "-c",
            'echo "$GREETING $HOSTNAME $PWD"; echo oops >&2; printf last; exit 3',
            envs=[pb.KeyValue(key="GREETING", value=b"hello")],
            working_dir="/tmp",
            labels={"x": "y"},
            annotations={"n": "m"},
            mounts=[pb.Mount(container_path="/tmp", host_path="/tmp")],
        )
        created = await runtime.status(id)
        assert (created.state, created.started_at, created.finished_at) == (pb.CONTAINER_CREATED, 0, 0)
        await runtime.call("StartContainer", container_id=id)
        status = await runtime.ended(id)
        assert (status.exit_code, status.reason) == (3, "Error")
        assert created.created_at == status.created_at <= status.started_at <= status.finished_at
        assert (dict(status.labels), dict(status.annotations)) == ({"x": "y"}, {"n": "m"})
        assert status.mounts[0].container_path == "/tmp"
        assert status.image_ref
        assert status.image.image == "busybox"
        lines = log_lines(status.log_path)
        assert ("stdout", "F", "hello pod-1 /tmp") in lines
        assert ("stderr", "F", "oops") in lines
        assert ("stdout", "P", "last") in lines
        pod = (await runtime.call("PodSandboxStatus", pod_sandbox_id=sandbox[:12])).status
        assert (dict(pod.labels), dict(pod.annotations)) == ({"l": "1"}, {"a": "2"})
        assert pod.network.ip
        await runtime.call("RemoveContainer", container_id=id)
        await refused(runtime.status(id), grpc.StatusCode.NOT_FOUND)
        assert not list((runtime.root / "runtime" / "shims").iterdir())


async def test_exit_codes_of_every_kind_of_end() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        ok = await runtime.run(sandbox, "true", name="ok")
        segfault = await runtime.run(sandbox, "sh", "-c", "kill -SEGV $$", name="segv")
        killed = await runtime.run(sandbox, "sleep", "100", name="killed")
        stopped = await runtime.run(sandbox, "sleep", "100", name="stopped")
        interrupted = await runtime.run(sandbox, "sleep", "100", name="int", stop_signal=pb.SIGNAL_SIGINT)
        os.kill(runtime.started(killed)["pid"], signal.SIGKILL)
        await runtime.call("StopContainer", container_id=stopped, timeout=10)
        await runtime.call("StopContainer", container_id=interrupted, timeout=10)
        codes = [(await runtime.ended(id)).exit_code for id in (ok, segfault, killed, stopped, interrupted)]
        assert codes == [0, 139, 137, 143, 130]
        assert (await runtime.status(ok)).reason == "Completed"


async def test_stop_waits_for_the_grace_and_kills_every_descendant() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        # a stubborn shell with a child, and a daemon that left session and parent
        naps = [f"501.{os.getpid()}", f"502.{os.getpid()}"]
        script = f"trap '' TERM; setsid sh -c 'sleep {naps[0]} &'; sleep {naps[1]} & while :; do wait; done"
        id = await runtime.run(sandbox, "sh", "-c", script)
        await until_true(lambda: all(running("sleep", nap) for nap in naps))
        began = time.monotonic()
        await runtime.call("StopContainer", container_id=id, timeout=1)
        assert 0.9 < time.monotonic() - began < 30
        assert (await runtime.status(id)).exit_code == 137
        assert not any(running("sleep", nap) for nap in naps)


async def test_a_daemon_does_not_outlive_its_container() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        nap = f"503.{os.getpid()}"
        id = await runtime.run(sandbox, "sh", "-c", f"setsid sleep {nap} & read x", stdin=True)
        await until_true(lambda: running("sleep", nap))
        await runtime.call("StopContainer", container_id=id, timeout=20)
        assert not running("sleep", nap)


async def test_events_report_each_step_in_order_with_the_pods_state() -> None:
    async with RuntimeProcess() as runtime:
        stream = await runtime.events()
        sandbox = await runtime.sandbox()
        other = await runtime.create(sandbox, "true", name="other")
        id = await runtime.run(sandbox, "sh", "-c", "exit 5", name="app")
        await runtime.ended(id)
        bad = await runtime.create(sandbox, "/no/such/program", name="bad")
        await refused(runtime.call("StartContainer", container_id=bad), grpc.StatusCode.UNKNOWN, "no such file")
        await runtime.call("RemovePodSandbox", pod_sandbox_id=sandbox)
        created, started, stopped, deleted = range(4)
        expected = [
            (sandbox, created),
            (sandbox, started),
            (other, created),
            (id, created),
            (id, started),
            (id, stopped),
            (bad, created),
            (bad, stopped),
            (sandbox, stopped),
            *((gone, deleted) for gone in (other, id, bad)),
            (sandbox, deleted),
        ]
        events = [await asyncio.wait_for(stream.read(), 60) for _ in expected]
        assert [(event.container_id, event.container_event_type) for event in events] == expected
        stamps = [event.created_at for event in events]
        assert stamps == sorted(set(stamps))
        assert all(event.pod_sandbox_status.metadata.uid == "uid-pod-1" for event in events)
        end = {status.id: status for status in events[5].containers_statuses}
        assert (end[id].state, end[id].exit_code, set(end)) == (pb.CONTAINER_EXITED, 5, {id, other})
        failed = next(status for status in events[7].containers_statuses if status.id == bad)
        assert (failed.exit_code, failed.reason) == (128, "StartError")
        assert id in {status.id for status in events[10].containers_statuses}  # its final status is in its DELETED


async def test_status_stamp_and_containers_come_together() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        empty = await runtime.call("PodSandboxStatus", pod_sandbox_id=sandbox)
        id = await runtime.create(sandbox, "true")
        full = await runtime.call("PodSandboxStatus", pod_sandbox_id=sandbox, verbose=True)
        assert (len(empty.containers_statuses), [status.id for status in full.containers_statuses]) == (0, [id])
        assert full.timestamp > empty.timestamp > empty.status.created_at
        assert abs(full.timestamp - time.time_ns()) < 60 * 10**9
        assert full.info["info"]


async def test_idempotence_and_codes_of_unknown_ids() -> None:
    async with RuntimeProcess() as runtime:
        for method, field in (
            ("StopPodSandbox", "pod_sandbox_id"),
            ("RemovePodSandbox", "pod_sandbox_id"),
            ("StopContainer", "container_id"),
            ("RemoveContainer", "container_id"),
        ):
            await runtime.call(method, **{field: "unknown"})
        for method in ("ContainerStatus", "StartContainer", "ContainerStats", "ReopenContainerLog", "ExecSync"):
            await refused(runtime.call(method, container_id="unknown"), grpc.StatusCode.NOT_FOUND)
        for method in ("PodSandboxStatus", "PodSandboxStats", "CreateContainer"):
            await refused(runtime.call(method, pod_sandbox_id="unknown"), grpc.StatusCode.NOT_FOUND)
        assert not (await runtime.call("ListContainers", filter=pb.ContainerFilter(id="unknown"))).containers

        sandbox = await runtime.sandbox("p")
        taken = await refused(runtime.sandbox("p"), grpc.StatusCode.ALREADY_EXISTS)
        key = "p_default_uid-p_0"
        assert taken == f'failed to reserve sandbox name "{key}": name "{key}" is reserved for "{sandbox}"'
        id = await runtime.run(sandbox, "true")
        await refused(
            runtime.create(sandbox, "true"), grpc.StatusCode.ALREADY_EXISTS, "failed to reserve container name"
        )
        await runtime.ended(id)
        await refused(runtime.call("StartContainer", container_id=id), grpc.StatusCode.FAILED_PRECONDITION, "exited")
        for _ in range(2):
            await runtime.call("StopContainer", container_id=id)
            await runtime.call("StopPodSandbox", pod_sandbox_id=sandbox)
        await refused(runtime.create(sandbox, "true", name="late"), grpc.StatusCode.FAILED_PRECONDITION, "not ready")
        items = (await runtime.call("ListPodSandbox")).items
        assert [(item.id, item.state) for item in items] == [(sandbox, pb.SANDBOX_NOTREADY)]
        assert await runtime.sandbox("p", attempt=1) != sandbox
        for _ in range(2):
            await runtime.call("RemovePodSandbox", pod_sandbox_id=sandbox)
        await runtime.sandbox("p")  # the name is free again


async def test_exec_has_the_containers_environment_and_a_deadline() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        id = await runtime.run(sandbox, "sleep", "100", envs=[pb.KeyValue(key="A", value=b"1")], working_dir="/tmp")
        done = await runtime.call("ExecSync", container_id=id, cmd=["sh", "-c", "echo $A $PWD; echo e >&2; exit 7"])
        assert (done.stdout, done.stderr, done.exit_code) == (b"1 /tmp\n", b"e\n", 7)
        began = time.monotonic()
        await refused(
            runtime.call("ExecSync", container_id=id, cmd=["sh", "-c", "sleep 99"], timeout=1),
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "timeout 1s exceeded",
        )
        assert time.monotonic() - began < 30
        # a grandchild that holds the pipes is not waited for
        done = await runtime.call("ExecSync", container_id=id, cmd=["sh", "-c", "sleep 99 & echo here"], timeout=10)
        assert done.stdout == b"here\n"
        await refused(
            runtime.call("ExecSync", container_id=id, cmd=["nope"]), grpc.StatusCode.UNKNOWN, "not found in $PATH"
        )
        long = runtime.call("ExecSync", container_id=id, cmd=["true", *["x" * 50_000] * 5])
        await refused(long, grpc.StatusCode.INVALID_ARGUMENT, "bytes long, which is too much")
        big = await runtime.call("ExecSync", container_id=id, cmd=["sh", "-c", "head -c 17000000 /dev/zero"])
        assert 15_000_000 < len(big.stdout) < 16 * 1024 * 1024
        await runtime.call("StopContainer", container_id=id)
        await refused(runtime.call("ExecSync", container_id=id, cmd=["true"]), grpc.StatusCode.FAILED_PRECONDITION)


async def test_a_rotated_log_is_written_anew_only_after_reopen() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        id = await runtime.run(sandbox, "sh", "-c", "while :; do echo tick; sleep 0.02; done")
        path = Path((await runtime.status(id)).log_path)
        await until_true(lambda: path.stat().st_size > 0)
        old = path.with_suffix(".old")
        os.rename(path, old)
        await runtime.call("ReopenContainerLog", container_id=id)
        size = old.stat().st_size
        await until_true(lambda: path.stat().st_size > 0)
        assert old.stat().st_size == size


async def test_stats_list_and_images_need_no_registry() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        id = await runtime.run(sandbox, "sh", "-c", "while :; do :; done")
        first = (await runtime.call("ContainerStats", container_id=id)).stats
        assert first.memory.working_set_bytes.value > 0
        while True:
            (stats,) = (await runtime.call("ListContainerStats")).stats
            if stats.cpu.usage_core_nano_seconds.value > first.cpu.usage_core_nano_seconds.value:
                break
        assert stats.cpu.timestamp > first.cpu.timestamp
        pod = (await runtime.call("ListPodSandboxStats")).stats[0]
        assert pod.linux.containers[0].attributes.id == id
        image = pb.ImageSpec(image="registry.example/app:1")
        assert (await runtime.call("ImageStatus", "ImageService", image=image)).image.pinned
        ref = (await runtime.call("PullImage", "ImageService", image=image)).image_ref
        listed = (await runtime.call("ListImages", "ImageService")).images
        assert "registry.example/app:1" in [each.spec.image for each in listed]
        assert ref.startswith("registry.example/app:1@sha256:")
        assert (await runtime.call("ImageFsInfo", "ImageService")).image_filesystems[0].used_bytes.value > 0
        await runtime.call("RemoveImage", "ImageService", image=image)
        status = (await runtime.call("Status", verbose=True)).status
        assert {condition.type: condition.status for condition in status.conditions} == {
            "RuntimeReady": True,
            "NetworkReady": True,
        }
        assert (await runtime.call("RuntimeConfig")).linux.cgroup_driver == pb.CGROUPFS
        await runtime.call("UpdateRuntimeConfig")
        resources = pb.LinuxContainerResources(cpu_shares=512)
        await runtime.call("UpdateContainerResources", container_id=id, linux=resources)
        assert (await runtime.status(id)).resources.linux.cpu_shares == 512


async def test_the_pause_image_sleeps_until_it_is_signalled() -> None:
    async with RuntimeProcess() as runtime:
        id = await runtime.run(await runtime.sandbox(), image="registry.k8s.io/pause:3.10")
        await runtime.call("StopContainer", container_id=id, timeout=10)
        assert (await runtime.status(id)).exit_code == 0


async def test_bad_input_is_refused_and_disturbs_nothing() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        id = await runtime.run(sandbox, "sleep", "100")
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        await refused(runtime.raw("ListContainers", b"\xff\xff\xff"), invalid, "not a valid message")
        await refused(runtime.raw("Version", b"\x0a" * 3), invalid)
        await refused(runtime.raw("Version", b"x" * (17 * 1024 * 1024)), grpc.StatusCode.RESOURCE_EXHAUSTED)
        await refused(runtime.call("RunPodSandbox"), invalid, "metadata")
        await refused(runtime.create(sandbox, image="nginx", name="n"), invalid, "command")
        await refused(runtime.create(sandbox, "x", metadata=pb.ContainerMetadata()), invalid)
        for method in ("CheckpointContainer", "ListMetricDescriptors"):
            await refused(runtime.call(method), grpc.StatusCode.UNIMPLEMENTED, "--runtime")
        handler = runtime.request("RunPodSandbox")(runtime_handler="gvisor")
        handler.config.metadata.CopyFrom(pb.PodSandboxMetadata(name="a", namespace="b", uid="c"))
        await refused(runtime.raw("RunPodSandbox", handler), invalid, "gvisor")
        reader, writer = await asyncio.open_unix_connection(str(runtime.socket))
        writer.write(b"GET / HTTP/1.1\r\n\r\n" + os.urandom(4096))
        await reader.read()
        writer.close()
        (runtime.logs / "file").write_text("")
        nowhere = await runtime.create(sandbox, "true", name="log", log_path="../file/x.log")
        await refused(runtime.call("StartContainer", container_id=nowhere), grpc.StatusCode.UNKNOWN, "file exists")
        relative = await runtime.create(sandbox, "true", name="relative", working_dir="usr")
        await refused(runtime.call("StartContainer", container_id=relative), grpc.StatusCode.UNKNOWN, "absolute path")
        no_directory = await runtime.create(sandbox, "true", name="cwd", working_dir="/no/such")
        await refused(
            runtime.call("StartContainer", container_id=no_directory), grpc.StatusCode.UNKNOWN, "working directory"
        )
        assert (await runtime.status(id)).state == pb.CONTAINER_RUNNING
        assert runtime.errors() == ""
