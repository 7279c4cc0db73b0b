"""Static pods and their mirrors when files come and go and the API rejects some of them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.podworker.pods.manifests import full_name, mirrored
from actors.podworker.pods.static_pods import MirrorTable, StaticOptions, StaticPods
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.lifecycle.pods.types import SOURCE, is_static
from protocols.process.inotify import CONTENTS, DirectoryChanges
from tests.support.waiting import until_true


def manifest(name: str = "web", **spec: Any) -> bytes:
    containers = [{"name": "a", "image": "i"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}
    return json.dumps(pod).encode()


class SlowManager:
    """Pods end when the test says so."""

    def __init__(self) -> None:
        self.workers, self.log = set[str](), list[tuple[str, ...]]()

    def on_add(self, obj: views.Pod) -> None:
        self.log.append(("add", obj["metadata"]["uid"], obj["status"]["phase"]))
        self.workers.add(obj["metadata"]["uid"])

    def on_update(self, old: views.Pod, new: views.Pod) -> None:
        pass

    def on_delete(self, obj: views.Pod) -> None:
        self.log.append(("delete", obj["metadata"]["uid"]))

    def has_worker(self, uid: str) -> bool:
        return uid in self.workers

    def republish(self, uid: str) -> None:
        pass


class Mirrors:
    """An API that rejects pods of some names; what it takes reaches the static pods."""

    def __init__(self) -> None:
        self.rejected, self.deleted = set[str](), list[str]()
        self.objects: dict[str, views.Pod] = {}
        self.static: StaticPods

    async def create_pod(self, pod: views.Pod) -> None:
        if pod["metadata"]["name"] in self.rejected:
            raise NodeplaneError("denied")
        uid = f"api-{len(self.objects) + len(self.deleted)}"
        metadata: views.ObjectMeta = {**pod["metadata"], "uid": uid}
        created: views.Pod = {**pod, "metadata": metadata, "status": {"phase": "Failed"}}
        self.objects[full_name(pod)] = created
        self.static.on_add(created)

    async def delete_pod(self, pod: views.Pod) -> None:
        self.deleted.append(pod["metadata"]["uid"])
        if gone := self.objects.pop(full_name(pod), None):
            self.static.on_delete(gone)


@contextlib.asynccontextmanager
async def at_work(tmp_path: Path) -> AsyncIterator[tuple[StaticPods, SlowManager, Mirrors]]:
    manager, api = SlowManager(), Mirrors()
    static = StaticPods(StaticOptions(tmp_path, "n1", manager, api, MirrorTable(), lambda: "node-uid", print))
    api.static = static
    task = asyncio.create_task(static.keep_mirrors())
    try:
        yield static, manager, api
    finally:
        task.cancel()


async def test_static_pods_mirror_that_cannot_be_created_does_not_hold_up_others(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (static, _, api):
        api.rejected = {"aaa-n1"}
        for name in ("aaa", "bbb", "ccc"):
            (tmp_path / name).write_bytes(manifest(name))
        await static.load()
        await until_true(lambda: set(api.objects) == {"default/bbb-n1", "default/ccc-n1"})
        (tmp_path / "ddd").write_bytes(manifest("ddd"))
        await static.load()
        await until_true(lambda: "default/ddd-n1" in api.objects)
        api.rejected = set()
        await until_true(lambda: len(api.objects) == 4)


async def test_static_pods_file_removed_and_put_back_restarts_pod(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (static, manager, api):
        file = tmp_path / "web"
        file.write_bytes(manifest())
        await static.load()
        await until_true(lambda: api.objects)
        (uid,) = manager.workers
        await static.load(removed={"web", "other"})
        assert manager.log == [("add", uid, "Pending"), ("delete", uid)]
        assert not api.deleted
        manager.workers.discard(uid)
        static.on_finished(uid)
        assert manager.log[2:] == [("add", uid, "Pending")]
        await until_true(lambda: api.deleted == ["api-0"] and api.objects)
        assert mirrored(api.objects["default/web-n1"]) == uid


async def test_static_pod_waits_for_the_former_one_that_an_earlier_process_was_to_end(tmp_path: Path) -> None:
    """Both ran side by side, and the new one found its host ports taken."""
    async with at_work(tmp_path) as (static, manager, api):
        (tmp_path / "web").write_bytes(manifest())
        await static.load()
        (uid,) = manager.workers
        manager.workers = {"old"}  # the orphan's: others have not begun
        static.hold_back([("old", "default", "web-n1"), (uid, "default", "web-n1"), ("b", "default", "other")])
        assert manager.log == [("add", uid, "Pending"), ("delete", uid)]
        manager.workers = set()
        static.on_finished("old")
        assert manager.log[2:] == [("add", uid, "Pending")]
        await until_true(lambda: "default/web-n1" in api.objects)


async def test_static_pods_file_back_after_a_while_waits_for_end_of_former_pod(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (static, manager, _):
        file = tmp_path / "web"
        file.write_bytes(manifest())
        await static.load()
        (uid,) = manager.workers
        file.unlink()
        await static.load()
        file.write_bytes(manifest())
        await static.load()
        assert [entry[0] for entry in manager.log] == ["add", "delete"]
        manager.workers.discard(uid)
        static.on_finished(uid)
        assert manager.log[-1] == ("add", uid, "Pending")


async def test_static_pods_file_removed_again_before_the_end_starts_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (static, manager, _):
        file = tmp_path / "web"
        file.write_bytes(manifest())
        await static.load()
        (uid,) = manager.workers
        await static.load(removed={"web"})
        file.unlink()
        await static.load()
        manager.workers.discard(uid)
        static.on_finished(uid)
        assert [entry[0] for entry in manager.log] == ["add", "delete", "delete"]


async def test_changes_removed_file_that_is_back_is_named(tmp_path: Path) -> None:
    changes = DirectoryChanges(CONTENTS)
    if changes.blind:
        pytest.skip("no inotify")
    try:
        file, other = tmp_path / "web", tmp_path / "other"
        file.write_bytes(b"1")
        other.write_bytes(b"2")
        changes.watch([tmp_path])
        file.rename(tmp_path / "away")
        (tmp_path / "away").rename(file)
        other.write_bytes(b"3")
        await changes.wait(20)
        assert changes.removed() == {"web", "away"}
        assert changes.removed() == set()
    finally:
        changes.close()


async def test_static_pods_api_pod_that_claims_to_be_static_is_one_of_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A static pod is critical: it preempts others, and no taint keeps it away."""
    forged: views.ObjectMeta = {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "annotations": {SOURCE: "file", "other": "kept"},
    }
    async with at_work(tmp_path) as (static, manager, _api):
        received: list[views.Pod] = []
        monkeypatch.setattr(manager, "on_add", received.append)
        static.on_add({"metadata": forged, "spec": {}, "status": {"phase": "Pending"}})
        assert [pod["metadata"]["annotations"] for pod in received] == [{SOURCE: "api", "other": "kept"}]
        assert not is_static(received[0])


async def test_static_pods_changed_twice_at_once_run_one_version_at_a_time(tmp_path: Path) -> None:
    """Also while the API is away, so that no version has a mirror."""
    async with at_work(tmp_path) as (static, manager, api):
        api.rejected = {"web-n1"}
        for version in range(3):
            (tmp_path / "web").write_bytes(manifest(hostname=f"v{version}"))
            await static.load()
        first = manager.log[0][1]
        static.on_finished("another")
        assert [entry[0] for entry in manager.log] == ["add", "delete", "delete"], "the first version still ends"
        manager.workers.discard(first)
        static.on_finished(first)
        (last,) = static._static
        assert manager.log[3:] == [("add", last, "Pending")]
        assert static._former == {}
