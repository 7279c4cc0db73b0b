"""Paths below a directory that somebody else changes: never out of it, whatever is exchanged when."""

import contextlib
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.podworker.model.errors import ContainerConfigInvalid
from actors.podworker.pods.volumes import bind_mounts as mounts
from actors.podworker.pods.volumes import sub_path
from actors.runtime.spec.isolation import namespaces_allowed
from protocols.process.beneath import MOST_DEPTH, PLAIN, LeadsOut, Walk, open_beneath, parent_beneath, proc_path
from protocols.process.mountinfo import mounts_below
from tests.support.exchanging import exchanging, tries

TRIES = 300


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with a file, a directory and links out of it."""
    volume = tmp_path / "volume"
    (volume / "d" / "sub").mkdir(parents=True)
    (volume / "d" / "file").write_text("mine")
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("the host's")
    return volume


def found(volume: Path, path: str, walk: Walk = PLAIN) -> str:
    """The real path of what is opened."""
    top = os.open(volume, os.O_PATH | os.O_DIRECTORY)
    try:
        descriptor = open_beneath(top, path, walk)
    finally:
        os.close(top)
    try:
        return os.path.relpath(os.readlink(proc_path(descriptor)), os.path.realpath(volume))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("path", "real"), [("", "."), ("d", "d"), ("d/../d/./sub", "d/sub"), ("l/file", "d/file"), ("up/d/file", "d/file")]
)
def test_open_beneath_follows_what_stays(volume: Path, path: str, real: str) -> None:
    (volume / "l").symlink_to("d/sub/..")
    (volume / "up").symlink_to("d/..")
    assert found(volume, path) == real


@pytest.mark.parametrize("path", ["..", "d/../..", "/etc", "abs", "abs/passwd", "rel", "rel/file", "chain/file"])
def test_open_beneath_what_leads_out_is_an_error_or_stays_in_the_root(volume: Path, path: str) -> None:
    (volume / "abs").symlink_to("/etc")
    (volume / "rel").symlink_to("../host")
    (volume / "chain").symlink_to("d/../rel")
    with pytest.raises(LeadsOut):
        found(volume, path)
    with contextlib.suppress(FileNotFoundError):
        assert not found(volume, path, Walk(in_root=True)).startswith("..")


def test_open_beneath_makes_directories_where_links_lead(volume: Path) -> None:
    (volume / "l").symlink_to("/new/place")
    with pytest.raises(FileNotFoundError):
        found(volume, "l/x", Walk(in_root=True))
    assert found(volume, "l/x", Walk(in_root=True, make=0o770)) == "new/place/x"
    assert stat.S_IMODE((volume / "new" / "place" / "x").stat().st_mode) == 0o770
    assert found(volume, "l/y/f", Walk(in_root=True, make=0o755, file=True)) == "new/place/y/f"
    assert (volume / "new" / "place" / "y" / "f").is_file()


def test_open_beneath_loops_and_depths_end(volume: Path) -> None:
    (volume / "a").symlink_to("b")
    (volume / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        found(volume, "a")
    with pytest.raises(OSError, match="directories deep"):
        found(volume, "x/" * (MOST_DEPTH + 1), Walk(make=0o755))
    with pytest.raises(NotADirectoryError):
        found(volume, "d/file/x")


@pytest.mark.parametrize("path", ["", ".", "d/..", "/", "d/."])
def test_parent_beneath_needs_a_name(volume: Path, path: str) -> None:
    top = os.open(volume, os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(LeadsOut):
            parent_beneath(top, path)
    finally:
        os.close(top)


def test_no_descriptor_is_left(volume: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("d/sub", "absent", "..", "d/file/x", "d/" * 3):
        with contextlib.suppress(LeadsOut, OSError):
            found(volume, path)
    assert len(os.listdir("/proc/self/fd")) == before


PARTS = st.lists(st.sampled_from(["a", "b", "..", ".", "", "out", "in"]), max_size=6).map("/".join)


@given(st.lists(st.tuples(st.sampled_from("ab"), PARTS), max_size=4), PARTS)
def test_whatever_the_links_nothing_outside_is_opened(links: list[tuple[str, str]], path: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        volume = Path(directory) / "volume"
        volume.mkdir()
        (volume / "out").symlink_to("../..")
        (volume / "in").mkdir()
        for name, target in links:
            with contextlib.suppress(OSError):
                os.symlink(target or ".", volume / "in" / name)
                os.symlink(target or ".", volume / name)
        for walk in (Walk(), Walk(in_root=True), Walk(in_root=True, make=0o755)):
            with contextlib.suppress(LeadsOut, OSError):
                assert not found(volume, path, walk).startswith("..")
        assert os.listdir(directory) == ["volume"], "nothing is made outside"


# a race


def test_open_beneath_a_directory_exchanged_with_a_link_is_never_the_links_target(volume: Path) -> None:
    (volume / "l").symlink_to("../host")
    opened: list[str] = []
    with exchanging(volume / "d", volume / "l"):
        for _ in tries(TRIES, lambda: opened):
            with contextlib.suppress(LeadsOut, OSError):
                opened.append(found(volume, "d/file"))
            with contextlib.suppress(LeadsOut, OSError):
                found(volume, "d/made/here", Walk(make=0o755))
    assert opened
    assert set(opened) <= {"d/file", "l/file"}  # a moved directory shows its name of now
    assert os.listdir(volume.parent / "host") == ["file"]


def wanted(volume: Path, part: str, writable: bool = True) -> sub_path.SubPath:
    place = sub_path.place_of(volume.parent, "uid", "v", "main", 0)
    return sub_path.SubPath(volume=volume, part=part, place=place, writable=writable)


@pytest.mark.skipif(not namespaces_allowed(), reason="needs root with CAP_SYS_ADMIN: mounts")
def test_sub_path_exchanged_between_check_and_mount_shows_no_file_of_the_host(volume: Path) -> None:
    (volume / "l").symlink_to("../host")
    (volume / "d" / "sub" / "file").write_text("mine")
    seen: set[str] = set()
    try:
        with exchanging(volume / "d", volume / "l"):
            for number in tries(TRIES, lambda: seen):
                with contextlib.suppress(ContainerConfigInvalid):
                    place = sub_path.bind(wanted(volume, "d" if number % 2 else "d/sub"))
                    seen.add((place / "file").read_text())
                with contextlib.suppress(ContainerConfigInvalid):
                    sub_path.bind(wanted(volume, "d/made"))
        assert seen == {"mine"}
        assert os.listdir(volume.parent / "host") == ["file"]
        assert len(mounts_below(volume.parent)) == 1, "each replaces the one before"
    finally:
        assert mounts.detach_below(volume.parent) == []


@pytest.mark.skipif(not namespaces_allowed(), reason="needs root with CAP_SYS_ADMIN: mounts")
def test_sub_path_is_made_as_the_volume_is_and_bound_as_a_file_or_a_directory(volume: Path) -> None:
    volume.chmod(0o2777)
    try:
        assert sub_path.bind(wanted(volume, "new/dir")).is_dir()
        assert stat.S_IMODE((volume / "new" / "dir").stat().st_mode) == 0o2777
        assert sub_path.bind(wanted(volume, "d/file")).read_text() == "mine"
        assert (sub_path.bind(wanted(volume, "d")) / "file").read_text() == "mine"
    finally:
        assert mounts.detach_below(volume.parent) == []


def test_sub_path_outside_or_absent_is_an_error(volume: Path) -> None:
    (volume / "link").symlink_to("/etc")
    with pytest.raises(ContainerConfigInvalid, match="leads out"):
        sub_path.bind(wanted(volume, "link/passwd"))
    with pytest.raises(ContainerConfigInvalid, match="does not exist"):
        sub_path.bind(wanted(volume, "absent", writable=False))
    with pytest.raises(ContainerConfigInvalid, match="not a directory"):
        sub_path.bind(wanted(volume, "d/file/x"))
