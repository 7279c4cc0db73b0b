"""Environment and volumes: what is in them, where they lie, and files that change all at once."""

import base64
import os
import stat
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid, VolumeNotReady
from actors.podworker.pods.environment.downward import field_value
from actors.podworker.pods.environment.references import CONFIG_MAP, SECRET, Ref, contents, env_refs, volume_refs
from actors.podworker.pods.environment.variables import build_environment
from actors.podworker.pods.volumes import atomic
from actors.podworker.pods.volumes.paths import VolumePaths, sub_path
from actors.podworker.pods.volumes.payload import File, Inputs, Payload, TokenRef, payload, token_refs
from actors.podworker.pods.volumes.sources import read_versions
from actors.podworker.pods.volumes.volumes import (
    Volumes,
    make_mount_points,
    nested_mount_points,
    prepare_host_path,
)
from protocols.kube.errors import ApiAway
from protocols.kube.meta import Object
from protocols.lifecycle.pods.types import PodSpec, read_pod
from tests.support.podworker_fakes import FakeDependencies, FakeObjects, container, pod
from tests.support.podworker_scene import Scene, at_work
from tests.support.waiting import until_async

NODE = NodeFields("n1", "10.0.0.5", ("10.1.0.1",), cpus=2, memory=1 << 30, storage=1 << 40)
FOUND = {
    Ref(CONFIG_MAP, "c"): {"a": b"1", "b-x": b"2"},
    Ref(SECRET, "s"): {"password": b"\xffx"},
    Ref(SECRET, "no"): None,
}


def env_of(*entries: Object, **more: Any) -> dict[str, str]:
    parsed = read_pod(pod(container("a", env=list(entries), **more)))
    return build_environment(parsed, parsed.containers[0], NODE, {}, FOUND)


def key(kind: str, name: str, key: str, **more: Any) -> Object:
    return {"name": "X", "valueFrom": {kind: {"name": name, "key": key, **more}}}


def test_values_from_objects_and_whole_objects_with_prefix() -> None:
    sources = [{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "no", "optional": True}}]
    use = {"name": "Y", "value": "$(P_a)$(X)"}
    found = env_of(key("configMapKeyRef", "c", "a"), use, envFrom=sources)
    assert found == {"P_a": "1", "P_b-x": "2", "X": "1", "Y": "11"}
    assert env_of(key("secretKeyRef", "s", "password"))["X"].encode(errors="surrogateescape") == b"\xffx"
    assert env_of(key("secretKeyRef", "no", "k", optional=True)) == {}
    assert env_of(key("configMapKeyRef", "c", "zz", optional=True)) == {}


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (key("secretKeyRef", "no", "k"), 'container a: env X: secret "no" not found'),
        (key("configMapKeyRef", "c", "zz"), "couldn't find key zz in ConfigMap ns/c"),
        ({"name": "X", "valueFrom": {"unknownRef": {}}}, "unknownRef"),
        ({"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}}, "limits.NAME"),
    ],
)
def test_what_is_missing_is_said(entry: Object, text: str) -> None:
    with pytest.raises(ContainerConfigInvalid, match=text):
        env_of(entry)


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", None, "1"),
        ("limits.cpu", "1m", "250"),
        ("requests.memory", "1Mi", "64"),
        ("limits.memory", None, str(1 << 30)),
        ("requests.ephemeral-storage", "1", "0"),
    ],
)
def test_resources_in_units_of_the_divisor(resource: str, divisor: str, expected: str) -> None:
    reference = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    resources = {"limits": {"cpu": "250m"}, "requests": {"memory": "64Mi"}}
    assert env_of({"name": "X", "valueFrom": {"resourceFieldRef": reference}}, resources=resources) == {"X": expected}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [("limits.memory", str(128 << 20)), ("limits.cpu", "2"), ("requests.memory", "0"), ("requests.cpu", "1")],
)
def test_resources_without_limit_are_those_of_the_pod(resource: str, expected: str) -> None:
    env = [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": resource}}}]
    limited = container("a", env=env, resources={"requests": {"cpu": "1"}})
    raw = pod(limited, resources={"limits": {"memory": "128Mi", "cpu": "1500m"}, "requests": {"memory": "64Mi"}})
    parsed = read_pod(raw)
    assert build_environment(parsed, parsed.containers[0], NODE, {}, FOUND) == {"X": expected}


@pytest.mark.parametrize(("resource", "expected"), [("limits.cpu", "4"), ("limits.memory", str(1 << 29))])
def test_resources_without_any_limit_are_what_the_node_allocates(tmp_path: Path, resource: str, expected: str) -> None:
    fake = FakeDependencies(tmp_path)
    fake.local_node.seen["status"]["allocatable"] = {"cpu": "3500m", "memory": "512Mi", "pods": "110"}
    env = [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": resource}}}]
    parsed = read_pod(pod(container("a", env=env)))
    found = build_environment(parsed, parsed.containers[0], fake.deps.node_fields(), {}, FOUND)
    assert found == {"X": expected}


async def test_binary_data_of_a_config_map_is_no_variable(tmp_path: Path) -> None:
    """As in kubelet: else a key with a NUL byte would keep the container from starting."""
    scene = Scene(tmp_path, pod(container("a", envFrom=[{"configMapRef": {"name": "c"}}])))
    binary = base64.b64encode(b"\0").decode()
    scene.fake.objects.items[CONFIG_MAP, "c"] = {"data": {"A": "1"}, "binaryData": {"B": binary}}
    async with at_work(scene):
        await scene.running()
        assert {e.key: e.value for e in scene.fake.runtime.running("a")[0].config.envs} == {"A": b"1"}


def test_annotations_are_quoted_as_go_quotes_them() -> None:
    """Programs read the lines by strconv.Unquote."""
    raw = pod(container("a"), metadata={"annotations": {"a": 'x"\\\n\x1b\x07\u200b\u00e9\U000e0001'}})
    assert field_value("metadata.annotations", read_pod(raw), NODE) == r'''a="x\"\\\n\x1b\a\u200bé\U000e0001"'''


def test_contents_and_references() -> None:
    binary = base64.b64encode(b"\0").decode()
    assert contents(CONFIG_MAP, {"data": {"a": "1"}, "binaryData": {"b": binary}}) == {"a": b"1", "b": b"\0"}
    assert contents(SECRET, {"data": {"a": binary}}) == {"a": b"\0"}
    with pytest.raises(ContainerConfigInvalid, match='secret "x" holds data that is not base64'):
        contents(SECRET, {"metadata": {"name": "x"}, "data": {"a": "%"}})
    parsed = read_pod(
        pod(
            container("a", env=[key("secretKeyRef", "s", "k")], envFrom=[{"configMapRef": {"name": "c"}}]),
            volumes=[
                {"name": "v", "secret": {"secretName": "t"}},
                {"name": "w", "projected": {"sources": [{"secret": {"name": "u"}}, {"configMap": {"name": "d"}}]}},
            ],
        )
    )
    assert env_refs(parsed.containers[0]) == {Ref(SECRET, "s"), Ref(CONFIG_MAP, "c")}
    assert volume_refs(parsed) == {Ref(SECRET, "t"), Ref(SECRET, "u"), Ref(CONFIG_MAP, "d")}


def files(volume: Any, tokens: dict[TokenRef, str] | None = None, **spec: Any) -> Payload:
    parsed = read_pod(pod(container("a"), volumes=[volume], metadata={"labels": {"x": 'y"\n'}}, **spec))
    return payload(volume, Inputs(parsed, NODE, FOUND, tokens or {}))


def test_files_of_volumes() -> None:
    assert files({"name": "v", "configMap": {"name": "c"}}) == {"a": File(b"1", 0o644), "b-x": File(b"2", 0o644)}
    items = [{"key": "password", "path": "deep/er", "mode": 0o400}]
    secret = {"name": "v", "secret": {"secretName": "s", "items": items, "defaultMode": 0o440}}
    assert files(secret) == {"deep/er": File(b"\xffx", 0o400)}
    downward = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    assert files({"name": "v", "downwardAPI": downward})["labels"].data == b'x="y\\"\\n"'
    token = {"serviceAccountToken": {"path": "token", "audience": "me"}}
    sources = [token, {"configMap": {"name": "c", "items": [{"key": "a", "path": "ca"}]}}]
    projected: Any = {"name": "v", "projected": {"sources": sources}}
    made = files(projected, {TokenRef("me", 3600): "secret"}, securityContext={"runAsUser": 7})
    assert made == {"token": File(b"secret", 0o600, 7), "ca": File(b"1", 0o644)}
    made = files(projected, {TokenRef("me", 3600): "secret"}, securityContext={"fsGroup": 9})
    assert made["token"] == File(b"secret", 0o600), "writing gives it to the group, with 0640"
    assert token_refs(projected) == {TokenRef("me", 3600)}


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
        (
            {"configMap": {"name": "c", "items": [{"key": "q", "path": "q"}]}},
            "configmap references non-existent config key: q",
        ),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "../up"}]}}, "below the volume"),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "x/../../up"}]}}, "out of the volume"),
        ({"projected": {"sources": [{"clusterTrustBundle": {}}]}}, "clusterTrustBundle"),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}, "no service account token"),
    ],
)
def test_volumes_that_cannot_be_made_say_why(volume: Object, text: str) -> None:
    with pytest.raises(VolumeNotReady, match=text):
        files({"name": "v", **volume})


def test_optional_volumes_are_empty() -> None:
    assert files({"name": "v", "secret": {"secretName": "no", "optional": True}}) == {}


NAMES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=2).map("/".join)
PAYLOADS = st.dictionaries(NAMES, st.builds(File, st.binary(max_size=8), st.sampled_from([0o644, 0o400])), max_size=3)


def consistent(files: Payload) -> bool:
    """No path is a directory of another."""
    return not any(other.startswith(f"{path}/") for path in files for other in files)


def seen(directory: Path) -> dict[str, bytes]:
    roots = [path for path in directory.iterdir() if not path.name.startswith("..")]
    files = [file for root in roots for file in (root.rglob("*") if root.is_dir() else [root]) if file.is_file()]
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


@given(st.lists(PAYLOADS.filter(consistent), min_size=1, max_size=4), st.booleans())
def test_a_volume_shows_the_last_payload_and_nothing_else(payloads: list[Payload], litter: bool) -> None:
    with TemporaryDirectory() as name:
        directory = Path(name, "v")
        for files in payloads:
            atomic.write(directory, files)
            assert seen(directory) == {path: file.data for path, file in files.items()}
            assert not atomic.write(directory, files)
            if litter:  # as a crash leaves it
                (directory / f"{atomic.PREFIX}dead").mkdir(exist_ok=True)
                (directory / atomic.NEXT).unlink(missing_ok=True)
                (directory / atomic.NEXT).symlink_to("nowhere")
        atomic.write(directory, payloads[0])
        versions = [e.name for e in os.scandir(directory) if e.name.startswith(atomic.PREFIX)]
        assert len(versions) == 1
        for path, file in payloads[0].items():
            assert stat.S_IMODE((directory / path).stat().st_mode) == file.mode


def test_a_reader_that_holds_the_link_sees_old_or_new_never_a_mix(tmp_path: Path) -> None:
    atomic.write(tmp_path, {"a": File(b"1", 0o644), "b": File(b"1", 0o644)})
    held = os.open(tmp_path / "..data", os.O_RDONLY | os.O_DIRECTORY)
    before = os.stat(tmp_path / "..data").st_ino
    assert atomic.write(tmp_path, {"a": File(b"2", 0o644), "b": File(b"2", 0o644)})
    assert os.stat(tmp_path / "..data").st_ino != before
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"2"
    os.close(held)


def test_write_that_fails_leaves_the_old_files_and_nothing_of_the_new_ones(tmp_path: Path) -> None:
    atomic.write(tmp_path, {"a": File(b"1", 0o644)})
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(OSError, match="too long"):
        atomic.write(tmp_path, {"a": File(b"2", 0o644), "b" * 256: File(b"2", 0o644)})
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "a").read_bytes() == b"1"


def test_files_of_a_group_are_readable_by_it_where_root_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    atomic.write(tmp_path / "a", {"token": File(b"1", 0o600)}, 9 if os.geteuid() == 0 else -1)
    assert (tmp_path / "a" / "token").stat().st_mode & 0o777 == (0o640 if os.geteuid() == 0 else 0o600)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    atomic.write(tmp_path / "b", {"token": File(b"1", 0o600, 7)}, 9)
    found = (tmp_path / "b" / "token").stat()
    assert (found.st_mode & 0o777, found.st_uid) == (0o600, os.getuid())
    assert not atomic.write(tmp_path / "b", {"token": File(b"1", 0o600, 7)}, 9), "nothing has changed"


def test_host_path_types(tmp_path: Path) -> None:
    prepare_host_path({"path": str(tmp_path / "d" / "e"), "type": "DirectoryOrCreate"})
    prepare_host_path({"path": str(tmp_path / "f"), "type": "FileOrCreate"})
    prepare_host_path({"path": "/dev/null", "type": "CharDevice"})
    for path, kind, text in (
        (tmp_path / "f", "Directory", "is not a directory"),
        (tmp_path / "d", "FileOrCreate", "is not a file"),
        (tmp_path / "x", "File", "hostPath type check failed: .*/x is not a file"),
        (tmp_path / "x", "Socket", "hostPath type check failed: .*/x is not a socket file"),
        (tmp_path / "x", "BlockDevice", "hostPath type check failed: .*/x is not a block device"),
        (tmp_path, "Nonsense", "unknown"),
    ):
        with pytest.raises(VolumeNotReady, match=text):
            prepare_host_path({"path": str(path), "type": kind})


def test_sub_paths_stay_in_their_volume(tmp_path: Path) -> None:
    assert sub_path({"subPathExpr": "x/$(A)"}, {"A": "1"}) == "x/1"
    for bad in ("../x", "/x", "a/../../b"):
        with pytest.raises(ContainerConfigInvalid, match="out of the volume"):
            sub_path({"name": "v", "subPath": bad}, {})


def test_a_volume_lies_below_its_pod() -> None:
    spec = read_pod(pod(container("a"), volumes=[{"name": "../../x", "emptyDir": {}}]))
    with pytest.raises(ContainerConfigInvalid, match="no name of a volume"):
        VolumePaths(spec, Path("/root-dir")).path("../../x")


async def ended(kept: Volumes) -> None:
    """The refresh of the volumes, if there is one."""
    await until_async("refreshed", lambda: not kept._tasks)


def config_map(value: str) -> Object:
    return {"metadata": {"resourceVersion": value}, "data": {"k": value}}


async def outdated(kept: Volumes, fake: FakeDependencies) -> bool:
    """As the manager asks once a minute."""
    return kept.outdated(await read_versions(fake.objects, kept.sources))


async def updated(kept: Volumes, fake: FakeDependencies) -> None:
    assert await outdated(kept, fake)
    kept.refresh(NODE)
    await ended(kept)


async def test_volumes_wait_for_their_sources_then_follow_them(tmp_path: Path) -> None:
    volumes = [
        {"name": "e", "emptyDir": {}},
        {"name": "v", "projected": {"sources": [
            {"configMap": {"name": "c"}}, {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}}]}},
    ]  # fmt: skip
    spec, fake = read_pod(pod(container("a"), volumes=volumes)), FakeDependencies(tmp_path)
    kept = Volumes(fake.deps, lambda: spec)

    with pytest.raises(VolumeNotReady, match=r'MountVolume\.SetUp failed for volume "v" : configmap "c" not found'):
        await kept.prepare(NODE)
    fake.objects.items[CONFIG_MAP, "c"] = config_map("1")
    await kept.prepare(NODE)
    await kept.prepare(NODE)
    reads, path = fake.objects.reads, VolumePaths(spec, tmp_path).path("v")
    assert (path / "k").read_text() == "1"
    assert stat.S_IMODE(VolumePaths(spec, tmp_path).path("e").stat().st_mode) == 0o777
    fake.objects.items[CONFIG_MAP, "c"] = config_map("2")
    kept.refresh(NODE)
    assert fake.objects.reads == reads, "not before the versions are read"
    await updated(kept, fake)
    assert (path / "k").read_text() == "2"
    assert fake.objects.tokens == 1
    assert not await outdated(kept, fake)
    fake.objects.fail = ApiAway("gone")
    assert not await outdated(kept, fake), "nothing is known of its sources"
    fake.objects.fail, fake.objects.items = None, {}
    await updated(kept, fake)
    assert (path / "k").read_text() == "2"
    assert await outdated(kept, fake), "a failed update is tried again"


@pytest.mark.parametrize(("seconds", "kept_s"), [(3600, 2880), (864_000, 86_400)])
async def test_token_of_a_volume_is_renewed_in_time(seconds: int, kept_s: int, tmp_path: Path) -> None:
    """At 80 % of its lifetime, and after a day."""
    source = {"serviceAccountToken": {"path": "t", "expirationSeconds": seconds}}
    volumes = [{"name": "v", "projected": {"sources": [source]}}]
    spec, fake = read_pod(pod(container("a"), volumes=volumes)), FakeDependencies(tmp_path)
    kept = Volumes(fake.deps, lambda: spec)
    await kept.prepare(NODE)
    [(ref, token)] = kept._tokens.items()
    assert abs(token.renew_at - time.time() - kept_s) < 600
    assert not await outdated(kept, fake)
    kept._tokens[ref] = msgspec.structs.replace(token, renew_at=time.time())
    await updated(kept, fake)
    assert fake.objects.tokens == 2
    assert not await outdated(kept, fake)


@pytest.mark.parametrize("step", [86_400, -86_400])
async def test_token_is_renewed_when_the_clock_jumps(
    step: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API judges it by that clock: as expired, or as not valid yet."""
    volumes = [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
    spec, fake = read_pod(pod(container("a"), volumes=volumes)), FakeDependencies(tmp_path)
    kept = Volumes(fake.deps, lambda: spec)
    await kept.prepare(NODE)
    assert not await outdated(kept, fake)
    jumped = time.time() + step
    monkeypatch.setattr(time, "time", lambda: jumped)
    await updated(kept, fake)
    assert fake.objects.tokens == 2
    assert not await outdated(kept, fake)


@pytest.mark.parametrize("changed", ["labels", "annotations", "resources"])
async def test_files_that_show_the_pod_follow_it(tmp_path: Path, changed: str) -> None:
    fields = [{"path": kind, "fieldRef": {"fieldPath": f"metadata.{kind}"}} for kind in ("labels", "annotations")]
    limit = {"path": "resources", "resourceFieldRef": {"containerName": "a", "resource": "limits.cpu"}}
    volumes = [{"name": "v", "downwardAPI": {"items": [*fields, limit]}}]

    def of(given: str) -> PodSpec:
        metadata = {} if given == "resources" else {given: {"k": "new"}}
        cpu = "3" if given == "resources" else "1"
        return read_pod(pod(container("a", resources={"limits": {"cpu": cpu}}), volumes=volumes, metadata=metadata))

    spec, fake = of(""), FakeDependencies(tmp_path)
    kept = Volumes(fake.deps, lambda: spec)
    await kept.prepare(NODE)
    before = (VolumePaths(spec, tmp_path).path("v") / changed).read_text()
    spec = of(changed)
    kept.refresh(NODE)
    await ended(kept)
    assert (VolumePaths(spec, tmp_path).path("v") / changed).read_text() not in ("", before)


async def test_start_and_update_write_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = read_pod(pod(container("a"), volumes=[{"name": "v", "configMap": {"name": "c"}}]))
    fake, overtaken, swap = FakeDependencies(tmp_path), threading.Event(), atomic._swap
    fake.objects.items[CONFIG_MAP, "c"] = config_map("1")
    await Volumes(fake.deps, lambda: spec).prepare(NODE)
    fake.objects.items[CONFIG_MAP, "c"] = config_map("2")
    versions: list[str] = []

    def late(directory: Path, name: str) -> None:
        versions.append(name)
        if len(versions) == 1:
            overtaken.wait(1.0)
        swap(directory, name)

    monkeypatch.setattr(atomic, "_swap", late)
    later = Volumes(fake.deps, lambda: spec)
    later.refresh(NODE)
    await later.prepare(NODE)
    overtaken.set()
    await ended(later)
    assert (VolumePaths(spec, tmp_path).path("v") / "k").read_text() == "2"
    assert len(versions) == 1


async def test_versions_are_read_once_for_all_pods_and_without_those_that_fail() -> None:
    objects = FakeObjects()
    objects.items[CONFIG_MAP, "c"] = config_map("1")
    sources = {(CONFIG_MAP, "ns", "c"), (CONFIG_MAP, "ns", "none")}
    assert await read_versions(objects, sources) == {(CONFIG_MAP, "ns", "c"): "1", (CONFIG_MAP, "ns", "none"): ""}
    objects.fail = ApiAway("gone")
    assert await read_versions(objects, sources) == {}


async def test_volume_without_its_source_does_not_hold_up_the_others(tmp_path: Path) -> None:
    token = {"serviceAccountToken": {"path": "t"}}
    volumes = [
        {"name": "gone", "configMap": {"name": "c"}},
        {"name": "stays", "projected": {"sources": [{"configMap": {"name": "d"}}, token]}},
    ]
    spec, fake = read_pod(pod(container("a"), volumes=volumes)), FakeDependencies(tmp_path)
    for name in ("c", "d"):
        fake.objects.items[CONFIG_MAP, name] = config_map("1")
    kept = Volumes(fake.deps, lambda: spec)
    await kept.prepare(NODE)
    del fake.objects.items[CONFIG_MAP, "c"]
    fake.objects.items[CONFIG_MAP, "d"] = config_map("2")
    kept._tokens = {}
    await updated(kept, fake)
    paths = VolumePaths(spec, tmp_path)
    assert [(paths.path(name) / "k").read_text() for name in ("gone", "stays")] == ["1", "2"]
    assert fake.objects.tokens == 2


@pytest.mark.parametrize(
    ("field", "refreshed"),
    [("metadata.labels", True), ("metadata.annotations['x']", True), ("metadata.name", False)],
)
async def test_changed_labels_refresh_only_files_that_show_metadata(
    tmp_path: Path, field: str, refreshed: bool
) -> None:
    item = {"path": "f", "fieldRef": {"fieldPath": field}}
    sources = [{"configMap": {"name": "c"}}, {"downwardAPI": {"items": [item]}}]
    fake, labels = FakeDependencies(tmp_path), {"x": "1"}
    fake.objects.items[CONFIG_MAP, "c"] = {"data": {"k": "1"}}
    raw = pod(container("a"), volumes=[{"name": "v", "projected": {"sources": sources}}])
    volumes = Volumes(fake.deps, lambda: read_pod(raw | {"metadata": raw["metadata"] | {"labels": dict(labels)}}))
    await volumes.prepare(NODE)
    labels["x"] = "2"
    volumes.refresh(NODE)
    assert bool(volumes._tasks) is refreshed
    await ended(volumes)
    assert fake.objects.reads == 1 + refreshed


def mounted(*mounts: tuple[str, ...]) -> PodSpec:
    return read_pod(
        pod(container("a", volumeMounts=[dict(zip(("name", "mountPath", "subPath"), m, strict=False)) for m in mounts]))
    )


def test_nested_mount_points_are_those_in_the_innermost_volume() -> None:
    spec = mounted(("conf", "/etc/x"), ("deep", "/etc/x/y/z/"), ("deeper", "/etc/x/y/z/w"), ("other", "/etc/xy"))
    assert nested_mount_points(spec) == {"conf": ["y/z"], "deep": ["w"]}
    assert nested_mount_points(mounted(("conf", "/etc/x", "part"), ("deep", "/etc/x/y"))) == {}


def test_mount_points_are_made_beside_files_and_never_through_them() -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder, "v")
        atomic.write(directory, {"key": File(b"1", 0o644)})
        make_mount_points(directory, ["y", "y/z"])
        assert (directory / "y/z").is_dir()
        assert atomic.write(directory, {"key": File(b"2", 0o644)})
        assert (directory / "y/z").is_dir()
        with pytest.raises(VolumeNotReady, match="mount it elsewhere"):
            make_mount_points(directory, ["key/z"])
        with pytest.raises(VolumeNotReady, match="leads out of the volume"):
            make_mount_points(directory, ["../z"])
