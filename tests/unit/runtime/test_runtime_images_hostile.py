"""Images made to reach the host or to fill it. Whatever a layer holds, nothing outside of its directory changes."""

import contextlib
import gzip
import io
import json
import os
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.runtime.images.bounded_tar import UNREADABLE, BoundedFile, Bounds, ImageBudget, TarReader
from actors.runtime.images.layers import LayerUnpacker
from actors.runtime.images.store import ImageStore
from actors.runtime.model.containers import Image, ImageConfig
from actors.runtime.model.errors import ImageTooLarge, ImageUnusable, InvalidRequest
from actors.runtime.spec.users import user_of
from protocols.wire import cri_pb2 as pb
from tests.support.images import _written, entry, layer

MIB = 1 << 20
SMALL = Bounds(size=8 * MIB, entries=100, layers=4, ratio=20, ratio_from=MIB, header=64 * 1024, members=50)
LINK, HARD, FOLDER = (dict[str, Any](type=kind) for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE))
Layer = list[tuple[tarfile.TarInfo, bytes]]


def lay(root: Path, entries: Layer, bounds: Bounds | None = None) -> None:
    lay_bytes(root, layer(entries), bounds)


def lay_bytes(root: Path, data: bytes, bounds: Bounds | None = None) -> None:
    root.mkdir(exist_ok=True)
    budget = ImageBudget(bounds or SMALL)
    unpacked = LayerUnpacker(root, budget)
    try:
        unpacked.apply(TarReader(BoundedFile(io.BytesIO(data), budget)))
    finally:
        unpacked.close()


def tree(top: Path) -> dict[str, Any]:
    """Everything of a directory that an attack could change; its own name is `.`."""
    found = {}
    for directory, folders, files in os.walk(top):
        for name in [".", *folders, *files]:
            path = Path(directory) / name
            seen = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(seen.st_mode) else b""
            found[str(path)] = (seen.st_mode, seen.st_uid, seen.st_gid, seen.st_nlink, seen.st_ino, content)
    return found


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host's file system for images."""
    return make_host(tmp_path)


def make_host(top: Path) -> Path:
    """A directory that stands for the host; the image is laid into `host/images/x/root`."""
    host = top / "host"
    (host / "images" / "x").mkdir(parents=True)
    (host / "closed").mkdir(mode=0o700)
    (host / "closed" / "victim").write_text("whole")
    (host / "closed" / "victim").chmod(0o600)
    (host / "victim").write_text("whole")
    return host


@contextlib.contextmanager
def untouched(host: Path) -> Iterator[None]:
    before = outside(host)
    yield
    assert outside(host) == before


def outside(host: Path) -> dict[str, Any]:
    inside = str(host / "images" / "x" / "root")
    # the directory that holds the root gets a link and an entry by it
    skipped = {f"{host}/images/x/.", f"{host}/images/x"}
    return {name: seen for name, seen in tree(host).items() if not name.startswith(inside) and name not in skipped}


UP = "../../../closed"
ATTACKS: dict[str, Layer] = {
    "chmod through a link that took a directory's place": [
        entry("d/", mode=0o777, **FOLDER),
        entry("d", linkname=UP, **LINK),
    ],
    "chmod through a link above": [
        entry("d/e/", mode=0o777, **FOLDER),
        entry(".wh.d"),
        entry("d", linkname="../../..", **LINK),
        entry("d/closed/", mode=0o777, uid=7, **FOLDER),
    ],
    "absolute link": [entry("d", linkname="{host}/closed", **LINK), entry("d/new", b"x"), entry("d/sub/", **FOLDER)],
    "write through a link in the last place": [entry("f", linkname="../../../victim", **LINK), entry("f", b"mine")],
    "directory over a link": [entry("d", linkname=UP, **LINK), entry("d/", mode=0o777, **FOLDER)],
    "chain of links": [
        entry("a", linkname="..", **LINK),
        entry("b", linkname="a/..", **LINK),
        entry("c", linkname="b/../closed", **LINK),
        entry("c/victim", b"mine", uid=7),
    ],
    "whiteout through a link": [entry("d", linkname=UP, **LINK), entry("d/.wh.victim")],
    "opaque whiteout through a link": [entry("d", linkname=UP, **LINK), entry("d/.wh..wh..opq")],
    "opaque whiteout of the link itself": [entry("d", linkname=UP, **LINK), entry("d/.wh..wh..opq"), entry(".wh.d")],
    "fifo through a link": [entry("d", linkname=UP, **LINK), entry("d/p", type=tarfile.FIFOTYPE, mode=0o666)],
    "absolute names": [entry("/victim", b"mine"), entry("//closed/victim", b"mine", mode=0o777)],
    "loop of links": [entry("a", linkname="b", **LINK), entry("b", linkname="a", **LINK), entry("a/x", b"1")],
    "link to itself, then below": [entry("a", linkname=".", **LINK), entry("a/a/a/x", b"1"), entry("a/.wh.a")],
    "hard link through a link": [
        entry("d", linkname=UP, **LINK),
        entry("h", linkname="d/victim", **HARD),
        entry("h", b"mine"),
    ],
    "hard link to a link": [entry("l", linkname="../../../victim", **LINK), entry("h", linkname="l", **HARD)],
    "hard link upwards": [entry("h", linkname="../../../victim", **HARD)],
    "hard link by an absolute name": [entry("h", linkname="{host}/victim", **HARD)],
    "name with dots": [entry("../../../victim", b"mine")],
    "name with dots inside": [entry("a/../../../../victim", b"mine")],
    "whiteout of the directory": [entry(".wh..")],
    "whiteout of the directory above": [entry("a/", **FOLDER), entry("a/.wh...")],
    "whiteout of nothing": [entry(".wh.")],
}


def played(host: Path, entries: Layer) -> list[Layer]:
    """As one layer, and each entry in a layer of its own."""
    for member, _ in entries:
        member.linkname = member.linkname.format(host=host)
    return [entries, *([item] for item in entries)] if entries else []


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_entry_reaches_the_host(host: Path, attack: str) -> None:
    root = host / "images" / "x" / "root"
    with untouched(host):
        for entries in played(host, ATTACKS[attack]):
            with contextlib.suppress(ImageUnusable, OSError):
                lay(root, entries)


@pytest.mark.parametrize("name", [".wh..", ".wh...", "a/.wh..", "a/.wh...", ".wh.", "..", "../x", "a/..", "a/../../x"])
def test_names_that_mean_no_entry_are_errors(host: Path, name: str) -> None:
    root = host / "images" / "x" / "root"
    lay(root, [entry("a/", **FOLDER), entry("a/kept", b"1")])
    with pytest.raises(ImageUnusable):
        lay(root, [entry(name)])
    assert (root / "a" / "kept").exists()


def test_reserved_whiteouts_mean_nothing(host: Path) -> None:
    root = host / "images" / "x" / "root"
    lay(root, [entry("kept", b"1"), entry(".wh..wh.plnk"), entry(".wh..wh.aufs")])
    assert [path.name for path in root.iterdir()] == ["kept"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: owners")
def test_what_an_image_may_have_it_keeps(host: Path) -> None:
    """Set-user-ID programs, sticky directories, owners, absolute links; entries below a link to a directory."""
    root = host / "images" / "x" / "root"
    lay(
        root,
        [
            entry("usr/lib/", **FOLDER),
            entry("lib", linkname="usr/lib", **LINK),
            entry("etc", linkname="/usr/lib", **LINK),
            entry("lib/a.so", b"1"),
            entry("etc/b", b"2"),
            entry("bin/su", b"3", mode=0o4755, uid=0),
            entry("bin/again", linkname="bin/su", **HARD),
            entry("tmp/", mode=0o1777, **FOLDER),
            entry("home/box/", mode=0o700, uid=1234, gid=5678, **FOLDER),
        ],
    )
    assert sorted(path.name for path in (root / "usr" / "lib").iterdir()) == ["a.so", "b"]
    assert os.readlink(root / "etc") == "/usr/lib"
    assert stat.S_IMODE((root / "bin" / "su").stat().st_mode) == 0o4755
    assert (root / "bin" / "again").samefile(root / "bin" / "su")
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777
    home = (root / "home" / "box").stat()
    assert (stat.S_IMODE(home.st_mode), home.st_uid, home.st_gid) == (0o700, 1234, 5678)


def test_devices_are_left_out(host: Path) -> None:
    root = host / "images" / "x" / "root"
    kinds = {"disk": tarfile.BLKTYPE, "mem": tarfile.CHRTYPE}
    lay(root, [entry(name, type=kind, devmajor=1, devminor=1, mode=0o666) for name, kind in kinds.items()])
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("number", [-1, 2**32 - 1, 2**40])
def test_owners_that_cannot_be_are_errors(host: Path, number: int) -> None:
    if os.geteuid() == 0:
        with pytest.raises(ImageUnusable, match="user or group"):
            lay(host / "images" / "x" / "root", [entry("f", uid=number)])


# bombs


def archive(path: Path, layers: list[bytes], names: int = 1) -> Path:
    files = {f"l{number}": data for number, data in enumerate(layers)}
    manifest = [{"Config": "c", "RepoTags": ["bomb:1"], "Layers": list(files) * names}]
    return _written(path, {**files, "c": b"{}", "manifest.json": json.dumps(manifest).encode()})


def deep(count: int) -> bytes:
    return layer([entry("d/" * count, **FOLDER)])


def chained_headers() -> bytes:
    """Long names of long names: tarfile recurses for each."""
    block = layer([entry("x" * 200)])[:1024]
    return block * 5000


def huge_header(kind: bytes, size: int) -> bytes:
    member = tarfile.TarInfo("pax")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(size)


def shared_headers() -> bytes:
    out = io.BytesIO()
    for number in range(8):
        headers = {f"k{number}": "v" * 30_000}
        out.write(tarfile.TarInfo.create_pax_global_header(headers))
        out.write(layer([entry(f"f{number}")])[:512])
    return out.getvalue() + bytes(1024)


def claims(size: int) -> bytes:
    member = tarfile.TarInfo("big")
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(10240)


def many(count: int) -> bytes:
    return layer([entry(f"f{number}") for number in range(count)])


BOMBS: dict[str, tuple[Callable[[], bytes], int]] = {
    "more bytes than allowed": (lambda: layer([entry("a", bytes(5 * MIB)), entry("b", bytes(5 * MIB))]), 1),
    "more bytes than allowed, over layers": (lambda: layer([entry("a", bytes(3 * MIB))]), 3),
    "a file that claims a terabyte": (lambda: claims(1 << 40), 1),
    "more entries than allowed": (lambda: many(101), 1),
    "more entries than allowed, over layers": (lambda: many(40), 3),
    "more layers than allowed": (lambda: many(1), 5),
    "a layer that unpacks to over 20 times itself": (
        lambda: gzip.compress(layer([entry("a", bytes(5 * MIB))]), 1),
        1,
    ),
    "a packed pax header of 50 MB": (lambda: gzip.compress(huge_header(tarfile.XHDTYPE, 50 * MIB), 1), 1),
    "a pax header of 1 MB": (lambda: huge_header(tarfile.XHDTYPE, MIB), 1),
    "a long name of 1 MB": (lambda: huge_header(tarfile.GNUTYPE_LONGNAME, MIB), 1),
    "headers of the whole file": (lambda: shared_headers(), 1),
    "a name of 5,000 bytes": (lambda: layer([entry("n" * 5000)]), 1),
    "a link of 5,000 bytes": (lambda: layer([entry("l", linkname="n" * 5000, **LINK)]), 1),
    "directories 1,000 deep": (lambda: deep(1000), 1),
    "headers of headers": (lambda: chained_headers(), 1),
    "a file of a negative size": (lambda: claims(-512), 1),
    "no gzip behind the magic": (lambda: b"\x1f\x8b" + bytes(100), 1),
    "a gzip that ends early": (lambda: gzip.compress(layer([entry("a", os.urandom(MIB))]))[:-5000], 1),
}
"""A layer, made when its test runs, and how many of them."""


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_ends_in_one_line_and_leaves_nothing(tmp_path: Path, bomb: str) -> None:
    kept = ImageStore(tmp_path / "images", bounds=SMALL)
    kept.load()
    made, times = BOMBS[bomb]
    with pytest.raises(ImageUnusable) as caught:
        kept.import_(archive(tmp_path / "bomb.tar", [made()], times), "")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "images").iterdir())


def test_a_packed_archive_is_a_bomb_as_well(tmp_path: Path) -> None:
    (tmp_path / "bomb.tar").write_bytes(gzip.compress(archive(tmp_path / "x", [bytes(6 * MIB)]).read_bytes()))
    kept = ImageStore(tmp_path / "images", bounds=SMALL)
    kept.load()
    with pytest.raises(ImageTooLarge, match="20 times"):
        kept.import_(tmp_path / "bomb.tar", "")
    assert not list((tmp_path / "images").iterdir())


def test_a_packed_archive_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(archive(tmp_path / "x", [many(3), many(2)]).read_bytes()))
    kept = ImageStore(tmp_path / "images")
    kept.load()
    root = Path(kept.import_(tmp_path / "a.tar.gz", "").root)
    assert sorted(path.name for path in root.iterdir()) == ["f0", "f1", "f2"]
    assert sorted(path.name for path in root.parent.iterdir()) == ["image.json", "root"]


def test_an_archive_of_very_many_files_is_an_error(tmp_path: Path) -> None:
    kept = ImageStore(tmp_path / "images", bounds=SMALL)
    kept.load()
    with pytest.raises(ImageTooLarge, match="more than 50 files"):
        kept.import_(archive(tmp_path / "a.tar", [b""] * 60), "")


def test_a_pipe_is_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    kept = ImageStore(tmp_path / "images")
    kept.load()
    with pytest.raises(ImageUnusable, match="is no file"):
        kept.import_(tmp_path / "pipe", "a")


@pytest.mark.parametrize(
    "manifest",
    [b"[" * 100_000, b"[[]]", b'[{"Layers": 5}]', b'[{"Config": []}]', b'[{"RepoTags": [{}], "Config": "c"}]'],
)
def test_a_manifest_of_another_shape_is_an_error(tmp_path: Path, manifest: bytes) -> None:
    for name in ("manifest.json", "index.json"):
        _written(tmp_path / "a.tar", {name: manifest, "c": b"{}"})
        kept = ImageStore(tmp_path / "images")
        kept.load()
        with pytest.raises((ImageUnusable, InvalidRequest)):
            kept.import_(tmp_path / "a.tar", "")


def test_users_are_read_of_the_image_alone(tmp_path: Path) -> None:
    """A link to the host's users, and a pipe that nobody writes to."""
    (tmp_path / "hosts-own").write_text("boss:x:1:1\n")
    (tmp_path / "root" / "etc").mkdir(parents=True)
    passwd, group = tmp_path / "root" / "etc" / "passwd", tmp_path / "root" / "etc" / "group"
    passwd.symlink_to(tmp_path / "hosts-own")
    os.mkfifo(group)
    for user in ("boss", "0:boss"):
        image = Image("sha256:0", ("x",), str(tmp_path / "root"), 1, ImageConfig(user=user))
        with pytest.raises(InvalidRequest, match="does not exist"):
            user_of(pb.LinuxContainerSecurityContext(), image)


PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:50:App:/home/app:/bin/sh\nbad:x:99999999999:1::/:\nshort:x:7\n"
GROUP = "staff:x:50:\nvideo:x:44:root,app\nbad:x:99999999999:app\n"
MANY = "".join(f"{number}:x:{number}:many\n" for number in range(1025))


@pytest.fixture
def users(tmp_path: Path) -> Callable[..., Any]:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text(PASSWD + "many:x:8:8::/:\n")
    (tmp_path / "etc" / "group").write_text(GROUP + MANY)
    image = Image("sha256:0", ("x",), str(tmp_path), 1, ImageConfig())
    return lambda user="", **context: user_of(
        pb.LinuxContainerSecurityContext(**context), msgspec.structs.replace(image, config=ImageConfig(user=user))
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="other users are for root only")
def test_user_has_the_groups_and_the_home_that_the_image_gives_it(users: Callable[..., Any]) -> None:
    assert users("app") == users(run_as_user={"value": 1000}) == (1000, 50, (50, 44), "/home/app")
    assert users("app", supplemental_groups_policy=pb.Strict, supplemental_groups=[9]).groups == (50, 9)
    assert users() == (0, 0, (0, 44), "/root")
    assert users("5:staff") == (5, 50, (50,), "/")


@pytest.mark.parametrize("user", ["bad", "short", "99999999999999999999", "9" * 5000, "0:9999999999", "0:bad", "many"])
def test_ids_that_no_status_can_hold_are_an_error(users: Callable[..., Any], user: str) -> None:
    with pytest.raises(InvalidRequest):
        users(user)


@pytest.mark.parametrize("field", ["run_as_user", "run_as_group"])
@pytest.mark.parametrize("number", [-1, 2**31])
def test_ids_of_a_request_are_checked(users: Callable[..., Any], field: str, number: int) -> None:
    with pytest.raises(InvalidRequest):
        users(**{field: {"value": number}})


# whatever the tar

NAMES = st.lists(
    st.sampled_from(["a", "b", "c", "..", ".", "", ".wh.a", ".wh..wh..opq", ".wh..", ".wh..."]), max_size=4
)
PATHS = st.tuples(st.sampled_from(["", "", "/"]), NAMES).map(lambda found: found[0] + "/".join(found[1]))
TARGETS = st.one_of(
    PATHS,
    st.sampled_from(
        ["../../../closed", "../../../victim", "{host}/closed", "{host}", "..", "../../..", "/", "a", "b/c"]
    ),
)
KINDS = [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
ENTRIES = st.lists(
    st.tuples(PATHS, st.sampled_from(KINDS), TARGETS, st.sampled_from([0o777, 0o4755, 0o755]), st.sampled_from([0, 7])),
    max_size=12,
)


@given(st.lists(ENTRIES, min_size=1, max_size=3))
def test_whatever_the_layers_nothing_outside_changes(layers: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        host = make_host(Path(directory))
        with untouched(host):
            for entries in layers:
                made = [
                    entry(name, b"mine", mode, type=kind, linkname=target.format(host=host), uid=uid)
                    for name, kind, target, mode, uid in entries
                ]
                with contextlib.suppress(ImageUnusable, OSError):
                    lay(host / "images" / "x" / "root", made)


@given(st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=20)), max_size=8), st.booleans())
def test_whatever_the_bytes_an_error_is_one_of_those_expected(patches: list[tuple[int, bytes]], packed: bool) -> None:
    data = bytearray(layer([entry("a", b"1" * 600), entry("n" * 150, b"2"), entry("l", linkname="a", **LINK)]))
    if packed:
        data = bytearray(zlib.compress(bytes(data), wbits=31))
    for at, bytes_ in patches:
        data[at % len(data) : at % len(data) + len(bytes_)] = bytes_
    with tempfile.TemporaryDirectory() as directory:
        host = make_host(Path(directory))
        with untouched(host), contextlib.suppress(ImageUnusable, OSError, *UNREADABLE):
            lay_bytes(host / "images" / "x" / "root", bytes(data))
