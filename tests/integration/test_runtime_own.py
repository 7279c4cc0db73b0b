"""What a container has of its own where the plane is root: limits, namespaces, an image's root, users, capabilities."""

import os
import shutil
import subprocess
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from actors.runtime.spec.isolation import namespaces_allowed
from protocols.bus import Bus, BusOptions
from protocols.messages.runtime import IMPORT_IMAGE, OWNER, ImageInfo, ImportImage
from protocols.wire import cri_pb2 as pb
from tests.support.images import docker_archive
from tests.support.runtime import RuntimeProcess, limits
from tests.support.waiting import until_true

HOG = "exec python3 -c 'x = bytearray(80 << 20); import time; time.sleep(60)'"

NAMESPACES = pytest.mark.skipif(not namespaces_allowed(), reason="namespaces need root with CAP_SYS_ADMIN")
IMAGES = pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed (busybox-static)")


def linux(resources: dict[str, Any] | None = None, **context: Any) -> pb.LinuxContainerConfig:
    return pb.LinuxContainerConfig(
        resources=pb.LinuxContainerResources(**(resources or {})),
        security_context=pb.LinuxContainerSecurityContext(**context),
    )


async def said(runtime: RuntimeProcess, id: str) -> str:
    status = await runtime.ended(id)
    return text_of(status.log_path)


def log_of(runtime: RuntimeProcess, container: str, pod: str = "pod-1") -> Path:
    return runtime.logs / pod / container / "0.log"


def text_of(log: str) -> str:
    text = Path(log).read_text()
    return "\n".join(line.split(" ", 3)[3] for line in text.splitlines())


async def refused(awaitable: Awaitable[Any], says: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert says in (caught.value.details() or "")


@pytest.mark.skipif("memory" not in limits(), reason="no writable cgroup hierarchy with the memory controller")
async def test_who_takes_too_much_memory_is_killed_and_says_so(runtime: RuntimeProcess) -> None:
    sandbox = await runtime.sandbox()
    small = linux({"memory_limit_in_bytes": 32 << 20})
    hog = await runtime.run(sandbox, "sh", "-c", HOG, name="hog", linux=small)
    good = await runtime.run(sandbox, "sleep", "60", name="good", linux=small)
    ended = await runtime.ended(hog)
    assert (ended.exit_code, ended.reason) == (137, "OOMKilled")
    groups = [
        line
        for line in Path("/proc").joinpath(await pid_of(runtime, good), "cgroup").read_text().split()
        if line.endswith(good)
    ]
    assert any("memory" in group or group.startswith("0:") for group in groups)
    await runtime.kill()
    await runtime.start()
    assert (await runtime.status(good)).state == pb.CONTAINER_RUNNING
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=48 << 20)
    await runtime.call("UpdateContainerResources", container_id=good, linux=resources)
    seen = (await runtime.status(good)).resources.linux.memory_limit_in_bytes
    assert seen == 48 << 20
    await runtime.call("StopContainer", container_id=good, timeout=1)
    assert (await runtime.status(good)).reason == "Error", "a signal is no lack of memory"


@pytest.mark.skipif("pids" not in limits(), reason="no writable cgroup hierarchy with the pids controller")
async def test_processes_are_limited_and_limits_reach_commands_beside(runtime: RuntimeProcess) -> None:
    sandbox = await runtime.sandbox()
    few = linux({"unified": {"pids.max": "6"}})
    id = await runtime.run(sandbox, "sleep", "60", name="few", linux=few)
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; wait"
    done = await runtime.call("ExecSync", container_id=id, cmd=["sh", "-c", script], timeout=20)
    assert b"fork" in done.stderr.lower() or b"resource" in done.stderr.lower()


async def pid_of(runtime: RuntimeProcess, id: str) -> str:
    import json

    path = runtime.root / "runtime" / "shims" / id / "started.json"
    return str(json.loads(path.read_text())["pid"])


@NAMESPACES
async def test_process_numbers_and_host_name_of_its_own(runtime: RuntimeProcess) -> None:
    sandbox = await runtime.sandbox(hostname="inner", annotations={"nodeplane.dev/isolation": "pid,uts"})
    own = linux(namespace_options=pb.NamespaceOption(pid=pb.CONTAINER))
    script = "echo $$; hostname; ls -d /proc/[0-9]* 2>/dev/null | wc -l; exec sleep 60"
    id = await runtime.run(sandbox, "sh", "-c", script, name="own", linux=own)
    done = await runtime.call("ExecSync", container_id=id, cmd=["sh", "-c", "echo $$; hostname; cat /proc/1/comm"])
    seen = await runtime.call("ExecSync", container_id=id, cmd=["sh", "-c", "cat /proc/[0-9]*/comm"])
    ours = {"sh", "sleep", "cat", "ls", "wc", "hostname"}
    assert set(seen.stdout.decode().split()) <= ours, "trap 31: no process of the host's"
    await until_true(lambda: (log := log_of(runtime, "own")).exists() and text_of(str(log)).count("\n") >= 2)
    number, name, first = done.stdout.decode().split()
    assert int(number) < 20
    assert name == "inner"
    assert first in ("sh", "sleep")
    assert os.uname().nodename != "inner"
    await runtime.kill()
    await runtime.start()
    done = await runtime.call("ExecSync", container_id=id, cmd=["hostname"])
    assert done.stdout == b"inner\n"
    await runtime.call("StopContainer", container_id=id, timeout=0)
    assert (await said(runtime, id)).split()[:2] == ["1", "inner"]
    bad = await runtime.sandbox(annotations={"nodeplane.dev/isolation": "net"})
    await refused(runtime.create(bad, "true", name="bad"), "is none of pid, uts")


@contextmanager
def another_disk(where: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "none", where], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", where], check=True)


@NAMESPACES
async def test_a_read_only_root_capabilities_and_groups(runtime: RuntimeProcess) -> None:
    sandbox = await runtime.sandbox()
    disk = runtime.root / "disk"
    disk.mkdir()
    same = [pb.Mount(host_path=f"{disk}/open", container_path=f"{disk}/open")]
    writes = f"touch {disk}/open/x && echo wrote; touch {runtime.root}/made 2>&1; touch {disk}/made 2>&1"
    probe = f"{writes}; grep CapBnd /proc/self/status; id -G"
    none = pb.Capability(drop_capabilities=["ALL"], add_capabilities=["NET_BIND_SERVICE"])
    sealed = linux(readonly_rootfs=True, capabilities=none, supplemental_groups=[4321, 17])
    with another_disk(disk):
        (disk / "open").mkdir()
        id = await runtime.run(sandbox, "sh", "-c", probe, name="sealed", linux=sealed, mounts=same)
        text = await said(runtime, id)
    assert text.startswith("wrote\n"), "a volume can be written to, also at its own path"
    assert text.count("Read-only file system") == 2, "neither what is on another disk"
    assert f"{1 << 10:016x}" in text
    assert {"4321", "17"} <= set(text.splitlines()[-1].split())
    wrong = linux(capabilities=pb.Capability(drop_capabilities=["FLYING"]))
    await refused(runtime.create(sandbox, "true", name="x", linux=wrong), 'no capability "FLYING"')


@pytest.mark.skipif(os.geteuid() != 0, reason="other users are for root only")
async def test_working_directory_may_be_one_that_the_user_cannot_enter(runtime: RuntimeProcess) -> None:
    user, closed = linux(run_as_user=pb.Int64Value(value=65534)), str(runtime.root)
    command = ["sh", "-c", f'test "$(pwd -P)" = {closed} && ls 2>&1 && id -u']
    id = await runtime.run(await runtime.sandbox(), *command, linux=user, working_dir=closed)
    assert (await runtime.ended(id)).exit_code == 2, "it is there, and cannot read it"


@pytest.mark.skipif(os.geteuid() == 0, reason="about what other users than root may not do")
async def test_what_needs_root_is_refused_in_words(runtime: RuntimeProcess) -> None:
    sandbox = await runtime.sandbox()
    id = await runtime.create(sandbox, "true", name="u", linux=linux(run_as_user=pb.Int64Value(value=0)))
    await refused(runtime.call("StartContainer", container_id=id), "needs nodeplane to run as root")
    own = await runtime.sandbox(annotations={"nodeplane.dev/isolation": "pid"})
    await refused(runtime.create(own, "true", name="own"), "needs nodeplane to run as root")


async def imported(runtime: RuntimeProcess, name: str = "box:1") -> ImageInfo:
    bus = Bus(BusOptions(name="tester", run_dir=runtime.settings.layout.run))
    await bus.start()
    try:
        path = docker_archive(runtime.root / "box.tar", name)
        return await bus.call(OWNER, IMPORT_IMAGE, ImportImage(str(path)), ImageInfo, timeout=60)
    finally:
        await bus.close()


@NAMESPACES
@IMAGES
async def test_an_image_with_its_files_command_environment_and_user(runtime: RuntimeProcess) -> None:
    image = await imported(runtime)
    sandbox = await runtime.sandbox("box-pod")
    plain = await runtime.run(sandbox, name="plain", image="box:1")
    assert await said(runtime, plain) == "hello from /home/box as box"
    assert (await runtime.status(plain)).image_id == image.id
    (shown,) = (await runtime.call("ListImages", "ImageService")).images
    assert (shown.id, list(shown.repo_tags), shown.username) == (image.id, ["box:1"], "box")
    args = await runtime.run(sandbox, name="args", image="box:1", args=["cat /etc/made-in; ls /home /old"])
    assert (await said(runtime, args)).split() == ["two", "layers", "/home:", "box", "/old:", "stays"]
    (runtime.root / "volume").mkdir()
    (runtime.root / "volume" / "file").write_text("mine\n")
    mounts = [pb.Mount(host_path=f"{runtime.root}/volume", container_path="/deep/in", readonly=True)]
    root = linux(run_as_user=pb.Int64Value(value=0))
    script = "touch /etc/new /deep/in/x; cat /deep/in/file; exec sleep 60"
    held = await runtime.run(sandbox, "sh", "-c", script, name="held", image="box:1", mounts=mounts, linux=root)
    await until_true(lambda: (log := log_of(runtime, "held", "box-pod")).exists() and "mine" in text_of(str(log)))
    await runtime.kill()
    await runtime.start()
    script = "ls /etc/new; id -u; test -e /usr/bin/python3 || echo alone; ls /proc/self/exe"
    command = ["sh", "-c", f"{script}; cat /proc/sys/kernel/hostname"]
    done = await runtime.call("ExecSync", container_id=held, cmd=command)
    assert done.stdout.decode().split() == ["/etc/new", "0", "alone", "/proc/self/exe", "box-pod"]
    assert not (Path(image.root) / "etc" / "new").exists(), "an image never changes"
    with pytest.raises(grpc.aio.AioRpcError, match="used by a container"):
        await runtime.call("RemoveImage", "ImageService", image=pb.ImageSpec(image="box:1"))
    await runtime.call("StopContainer", container_id=held, timeout=0)
    assert "Read-only file system" in await said(runtime, held)
    lost = await runtime.create(sandbox, "/no/such", name="lost", image="box:1")
    with pytest.raises(grpc.aio.AioRpcError, match="no such file"):
        await runtime.call("StartContainer", container_id=lost)
    await runtime.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    await runtime.call("RemoveImage", "ImageService", image=pb.ImageSpec(image="box:1"))
    assert not (await runtime.call("ListImages", "ImageService")).images
