"""Sources and mount points of the embedded runtime on the host."""

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from actors.runtime.model.containers import Container
from actors.runtime.model.errors import HostPathAway, InvalidRequest
from actors.runtime.operations import host_paths
from actors.runtime.operations.host_paths import MountPoints, make_sources
from protocols.wire import cri_pb2 as pb


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounts are allowed, whoever runs the tests: nothing is mounted here."""
    monkeypatch.setattr(host_paths, "namespaces_allowed", lambda: True)


def container(*targets: Path, image: object = None) -> Container:
    mounts = [pb.Mount(container_path=str(target), host_path="/source") for target in targets]
    made = SimpleNamespace(config=pb.ContainerConfig(mounts=mounts), image=image, hollow=None)
    return cast(Container, made)


def start(points: MountPoints, made: Container) -> None:
    """Claim the mount points and make them, as the shim does."""
    points.claim(made)
    for mount in made.config.mounts:
        Path(mount.container_path).mkdir(parents=True, exist_ok=True)


def test_mount_point_goes_with_its_last_container(tmp_path: Path) -> None:
    top = tmp_path / "run" / "secrets"
    first, second = container(top / "a"), container(top / "a", top / "b")
    points = MountPoints(tmp_path)
    start(points, first)
    start(points, second)
    points.release(first)
    assert (top / "a").is_dir()
    points.release(second)
    assert not (tmp_path / "run").exists()


def test_mount_point_of_others_or_with_content_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    made = container(tmp_path / "theirs" / "a" / "b")
    points = MountPoints(tmp_path)
    start(points, made)
    (tmp_path / "theirs" / "a" / "file").write_text("x")
    points.release(made)
    assert (tmp_path / "theirs" / "a" / "file").exists()
    assert not (tmp_path / "theirs" / "a" / "b").exists()


def test_mount_points_survive_a_restart_and_end_with_the_plane(tmp_path: Path) -> None:
    made = container(tmp_path / "x" / "y")
    start(MountPoints(tmp_path), made)
    again = MountPoints(tmp_path)
    again.claim(made)
    again.sweep()
    assert (tmp_path / "x" / "y").is_dir()
    other = container(tmp_path / "x" / "z")
    start(again, other)
    again.release(other)
    assert (tmp_path / "x" / "y").is_dir()
    again.clear()
    assert not (tmp_path / "x").exists()


def test_mount_points_of_a_removal_that_was_cut_short_go_at_the_next_start(tmp_path: Path) -> None:
    start(MountPoints(tmp_path), container(tmp_path / "x" / "y"))
    MountPoints(tmp_path).sweep()
    assert not (tmp_path / "x").exists()


def test_mount_points_are_forgotten_with_a_damaged_record(tmp_path: Path) -> None:
    start(MountPoints(tmp_path), container(tmp_path / "x"))
    [record] = tmp_path.glob("*.json")
    record.write_bytes(b'["\xff"]')
    MountPoints(tmp_path).clear()
    assert (tmp_path / "x").is_dir()


def test_mount_point_in_use_by_another_runtime_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = container(tmp_path / "x" / "y")
    points = MountPoints(tmp_path)
    start(points, made)
    with monkeypatch.context() as patched:
        patched.setattr(host_paths, "mount_points", lambda: {str(tmp_path / "x" / "y")})
        points.release(made)
    assert (tmp_path / "x" / "y").is_dir()
    points.clear()
    assert not (tmp_path / "x").exists(), "it is still recorded"


def test_mount_points_of_this_machine_are_found() -> None:
    assert {"/", "/proc"} <= host_paths.mount_points()


def test_mount_points_of_an_image_are_not_the_hosts(tmp_path: Path) -> None:
    points = MountPoints(tmp_path)
    points.claim(container(tmp_path / "x", image=object()))
    assert not (tmp_path / host_paths.FILE).exists()


def test_source_missing_is_made_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    paths = [tmp_path / "new" / "deep", tmp_path / "file"]
    make_sources([pb.Mount(container_path="/m", host_path=str(path)) for path in paths])
    assert paths[0].is_dir()
    assert paths[0].stat().st_mode & 0o777 == 0o755
    with pytest.raises(InvalidRequest, match=r'mount "/m": host path ".*/file/below": not a directory'):
        make_sources([pb.Mount(container_path="/m", host_path=str(tmp_path / "file" / "below"))])


async def test_host_path_that_does_not_answer_fails_its_container_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, exists = threading.Event(), os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: back.wait() if str(path).startswith("/nfs") else exists(path))
    monkeypatch.setattr(host_paths, "SOURCES_S", 0.05)
    try:
        for _ in range(2):
            with pytest.raises(HostPathAway, match=r"do not answer within 0.05 s; is a file server away\? /nfs/a"):
                await host_paths.ready_sources([pb.Mount(container_path="/m", host_path="/nfs/a")])
        monkeypatch.setattr(host_paths, "SOURCES_S", 60.0)
        await host_paths.ready_sources([pb.Mount(container_path="/m", host_path=str(tmp_path / "d"))])
        assert (tmp_path / "d").is_dir()
    finally:
        back.set()
