"""Static pods: what a manifest may say, which files count, and which mirrors the API is to show."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from actors.podworker.model.errors import ManifestInvalid, MirrorMissing
from actors.podworker.pods.manifests import ManifestDirectory, full_name, mirror_of, mirrored, static_pod
from actors.podworker.pods.static_pods import MirrorTable, StaticOptions, StaticPods, steps
from protocols.kinds import views
from protocols.kube.meta import Object, uid_of
from protocols.lifecycle.pods.probes import probes_of
from protocols.lifecycle.pods.types import read_pod
from tests.support.waiting import until_async

GOOD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "a", "image": "i"}]},
}


def manifest(**spec: Any) -> bytes:
    return json.dumps({**GOOD, "spec": {**GOOD["spec"], **spec}}).encode()


def test_a_manifest_becomes_a_pod_of_this_node_and_a_mirror() -> None:
    pod = static_pod("/m/web.yaml", manifest(), "node-1")
    assert full_name(pod) == "default/web-node-1"
    assert (pod["spec"]["nodeName"], pod["spec"]["restartPolicy"]) == ("node-1", "Always")
    assert static_pod("/m/web.yaml", manifest(), "node-1")["metadata"]["uid"] == pod["metadata"]["uid"]
    other = static_pod("/m/web.yaml", manifest(hostNetwork=True), "node-1")
    assert other["metadata"]["uid"] != pod["metadata"]["uid"]
    mirror = mirror_of(pod, "node-uid")
    assert mirrored(mirror) == pod["metadata"]["uid"]
    assert "uid" not in mirror["metadata"]
    assert mirror["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    assert not mirrored(pod)


def test_static_pod_with_an_env_file_is_accepted() -> None:
    source = {"fileKeyRef": {"volumeName": "v", "path": "a.env", "key": "K"}}
    containers = [{"name": "a", "image": "i", "env": [{"name": "X", "valueFrom": source}]}]
    text = manifest(containers=containers, volumes=[{"name": "v", "emptyDir": {}}])
    assert static_pod("/m/web.yaml", text, "n1")["spec"]["containers"][0]["env"][0]["valueFrom"] == source


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b"{", "not YAML"),
        (b"[]", "kind Pod"),
        (b"a: &a [*a]", "aliases"),
        (json.dumps({**GOOD, "metadata": {}}).encode(), "metadata.name"),
        (json.dumps({**GOOD, "metadata": {"name": "UP_"}}).encode(), "metadata.name"),
        (json.dumps({**GOOD, "metadata": {"name": "web", "uid": "../x"}}).encode(), "metadata.uid"),
        (manifest(containers=[{"name": "a/b", "image": "i"}]), "a/b"),
        (manifest(containers=[]), "spec.containers"),
        (manifest(containers=[{"name": "a"}]), r"spec.containers\[0\].image: Required value"),
        (manifest(containers=[{"name": "a", "image": "i"}] * 2), r"containers\[1\].name: Duplicate value"),
        (manifest(restartPolicy="Sometimes"), "spec.restartPolicy: Unsupported value"),
        (manifest(hostNetwork="yes"), "cannot unmarshal string into Go struct field"),
        (manifest(volumes=[{"name": "v", "secret": {"secretName": "s"}}]), "secret"),
        (manifest(serviceAccountName="x"), "serviceAccountName"),
    ],
)
def test_what_is_no_static_pod_is_said(text: bytes, word: str) -> None:
    with pytest.raises(ManifestInvalid, match=word):
        static_pod("/m/x", text, "n1")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_pod_or_a_clear_refusal(text: bytes) -> None:
    with pytest.raises(ManifestInvalid):
        static_pod("/m/x", text, "n1")


KEYS = st.sampled_from(["name", "exec", "path"])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)
FIELDS = ("env", "envFrom", "livenessProbe", "volumeMounts", "ports", "resources", "securityContext", "lifecycle")
POD_FIELDS = ("volumes", "securityContext", "initContainers", "terminationGracePeriodSeconds", "tolerations")


@given(
    st.dictionaries(st.sampled_from(FIELDS), JUNK, max_size=2),
    st.dictionaries(st.sampled_from(POD_FIELDS), JUNK, max_size=2),
)
def test_fields_of_the_wrong_type_are_refused_not_carried_on(fields: Object, more: Object) -> None:
    text = manifest(containers=[{"name": "a", "image": "i", **fields}], **more)
    try:
        pod = static_pod("/m/x", text, "n1")
    except ManifestInvalid:
        return
    for container in read_pod(pod).containers:
        assert probes_of(container) is not None


def test_directory_that_cannot_be_listed_ends_no_pod(tmp_path: Path) -> None:
    faults, path = list[str](), tmp_path / "manifests"
    directory = ManifestDirectory(path, "n1", faults.append)
    path.mkdir()
    (path / "web.yaml").write_bytes(manifest())
    (uid,) = directory.read()
    path.rename(tmp_path / "aside")
    path.write_text("no directory")
    assert list(directory.read()) == list(directory.read()) == [uid]
    assert faults == [f"manifest directory {path}: not a directory"]
    restarted = ManifestDirectory(path, "n1", faults.append)
    assert (restarted.read(), restarted.listed) == ({}, False), "its pods are no orphans yet"
    path.unlink()
    assert directory.read() == restarted.read() == {}, "as with a kubelet"
    assert restarted.listed


def test_of_two_files_with_one_pod_the_first_counts_and_the_other_is_reported(tmp_path: Path) -> None:
    """Both ran, with one name in the API."""
    faults = list[str]()
    directory = ManifestDirectory(tmp_path, "n1", faults.append)
    for name in ("web.yaml", "web2.yaml"):
        (tmp_path / name).write_bytes(manifest())
    (first,) = directory.read()
    assert list(directory.read()) == [first]
    assert faults == ["manifest web2.yaml: ignored, web.yaml has the pod default/web-n1 already"]
    (tmp_path / "web.yaml").unlink()
    (second,) = directory.read()
    assert second != first


def test_files_that_count(tmp_path: Path) -> None:
    faults: list[str] = []
    directory = ManifestDirectory(tmp_path, "n1", faults.append)
    assert directory.read() == {}
    (tmp_path / "web.yaml").write_bytes(manifest())
    (tmp_path / ".hidden").write_bytes(manifest())
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad").write_text("{")
    (uid,) = directory.read()
    assert len(faults) == 1
    directory.read()
    assert len(faults) == 1  # told once
    (tmp_path / "web.yaml").write_text("half a ma")
    assert list(directory.read()) == [uid]  # the last good version stays
    (tmp_path / "web.yaml").write_bytes(manifest(hostNetwork=True))
    assert list(directory.read()) != [uid]
    (tmp_path / "web.yaml").unlink()
    assert directory.read() == {}


def test_mirrors_to_create_and_to_delete() -> None:
    pod = static_pod("/m/a", manifest(), "n1")
    name, mirror = full_name(pod), mirror_of(pod, "u")
    assert steps([pod], {}).create == (pod,)
    assert steps([pod], {name: mirror}) == steps([], {})
    assert steps([], {name: mirror}).delete == (mirror,)
    metadata: views.ObjectMeta = {**mirror["metadata"], "deletionTimestamp": "x"}
    leaving: views.Pod = {**mirror, "metadata": metadata}
    assert steps([pod], {name: leaving}).delete == (leaving,)
    newer = static_pod("/m/a", manifest(hostNetwork=True), "n1")
    assert steps([newer], {name: mirror}).delete == (mirror,)


async def holds(condition: Callable[[], object]) -> None:
    await until_async("the condition", condition, every=0.001)


class FakeManager:
    def __init__(self) -> None:
        self.pods: dict[str, views.Pod] = {}
        self.republished: list[str] = []

    def on_add(self, obj: views.Pod) -> None:
        self.pods[obj["metadata"]["uid"]] = obj

    def on_update(self, old: views.Pod, new: views.Pod) -> None:
        pass

    def on_delete(self, obj: views.Pod) -> None:
        pass  # it takes its time

    def has_worker(self, uid: str) -> bool:
        return uid in self.pods

    def republish(self, uid: str) -> None:
        self.republished.append(uid)


class FakeApi:
    def __init__(self) -> None:
        self.created, self.deleted = list[views.Pod](), list[views.Pod]()

    async def create_pod(self, pod: views.Pod) -> None:
        self.created.append(pod)

    async def delete_pod(self, pod: views.Pod) -> None:
        self.deleted.append(pod)


async def test_a_new_version_waits_for_the_end_of_the_old_one(tmp_path: Path) -> None:
    async def story() -> None:
        manager, api, faults = FakeManager(), FakeApi(), list[str]()
        mirrors = MirrorTable()
        keeper = StaticPods(StaticOptions(tmp_path, "n1", manager, api, mirrors, lambda: "node-uid", faults.append))
        (tmp_path / "web").write_bytes(manifest())
        await keeper.load()
        (old,) = manager.pods
        task = asyncio.create_task(keeper.keep_mirrors())
        await holds(lambda: api.created)
        with pytest.raises(MirrorMissing):
            mirrors.mirror_of(read_pod(manager.pods[old]))
        metadata: views.ObjectMeta = {**api.created[0]["metadata"], "uid": "api-1"}
        keeper.on_add({**api.created[0], "metadata": metadata})
        assert uid_of(mirrors.mirror_of(read_pod(manager.pods[old])) or {}) == "api-1"
        assert manager.republished == [old]
        (tmp_path / "web").write_bytes(manifest(hostNetwork=True))
        await keeper.load()
        assert list(manager.pods) == [old]
        await asyncio.sleep(0.01)
        assert not api.deleted
        del manager.pods[old]
        keeper.on_finished(old)
        (new,) = manager.pods
        assert new != old
        await holds(lambda: api.deleted)
        task.cancel()

    await asyncio.wait_for(story(), 60)
