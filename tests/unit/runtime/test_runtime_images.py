"""Names, archives and layers of images; an image may hold anything, and must not reach out of its directory."""

import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from actors.runtime.images.bounded_tar import BoundedFile, Bounds, ImageBudget, TarReader
from actors.runtime.images.layers import LayerUnpacker
from actors.runtime.images.store import ImageStore, full_name, short_name
from actors.runtime.model.errors import ImageInUse, ImageUnusable, InvalidRequest, NotFound
from actors.runtime.model.pods import RuntimePods
from actors.runtime.rpc.image_service import ImageMethods
from protocols.wire import cri_pb2 as pb
from tests.support import images

pytestmark = pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed (busybox-static)")


def store(directory: Path) -> ImageStore:
    made = ImageStore(directory / "images")
    made.load()
    return made


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("team/app:v1", "docker.io/team/app:v1"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/a/b:x", "localhost:5000/a/b:x"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("busybox:1@sha256:0", "docker.io/library/busybox:1"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/team/app", "docker.io/team/app:latest"),
    ],
)
def test_names_in_full(text: str, full: str) -> None:
    assert full_name(text) == full
    assert full_name(short_name(full)) == full


@pytest.mark.parametrize("text", ["", "UPPER", "a b", "/a", "a:b:c/d", "a/:x", "../a"])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(InvalidRequest):
        full_name(text)


@pytest.mark.parametrize("write", [images.docker_archive, images.oci_archive])
def test_both_kinds_of_archive_give_the_same_files(tmp_path: Path, write: Any) -> None:
    made = store(tmp_path).import_(write(tmp_path / "box.tar", "box:1"), "")
    root = Path(made.root)
    assert made.names == ("docker.io/library/box:1",)
    assert (root / "etc" / "made-in").read_text() == "two layers\n"
    assert sorted(path.name for path in (root / "old").iterdir()) == ["stays"]
    assert os.readlink(root / "bin" / "sh") == "busybox"
    assert os.access(root / "bin" / "busybox", os.X_OK)
    assert made.config.entrypoint == ("/bin/sh", "-c")
    again = store(tmp_path)
    assert again.all() == [made]
    for wanted in ("box:1", "docker.io/library/box:1", made.id, made.id.removeprefix("sha256:")[:12]):
        assert again.find(wanted) == made
    assert again.find("box:2") is None


def test_alias_gives_an_image_the_names_that_charts_use(tmp_path: Path) -> None:
    kept = store(tmp_path)
    made = kept.import_(images.docker_archive(tmp_path / "a.tar", "box:1"), "team/app:v1", "ghcr.io/team/app:v1")
    assert made.names == ("docker.io/team/app:v1", "ghcr.io/team/app:v1")
    other = kept.import_(images.docker_archive(tmp_path / "b.tar", "x", {"Cmd": ["true"]}), "registry.k8s.io/dra:v2")
    assert kept.alias("team/app:v1", "registry.k8s.io/dra:v2", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0").id == made.id
    again = store(tmp_path)
    for name in ("registry.k8s.io/dra:v2", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0", "ghcr.io/team/app:v1"):
        found = again.find(name)
        assert found is not None
        assert found.id == made.id
    assert again.find(other.id) is not None, "an image without a name stays until it is removed"
    with pytest.raises(NotFound, match="was not imported"):
        kept.alias("nothing:1", "else")
    with pytest.raises(InvalidRequest):
        kept.alias("team/app:v1", "Not A Name")


def test_images_are_found_while_a_thread_changes_them(tmp_path: Path) -> None:
    images = store(tmp_path)
    (tmp_path / "one").mkdir()
    listed = iter(images._images)
    image = images.import_(tmp_path / "one", "one")
    assert list(listed) == []
    listed = iter(images._images)
    images.remove(image.id, set())
    assert list(listed) == [image.id]


def test_names_move_and_images_go_with_their_last_one(tmp_path: Path) -> None:
    kept = store(tmp_path)
    first = kept.import_(images.docker_archive(tmp_path / "a.tar", "box:1"), "")
    second = kept.import_(images.docker_archive(tmp_path / "b.tar", "x", {"Cmd": ["true"]}), "box:1")
    found = kept.find("box:1")
    assert found is not None
    assert found.id == second.id != first.id
    kept.import_(tmp_path / "b.tar", "other")
    kept.remove("box:1", {second.id})
    with pytest.raises(ImageInUse):
        kept.remove("other", {second.id})
    kept.remove("other", set())
    kept.remove(first.id, set())
    assert store(tmp_path).all() == []
    assert not list((tmp_path / "images").iterdir())
    with pytest.raises(NotFound):
        kept.remove("other", set())


def test_image_whose_record_is_no_utf8_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store(tmp_path).import_(images.docker_archive(tmp_path / "a.tar", "box:1"), "")
    [record] = (tmp_path / "images").glob("*/*.json")
    record.write_bytes(record.read_bytes().replace(b"box", b"b\xffx"))
    assert store(tmp_path).all() == []
    assert "image skipped" in caplog.text


@pytest.mark.parametrize("whole", ["", "sha256:"])
def test_removal_by_the_beginning_of_an_id_removes_the_image(tmp_path: Path, whole: str) -> None:
    kept = store(tmp_path)
    image = kept.import_(images.docker_archive(tmp_path / "a.tar", "box:1"), "box:1", "other")
    kept.remove(whole + image.id.removeprefix("sha256:")[:12], set())
    assert store(tmp_path).all() == []


def test_a_directory_is_used_in_place(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("x" * 10)
    kept = store(tmp_path)
    with pytest.raises(InvalidRequest, match="--name"):
        kept.import_(tmp_path / "tree", "")
    made = kept.import_(tmp_path / "tree", "tree")
    assert (made.root, made.size) == (str(tmp_path / "tree"), 10)
    kept.remove("tree", set())
    assert (tmp_path / "tree" / "file").exists()


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "neither index.json"),
        ({"manifest.json": b"[]"}, "configuration is missing"),
        ({"manifest.json": b"{"}, "no JSON"),
        ({"index.json": b'{"manifests": [{"digest": "sha256:1"}]}'}, "blobs/sha256/1 is missing"),
        ({"index.json": b'{"manifests": [{"platform": {"architecture": "s390x"}}]}'}, "no image for linux"),
        ({"manifest.json": b'[{"Config": "c", "RepoTags": ["a"], "Layers": ["l"]}]', "c": b"{}"}, "l is missing"),
        ({"manifest.json": b'[{"Config": "c", "RepoTags": ["a"], "Layers": ["c"]}]', "c": b"{}"}, "cannot be read"),
        ({"manifest.json": b'[{"Config": "c"}]', "c": b"{}"}, "--name"),
        ({"manifest.json": b'[{"Config": "c", "RepoTags": ["a"]}]', "c": b"[1]"}, "no JSON object"),
    ],
)
def test_archives_that_hold_no_image(tmp_path: Path, files: dict[str, bytes], says: str) -> None:
    images._written(tmp_path / "bad.tar", files)
    kept = store(tmp_path)
    with pytest.raises(ImageUnusable, match=says):
        kept.import_(tmp_path / "bad.tar", "")
    assert not list((tmp_path / "images").iterdir()), "nothing is left of it"


def test_what_is_no_archive_at_all(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path / "text", tmp_path / "absent"):
        with pytest.raises(ImageUnusable):
            store(tmp_path).import_(path, "a")


def lay(root: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> None:
    root.mkdir(exist_ok=True)
    budget = ImageBudget(Bounds())
    unpacked = LayerUnpacker(root, budget)
    try:
        unpacked.apply(TarReader(BoundedFile(io.BytesIO(images.layer(list(entries))), budget)))
    finally:
        unpacked.close()


def test_no_layer_leads_out_of_its_directory(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "victim").write_text("whole")
    root, link = tmp_path / "root", dict[str, Any](type=tarfile.SYMTYPE)
    lay(
        root,
        images.entry("up", linkname="../outside", **link),
        images.entry("far", linkname=str(tmp_path / "outside"), **link),
        images.entry("up/new", b"1"),
        images.entry("far/victim", b"2"),
        images.entry("far/.wh.victim"),
        images.entry("/absolute", b"3"),
        images.entry("loop", linkname="loop", **link),
    )
    assert (tmp_path / "outside" / "victim").read_text() == "whole"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["victim"]
    assert (root / "outside" / "new").read_bytes() == b"1"
    assert (root / "absolute").read_bytes() == b"3"
    for name in ("../x", "a/../../x"):
        with pytest.raises(ImageUnusable, match="leads out"):
            lay(root, images.entry(name, b"x"))
    with pytest.raises(ImageUnusable, match="no file of the image"):
        lay(root, images.entry("hard", type=tarfile.LNKTYPE, linkname="far"))


def test_later_layers_replace_and_empty(tmp_path: Path) -> None:
    root = tmp_path / "root"
    directory: dict[str, Any] = {"type": tarfile.DIRTYPE}
    lay(root, images.entry("a/", **directory), images.entry("a/one", b"1"), images.entry("b", b"file"))
    lay(root, images.entry("a/.wh..wh..opq"), images.entry("a/two", b"2"), images.entry("b/", mode=0o500, **directory))
    assert [path.name for path in (root / "a").iterdir()] == ["two"]
    assert (root / "b").is_dir()
    assert (root / "b").stat().st_mode & 0o777 == 0o500
    (root / "b").chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="capabilities of files are for root only")
def test_program_has_its_capabilities_and_no_other_attribute(tmp_path: Path) -> None:
    bind = b"\x01\0\0\x02\0\x04\0\0" + bytes(12)
    headers = {"SCHILY.xattr.security.capability": bind.decode(), "SCHILY.xattr.trusted.overlay.opaque": "y"}
    lay(tmp_path / "root", images.entry("serve", b"1", uid=5, pax_headers=headers), images.entry("plain", b"1"))
    names = {path.name: os.listxattr(path) for path in (tmp_path / "root").iterdir()}
    assert names == {"serve": ["security.capability"], "plain": []}
    assert os.getxattr(tmp_path / "root" / "serve", "security.capability") == bind


def test_whiteouts_hide_lower_layers_wherever_they_are_in_theirs(tmp_path: Path) -> None:
    root = tmp_path / "root"
    lower = ("a/old", "a/sub/old", "a/sub/deep/old", "b", "c/old", "d/old")
    lay(root, *(images.entry(name, b"1") for name in lower))
    lay(
        root,
        images.entry("a/new", b"2"),
        images.entry("a/sub/deep/new", b"2"),
        images.entry("a/.wh..wh..opq"),
        images.entry("b", b"2"),
        images.entry(".wh.b"),
        images.entry("c/new", b"2"),
        images.entry(".wh.c"),
        images.entry(".wh.d"),
    )
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert files == {"a/new": b"2", "a/sub/deep/new": b"2", "b": b"2", "c/new": b"2"}


def test_where_only_imported_images_exist(tmp_path: Path) -> None:
    made = ImageStore(tmp_path / "images", imported_only=True)
    made.load()
    made.import_(images.docker_archive(tmp_path / "a.tar"), "")
    known = ("box:1", "pause", "registry.k8s.io/pause:3.10", "hollow/x", "nginx")
    assert [made.exists(name) for name in known] == [True, True, True, True, False]


def test_layer_that_docker_save_wrote_before_is_a_link(tmp_path: Path) -> None:
    manifest = [{"Config": "c.json", "RepoTags": ["box:1"], "Layers": ["a/layer.tar", "b/layer.tar"]}]
    plain = {"manifest.json": json.dumps(manifest).encode(), "c.json": b'{"config": {}}', "a/layer.tar": images.top()}
    entries = [images.entry(name, data) for name, data in plain.items()]
    entries.append(images.entry("b/layer.tar", type=tarfile.SYMTYPE, linkname="../a/layer.tar"))
    (tmp_path / "box.tar").write_bytes(images.layer(entries))
    made = store(tmp_path).import_(tmp_path / "box.tar", "")
    assert (Path(made.root) / "etc" / "made-in").read_text() == "two layers\n"


async def test_user_that_is_no_number_of_64_bits_does_not_hide_the_images(tmp_path: Path) -> None:
    config = {**images.CONFIG, "User": "9" * 30}
    found = store(tmp_path)
    found.import_(images.docker_archive(tmp_path / "box.tar", config=config), "")
    listed = await ImageMethods(RuntimePods(), found, tmp_path).ListImages(pb.ListImagesRequest())
    assert [(image.username, image.HasField("uid")) for image in listed.images] == [("9" * 30, False)]


def test_image_whose_description_is_damaged_is_imported_again(tmp_path: Path) -> None:
    archive = images.docker_archive(tmp_path / "box.tar")
    image = store(tmp_path).import_(archive)
    (Path(image.root).parent / "image.json").write_text("{")
    again = store(tmp_path)
    assert again.all() == []
    assert again.import_(archive) == image
    assert store(tmp_path).all() == [image]
