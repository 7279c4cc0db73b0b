"""Mounts of the embedded runtime: at their places for root, in a namespace of the container's own; and by variable."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from actors.runtime.spec.isolation import namespaces_allowed
from protocols.wire import cri_pb2 as pb
from tests.support.runtime import RuntimeProcess
from tests.support.waiting import until_async

root_only = pytest.mark.skipif(not namespaces_allowed(), reason="needs root with CAP_SYS_ADMIN")


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


async def test_every_mount_is_announced_by_a_variable(runtime: RuntimeProcess, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("value")
    mount = pb.Mount(container_path="/tmp/np-a.b/c", host_path=str(tmp_path))
    assert await output(runtime, 'cat "$NODEPLANE_MOUNT_TMP_NP_A_B_C/key"', mount) == "value"


@root_only
async def test_root_finds_mounts_at_their_places_and_nobody_else_does(runtime: RuntimeProcess, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "key").write_text("value\n")
    (tmp_path / "note").write_text("")
    place = tmp_path / "place"
    place.mkdir()
    mounts = (
        pb.Mount(container_path=f"{place}/deep/note", host_path=str(tmp_path / "note")),
        pb.Mount(container_path=str(place), host_path=str(tmp_path / "in"), readonly=False),
        pb.Mount(container_path=str(tmp_path / "ro"), host_path=str(tmp_path / "in"), readonly=True),
    )
    script = f"cat {place}/key; echo hi > {place}/deep/note; touch {tmp_path}/ro/x 2>&1 | grep -o 'Read-only'"
    assert await output(runtime, script, *mounts) == "value Read-only"
    assert not list(place.iterdir())
    assert (tmp_path / "note").read_text() == "hi\n"
    assert str(place) not in host_mounts()


@root_only
async def test_exec_sees_the_same_mounts(runtime: RuntimeProcess, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("value")
    place = tmp_path.parent / f"{tmp_path.name}-place"
    mount = pb.Mount(container_path=str(place), host_path=str(tmp_path))
    id = await runtime.create(await runtime.sandbox(), "sleep", "60", mounts=[mount])
    await runtime.call("StartContainer", container_id=id)
    answer = await runtime.call("ExecSync", container_id=id, cmd=["cat", f"{place}/key"], timeout=30)
    assert answer.stdout == b"value"
    os.rmdir(place)


@root_only
async def test_mount_leaves_its_data_and_no_mount_point_on_the_host(runtime: RuntimeProcess, tmp_path: Path) -> None:
    """A missing host path is made, as by containerd; a missing mount point goes with its container."""

    source, target = tmp_path / "new" / "data", tmp_path / "point" / "deep"
    mount = pb.Mount(container_path=str(target), host_path=str(source))
    sandbox = await runtime.sandbox()
    id = await runtime.create(sandbox, "sh", "-c", f"echo kept > {target}/file; sleep 60", mounts=[mount])
    await runtime.call("StartContainer", container_id=id)
    await until_async("its file", lambda: (source / "file").read_text() == "kept\n")
    assert target.is_dir()
    await runtime.call("RemoveContainer", container_id=id)
    assert not (tmp_path / "point").exists()
    assert (source / "file").read_text() == "kept\n"


@root_only
async def test_what_cannot_be_mounted_is_named(runtime: RuntimeProcess, tmp_path: Path) -> None:
    absent = pb.Mount(container_path=f"{tmp_path}/x", host_path="/dev/null/path")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await output(runtime, "true", absent)
    assert 'host path "/dev/null/path": not a directory' in (caught.value.details() or "")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await output(runtime, "true", pb.Mount(container_path="/", host_path=str(tmp_path)))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


WITHOUT_SETATTR = """
import sys
from actors.runtime.shim import mounts, system
from protocols.process import linux

def restrict(*_):
    raise OSError(int(sys.argv[2]), "")

linux.unshare(system.NAMESPACES["mnt"])
mounts.stop_propagation()
system.restrict_recursively = restrict
mounts.bind(mounts.Mount("/dev", "/data", readonly=True, recursive=True, nodev=True), sys.argv[1])
print(open("/proc/self/mounts").read())
"""


@root_only
@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_mounts_below_are_restricted_without_mount_setattr(tmp_path: Path, error: int) -> None:
    """Before Linux 5.12, and below a filter of system calls that is older."""
    command = [sys.executable, "-c", WITHOUT_SETATTR, str(tmp_path), str(error)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    options = {fields[1]: set(fields[3].split(",")) for fields in map(str.split, text.splitlines()) if fields}
    made = {place: found for place, found in options.items() if place.startswith(f"{tmp_path}/data")}
    assert len(made) > 1
    assert all({"ro", "nodev"} <= found for found in made.values()), made
