"""Directories that others can write or replace are refused, with their name and the mend; all others are used."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.process.layout import Layout, layout
from supervisor.base.errors import DirectoryNotTrusted, RootUnusable
from supervisor.root.directories import check_directory, make_directories, path_steps

STRANGER = 4242
"""A user and a group that nobody has."""


@pytest.fixture
def place() -> Iterator[Path]:
    """Below /tmp, which is everybody's and sticky."""
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def where(place: Path) -> Layout:
    """The layout of a root whose directories exist."""
    made = layout(str(place / "root"))
    make_directories(made)
    for path in (made.pki, made.etcd_ca.parent, made.root / "pods", made.cdi):
        path.mkdir(mode=0o700)
    (made.pki / "ca.key").touch(mode=0o600)
    make_directories(made)
    return made


SECRET = ("", "run", "pki", "pki/etcd", "store", "runtime", "devices", "logs", "pods", "cdi", "kubelet")


@pytest.mark.parametrize("name", SECRET)
@pytest.mark.parametrize("mode", [0o777, 0o702, 0o1777])
def test_directory_writable_by_others_is_refused(where: Layout, name: str, mode: int) -> None:
    (where.root / name).chmod(mode)
    with pytest.raises(DirectoryNotTrusted) as refused:
        make_directories(where)
    path = where.root / name
    assert str(refused.value).startswith(f"{path} can be written by others (mode {mode:04o})")
    assert f"`chmod go-w {path}`" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, RootUnusable)


def test_file_that_another_group_renames_meanwhile_is_no_error(where: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of one plane start side by side, and each writes certificates by temporary files."""
    gone = where.pki / ".admin.crt.1.tmp"
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: [*listed(path), gone] if path == where.pki else listed(path))
    make_directories(where)


@pytest.mark.root
@pytest.mark.parametrize("name", [*SECRET, "pki/ca.key"])
def test_directory_of_other_user_is_refused(where: Layout, name: str) -> None:
    os.chown(where.root / name, STRANGER, 0)
    with pytest.raises(DirectoryNotTrusted, match=rf"{where.root / name} belongs to {STRANGER}.*`chown root "):
        make_directories(where)


@pytest.mark.root
def test_directory_writable_by_group_of_others_is_refused(where: Layout) -> None:
    where.pki.chmod(0o770)
    make_directories(where)  # root's group, which is root's alone
    os.chown(where.pki, 0, STRANGER)
    with pytest.raises(DirectoryNotTrusted, match=r"mode 0770"):
        make_directories(where)


@pytest.mark.root
def test_file_in_place_of_root_is_named_without_advice_on_modes() -> None:
    with pytest.raises(RootUnusable, match="/dev/null is no directory; use another one"):
        make_directories(layout("/dev/null"))


def test_parent_sticky_may_be_everybodys(place: Path) -> None:
    parent = place / "parent"
    parent.mkdir()
    made = layout(str(parent / "root"))
    parent.chmod(0o1777)
    make_directories(made)
    for owner, mode in ((0, 0o777), (STRANGER, 0o755)):
        os.chown(parent, owner, 0)
        parent.chmod(mode)
        with pytest.raises(DirectoryNotTrusted, match=str(parent)):
            make_directories(made)


@pytest.mark.root
def test_link_of_other_user_is_refused(place: Path) -> None:
    target, link = place / "target", place / "link"
    target.mkdir(mode=0o700)
    link.symlink_to("target")
    make_directories(layout(str(link)))
    os.lchown(link, STRANGER, STRANGER)
    with pytest.raises(DirectoryNotTrusted, match=f"{link} belongs to"):
        make_directories(layout(str(link)))


def test_link_to_writable_directory_is_refused(place: Path) -> None:
    (place / "open").mkdir()
    (place / "open").chmod(0o777)
    (place / "link").symlink_to(place / "open")
    with pytest.raises(DirectoryNotTrusted, match=f"{place}/open can be written"):
        make_directories(layout(str(place / "link")))
    assert list((place / "open").iterdir()) == []


def test_links_in_a_circle_are_refused(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    with pytest.raises(DirectoryNotTrusted, match="more than 40 symbolic links"):
        check_directory(place / "a")


def test_path_with_links_and_dots_is_followed(place: Path) -> None:
    (place / "d" / "e").mkdir(parents=True)
    (place / "d" / "up").symlink_to("../d/e")
    assert [step.path for step in path_steps(place / "d" / "up" / "new")][-4:] == [
        place / "d",
        place / "d" / "up",
        place / "d",
        place / "d" / "e",
    ]


def test_run_directory_readable_by_others_is_closed(where: Layout) -> None:
    where.run.chmod(0o755)
    make_directories(where)
    assert where.run.stat().st_mode & 0o777 == 0o700


@pytest.mark.root
def test_kubelet_directory_of_real_kubelet_is_used(place: Path) -> None:
    kubelet = place / "kubelet"
    kubelet.mkdir(mode=0o755)
    (kubelet / "manifests").mkdir(mode=0o755)
    make_directories(layout(str(place / "root"), str(kubelet)))


@pytest.mark.root
def test_directories_of_root_for_other_user_are_used(place: Path) -> None:
    """Parents that are root's are as good as one's own; a root directory that is root's is not."""
    place.chmod(0o755)
    home, roots = place / "home", place / "roots"
    for path in (home, roots):
        path.mkdir(mode=0o755)
    os.chown(home, STRANGER, STRANGER)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            make_directories(layout(str(home / "root")))
            try:
                make_directories(layout(str(roots)))
            except DirectoryNotTrusted as refused:
                code = 0 if f"{roots} belongs to root" in str(refused) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
