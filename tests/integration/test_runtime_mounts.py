"""Mounts of the embedded runtime: at their places for root, in a namespace of the container's own; and by variable."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest

from actors.runtime.spec.isolation import namespaces_allowed
from protocols.wire import cri_pb2 as pb
from tests.support.runtime import RuntimeProcess
from tests.support.waiting import until_async

Scenario = Callable[[RuntimeProcess, Path], Awaitable[None]]
root_only = pytest.mark.skipif(not namespaces_allowed(), reason="needs root with CAP_SYS_ADMIN")


def play(scenario: Scenario, directory: Path) -> None:
    async def run() -> None:
        async with RuntimeProcess() as runtime:
            await scenario(runtime, directory)

    asyncio.run(run())


def logged(path: str) -> str:
    return " ".join(line.split(" ", 3)[3] for line in Path(path).read_text().splitlines())


def host_mounts() -> str:
    return Path("/proc/self/mounts").read_text()


async def output(runtime: RuntimeProcess, script: str, *mounts: pb.Mount) -> str:
    sandbox = await runtime.sandbox()
    id = await runtime.create(sandbox, "sh", "-c", script, mounts=list(mounts))
    await runtime.call("StartContainer", container_id=id)
    status = await runtime.ended(id)
    return logged(status.log_path)


def test_every_mount_is_announced_by_a_variable(tmp_path: Path) -> None:
    async def scenario(runtime: RuntimeProcess, directory: Path) -> None:
        (directory / "key").write_text("value")
        mount = pb.Mount(container_path="/tmp/np-a.b/c", host_path=str(directory))
        assert await output(runtime, 'cat "$NODEPLANE_MOUNT_TMP_NP_A_B_C/key"', mount) == "value"

    play(scenario, tmp_path)


@root_only
def test_root_finds_mounts_at_their_places_and_nobody_else_does(tmp_path: Path) -> None:
    async def scenario(runtime: RuntimeProcess, directory: Path) -> None:
        (directory / "in").mkdir()
        (directory / "in" / "key").write_text("value\n")
        (directory / "note").write_text("")
        place = directory / "place"
        place.mkdir()
        mounts = (
            pb.Mount(container_path=f"{place}/deep/note", host_path=str(directory / "note")),
            pb.Mount(container_path=str(place), host_path=str(directory / "in"), readonly=False),
            pb.Mount(container_path=str(directory / "ro"), host_path=str(directory / "in"), readonly=True),
        )
        script = f"cat {place}/key; echo hi > {place}/deep/note; touch {directory}/ro/x 2>&1 | grep -o 'Read-only'"
        assert await output(runtime, script, *mounts) == "value Read-only"
        assert not list(place.iterdir())
        assert (directory / "note").read_text() == "hi\n"
        assert str(place) not in host_mounts()

    play(scenario, tmp_path)


@root_only
def test_exec_sees_the_same_mounts(tmp_path: Path) -> None:
    async def scenario(runtime: RuntimeProcess, directory: Path) -> None:
        (directory / "key").write_text("value")
        place = directory.parent / f"{directory.name}-place"
        mount = pb.Mount(container_path=str(place), host_path=str(directory))
        id = await runtime.create(await runtime.sandbox(), "sleep", "60", mounts=[mount])
        await runtime.call("StartContainer", container_id=id)
        answer = await runtime.call("ExecSync", container_id=id, cmd=["cat", f"{place}/key"], timeout=30)
        assert answer.stdout == b"value"
        os.rmdir(place)

    play(scenario, tmp_path)


@root_only
def test_mount_leaves_its_data_and_no_mount_point_on_the_host(tmp_path: Path) -> None:
    """A missing host path is made, as by containerd; a missing mount point goes with its container."""

    async def scenario(runtime: RuntimeProcess, directory: Path) -> None:
        source, target = directory / "new" / "data", directory / "point" / "deep"
        mount = pb.Mount(container_path=str(target), host_path=str(source))
        sandbox = await runtime.sandbox()
        id = await runtime.create(sandbox, "sh", "-c", f"echo kept > {target}/file; sleep 60", mounts=[mount])
        await runtime.call("StartContainer", container_id=id)
        await until_async("its file", lambda: (source / "file").read_text() == "kept\n")
        assert target.is_dir()
        await runtime.call("RemoveContainer", container_id=id)
        assert not (directory / "point").exists()
        assert (source / "file").read_text() == "kept\n"

    play(scenario, tmp_path)


@root_only
def test_what_cannot_be_mounted_is_named(tmp_path: Path) -> None:
    async def scenario(runtime: RuntimeProcess, directory: Path) -> None:
        absent = pb.Mount(container_path=f"{directory}/x", host_path="/dev/null/path")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await output(runtime, "true", absent)
        assert 'host path "/dev/null/path": not a directory' in (caught.value.details() or "")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await output(runtime, "true", pb.Mount(container_path="/", host_path=str(directory)))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    play(scenario, tmp_path)
