"""The tmpfs with secrets of all pods: when there is one, which volumes are on it, what a pod may take of it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from actors.podworker.model.errors import VolumeNotReady
from actors.podworker.pods.environment.references import SECRET
from actors.podworker.pods.volumes import atomic, memory
from actors.podworker.pods.volumes.directories import pods_with_directories, remove_directories
from actors.podworker.pods.volumes.paths import VolumePaths
from actors.podworker.pods.volumes.payload import File
from actors.podworker.pods.volumes.volumes import Volumes
from protocols.lifecycle.pods.types import PodSpec, read_pod
from protocols.process import linux
from protocols.process.namespaces import has_sys_admin
from supervisor.root.leftovers import unmount_below
from tests.support.podworker_fakes import FakeDependencies, container, pod

mounting = pytest.mark.skipif(not (os.geteuid() == 0 and has_sys_admin()), reason="mounts need root with CAP_SYS_ADMIN")
GIB = 1 << 30
SOURCES = {"secret": {"secretName": "s"}, "projected": {"sources": []}, "downwardAPI": {"items": []}}
OTHERS = {"configMap": {"name": "c"}, "emptyDir": {}}
LISTENING = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True); input()"
)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root whose tmpfs is unmounted in the end."""
    yield tmp_path
    unmount_below(tmp_path)


@pytest.fixture
def endpoint(root: Path) -> Iterator[str]:
    """The socket of a runtime, which is this process."""
    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.bind(str(root / "runtime.sock"))
        runtime.listen()
        yield f"unix://{root}/runtime.sock"


def spec_of(**sources: object) -> PodSpec:
    return read_pod(pod(container("a"), volumes=[{"name": kind, kind: source} for kind, source in sources.items()]))


def places(root: Path) -> dict[str, Path]:
    spec = spec_of(**SOURCES, **OTHERS)
    return {name: VolumePaths(spec, root).path(name) for name in (*SOURCES, *OTHERS)}


@mounting
def test_secrets_of_all_pods_share_a_tmpfs_that_outlives_the_process(root: Path, endpoint: str) -> None:
    assert memory.mount_shared(root, GIB, endpoint) == ""
    place = root / "memory"
    assert place.stat().st_mode & 0o777 == 0o700
    room = os.statvfs(place)
    assert room.f_blocks * room.f_frsize == GIB // memory.MACHINE_SHARE
    assert room.f_files == memory.INODES * room.f_blocks
    (place / "kept").touch()
    assert memory.mount_shared(root, GIB, endpoint) == ""
    assert (place / "kept").exists()
    assert {name for name, path in places(root).items() if path.is_relative_to(place)} == set(SOURCES)


@mounting
def test_volume_on_the_disk_stays_there(root: Path, endpoint: str) -> None:
    """Its pod was started by a release without the tmpfs, or while there was none."""
    before = places(root)
    before["secret"].mkdir(parents=True)
    memory.mount_shared(root, GIB, endpoint)
    after = places(root)
    assert after["secret"] == before["secret"]
    assert after["projected"] != before["projected"]


@mounting
def test_without_the_right_to_mount_secrets_are_on_the_disk(tmp_path: Path) -> None:
    script = "import sys, pathlib; from actors.podworker.pods.volumes.memory import mount_shared as mount; "
    script += "print(mount(pathlib.Path(sys.argv[1]), 1 << 30, 'unix:///none'))"
    command = ["setpriv", "--bounding-set", "-sys_admin", sys.executable, "-c", script, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"no tmpfs can be mounted at {tmp_path}/memory: operation not permitted\n"
    assert not any(path.is_relative_to(tmp_path / "memory") for path in places(tmp_path).values())


@mounting
def test_runtime_in_another_mount_namespace_finds_secrets_on_the_disk(root: Path) -> None:
    """It would make an empty directory where the mount is, and its containers would lack their secrets."""
    path = str(root / "other.sock")
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", LISTENING, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runtime:
        assert runtime.stdout is not None
        runtime.stdout.readline()
        linux.mount("tmpfs", _made(root / "memory"), 0, "tmpfs", "size=1m")
        assert "does not see" in memory.mount_shared(root, GIB, f"unix://{path}")
        assert not (root / "memory").is_mount(), "one of an earlier runtime goes, too"
        assert "does not see" in memory.mount_shared(root, GIB, f"unix://{path}")
        assert not (root / "memory").is_mount()
        runtime.kill()


@mounting
def test_runtime_that_cannot_be_asked_leaves_the_mount_as_it_was(root: Path, endpoint: str) -> None:
    assert "does not see" in memory.mount_shared(root, GIB, f"unix://{root}/none.sock")
    assert not (root / "memory").is_mount()
    memory.mount_shared(root, GIB, endpoint)
    assert memory.mount_shared(root, GIB, f"unix://{root}/none.sock") == ""
    assert (root / "memory").is_mount()


@mounting
async def test_files_of_a_pod_are_in_memory_and_go_with_it(root: Path, endpoint: str) -> None:
    memory.mount_shared(root, GIB, endpoint)
    fake, spec = FakeDependencies(root), spec_of(secret={"secretName": "s"})
    fake.objects.items[SECRET, "s"] = {"metadata": {"resourceVersion": "1"}, "data": {"k": "eA=="}}
    await Volumes(fake.deps, lambda: spec).prepare(fake.deps.node_fields())
    assert (root / "memory" / spec.uid / "secret" / "secret" / "k").read_text() == "x"
    assert not [path for path in (root / "pods").rglob("*") if path.is_file()]
    assert [uid for uid, _, _ in pods_with_directories(fake.deps.node_info)] == [spec.uid], "an orphan would be found"
    remove_directories(fake.deps.node_info, spec)
    assert list((root / "memory").iterdir()) == []


@mounting
async def test_pod_takes_no_more_than_its_share(root: Path, endpoint: str) -> None:
    """Each volume fits, both together do not; and what was written before stays as it is."""
    memory.mount_shared(root, 0, endpoint)
    share = memory.LEAST // memory.POD_SHARE
    spec = read_pod(pod(container("a"), volumes=[{"name": n, "secret": {"secretName": n}} for n in ("s", "t")]))
    fake = FakeDependencies(root)
    for name in ("s", "t"):
        keys = {f"k{number}": "" for number in range(share * 2 // 3 // memory.PAGE)}
        fake.objects.items[SECRET, name] = {"metadata": {"resourceVersion": "1"}, "data": keys}
    with pytest.raises(VolumeNotReady, match=r'"t" : secrets of the pod take more than 2 MiB of memory'):
        await Volumes(fake.deps, lambda: spec).prepare(fake.deps.node_fields())
    assert len(list((root / "memory" / spec.uid / "secret" / "s").glob("k*"))) == len(keys)


@mounting
def test_large_volumes_leave_room_for_small_ones(root: Path, endpoint: str) -> None:
    memory.mount_shared(root, 0, endpoint)
    small, large = memory.SMALL, memory.SMALL + 1
    memory.check_room(root, large, large)
    (root / "memory" / "others").write_bytes(bytes(memory.LEAST * 3 // 4))
    with pytest.raises(VolumeNotReady, match="secrets of other pods leave too little"):
        memory.check_room(root, large, large)
    memory.check_room(root, small, large)


@mounting
def test_full_tmpfs_does_not_stop_volumes_that_did_not_change(root: Path, endpoint: str) -> None:
    """A podworker that starts again compares all of them."""
    memory.mount_shared(root, 0, endpoint)
    files, volume = {"k": File(bytes(memory.SMALL), 0o644)}, root / "memory" / "uid" / "secret" / "s"
    check = partial(memory.check_room, root, memory.footprint(files), memory.footprint(files))
    atomic.write(volume, files, check=check)
    (root / "memory" / "others").write_bytes(bytes(memory.LEAST * 3 // 4))
    assert not atomic.write(volume, files, check=check)
    with pytest.raises(VolumeNotReady):
        atomic.write(volume, {"k": File(bytes(memory.SMALL + 1), 0o644)}, check=check)
    assert (volume / "k").stat().st_size == memory.SMALL


@pytest.mark.parametrize(
    ("files", "pages"),
    [({}, 0), ({"a": b""}, 1), ({"a": b"x"}, 2), ({"a": bytes(4097)}, 3), ({"a/b/c": b"x", "d": b"x"}, 6)],
)
def test_footprint_has_whole_pages_and_every_name(files: dict[str, bytes], pages: int) -> None:
    payload = {path: File(data, 0o644) for path, data in files.items()}
    assert memory.footprint(payload) == pages * memory.PAGE


def _made(path: Path) -> Path:
    path.mkdir()
    return path
