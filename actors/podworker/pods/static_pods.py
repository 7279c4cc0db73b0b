"""Run the pods of the manifest directory, and maintain one mirror pod each in the API.

The directory decides: a deleted mirror is created again, a removed file ends its pod, and one that was removed and put
back restarts it. All API pods pass through here first, so that mirrors are never run as pods.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from actors.podworker.model.errors import MirrorMissing
from actors.podworker.pods.manifests import ManifestDirectory, full_name, mirror_of, mirrored
from actors.podworker.pods.node_pods import PodSourceHandler
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.lifecycle.pods.types import SOURCE, PodSpec, is_static, object_uid
from protocols.process.inotify import CONTENTS, DirectoryChanges
from protocols.process.rates import backoff_delay

RELIST_S = 20.0
SETTLE_S = 0.1
"""Pause after a change in the directory, so that writers can finish."""
RETRY_FIRST_S, RETRY_MOST_S = 0.1, 5.0
log = logging.getLogger("podworker")


class Steps(msgspec.Struct, frozen=True):
    """Mirrors to create and to delete."""

    create: tuple[views.Pod, ...] = ()
    """Static pods without a mirror in the API."""
    delete: tuple[views.Pod, ...] = ()
    """Mirrors that are orphaned, outdated or being deleted. Only the API object is deleted, no container ends."""


def steps(static: Iterable[views.Pod], mirrors: Mapping[str, views.Pod]) -> Steps:
    """Compare static pods with mirrors by namespace/name. A wrong mirror is deleted first, then created anew."""
    desired = {full_name(pod): pod for pod in static}
    create = tuple(pod for name, pod in desired.items() if name not in mirrors)
    return Steps(create, tuple(m for name, m in mirrors.items() if not _fits(m, desired.get(name))))


def _fits(mirror: views.Pod, pod: views.Pod | None) -> bool:
    ending = (mirror.get("metadata") or {}).get("deletionTimestamp")
    return pod is not None and not ending and mirrored(mirror) == pod["metadata"]["uid"]


def _of_api(pod: views.Pod) -> views.Pod:
    """Return a pod of the API that does not claim to be static: a static one preempts others. As upstream."""
    if not is_static(pod):
        return pod
    annotations = {**pod["metadata"]["annotations"], SOURCE: "api"}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


class MirrorApi(Protocol):
    """Writes mirror pods. Both raise ApiError, ApiAway."""

    async def create_pod(self, pod: views.Pod) -> None: ...

    async def delete_pod(self, pod: views.Pod) -> None:
        """Delete immediately. No error if it is gone."""
        ...


class MirrorTable:
    """Static pods by uid, and the API's mirror pods by namespace/name."""

    def __init__(self) -> None:
        self.static: dict[str, views.Pod] = {}
        self.mirrors: dict[str, views.Pod] = {}

    def mirror_of(self, spec: PodSpec) -> views.Pod | None:
        """Return the mirror pod of a static pod, None for other pods. Raises MirrorMissing."""
        if spec.uid not in self.static:
            return None
        mirror = self.mirrors.get(f"{spec.namespace}/{spec.name}", {})
        if mirrored(mirror) != spec.uid:
            raise MirrorMissing(f"static pod {spec.namespace}/{spec.name} has no mirror in the API yet")
        return mirror


class StaticOptions(msgspec.Struct, frozen=True):
    """The directory, and who runs its pods."""

    directory: Path
    node: str
    pods: Any  # Pods: a struct cannot check protocols
    api: Any  # MirrorApi
    table: "MirrorTable"
    node_uid: Callable[[], str]
    """Empty until the node is registered."""
    on_fault: Callable[[str], None]


class StaticPods:
    """Runs static pods and passes API pods on, as event handler of the informer."""

    def __init__(self, options: StaticOptions) -> None:
        self._options = options
        self._pods: PodSourceHandler = options.pods
        self._api: MirrorApi = options.api
        self._faults: list[str] = []
        self._directory = ManifestDirectory(options.directory, options.node, self._faults.append)
        self._static, self._mirrors = options.table.static, options.table.mirrors
        self._queued: dict[str, views.Pod] = {}
        """Pods that wait for the end of the former pods of their name."""
        self._former: dict[str, set[str]] = {}
        """Uids of pods by name that were ended and have a worker still, whether the API has a mirror of them or not."""
        self._outdated: dict[str, views.Pod] = {}
        """Mirrors of former pods, by their own uid, that are to be deleted from the API."""
        self._failures: dict[str, int] = {}
        """Failed attempts in a row to create or delete the mirror of a name."""
        self._changed = asyncio.Event()

    # event handler of the informer

    def on_add(self, obj: views.Pod) -> None:
        if not mirrored(obj):
            return self._pods.on_add(_of_api(obj))
        if object_uid(obj) in self._outdated:
            return None
        self._mirrors[full_name(obj)] = obj
        self._pods.republish(mirrored(obj))
        self._changed.set()
        return None

    def on_update(self, old: views.Pod, new: views.Pod) -> None:
        if not mirrored(new):
            return self._pods.on_update(_of_api(old), _of_api(new))
        if object_uid(new) in self._outdated:
            return None
        self._mirrors[full_name(new)] = new
        if (new.get("metadata") or {}).get("deletionTimestamp"):
            self._changed.set()
        return None

    def on_delete(self, obj: views.Pod) -> None:
        if not mirrored(obj):
            return self._pods.on_delete(_of_api(obj))
        self._outdated.pop(object_uid(obj), None)
        if object_uid(self._mirrors.get(full_name(obj), {})) == object_uid(obj):
            del self._mirrors[full_name(obj)]
        self._changed.set()
        return None

    # the directory

    async def load(self, removed: Iterable[str] = ()) -> bool:
        """Read the directory; return False while it could not be listed even once.

        Call it once the API's pods are known, and until it returns True before orphans are looked for. `removed`: names
        of files that were gone in between.
        """
        gone = self._directory.uids(removed)
        pods = await asyncio.to_thread(self._directory.read)
        for uid in gone & pods.keys() & self._static.keys():
            self._end(uid)
        self._apply(pods)
        return self._directory.listed

    def hold_back(self, orphans: Iterable[tuple[str, str, str]]) -> None:
        """Let pods wait for the former ones of their names that run still: an earlier process was to end them.

        `orphans`: uid, namespace and name of pods in the runtime that the API does not have. Call it before the workers
        start.
        """
        static = {full_name(pod): pod for pod in self._static.values()}
        for uid, namespace, name in orphans:
            pod = static.get(f"{namespace}/{name}")
            if pod is not None and uid not in self._static:
                self._former.setdefault(full_name(pod), set()).add(uid)
                self._queued[full_name(pod)] = pod
                self._pods.on_delete(pod)

    async def watch(self) -> None:
        changes = DirectoryChanges(CONTENTS)
        changes.watch([self._options.directory])
        try:
            while True:
                await changes.wait(RELIST_S)
                await asyncio.sleep(SETTLE_S)
                await self.load(changes.removed())
        finally:
            changes.close()

    def _apply(self, found: Mapping[str, views.Pod]) -> None:
        for fault in self._faults:
            self._options.on_fault(fault)
        self._faults.clear()
        for uid in self._static.keys() - found.keys():
            self._end(uid)
        for uid, pod in found.items():
            if uid not in self._static:
                self._static[uid] = pod
                self._start(pod)

    def _end(self, uid: str) -> None:
        pod = self._static.pop(uid)
        if self._queued.get(full_name(pod)) is pod:
            del self._queued[full_name(pod)]
        if self._pods.has_worker(uid):
            self._former.setdefault(full_name(pod), set()).add(uid)
        self._pods.on_delete(pod)
        self._changed.set()

    def _start(self, pod: views.Pod) -> None:
        """Start a pod, once the former ones of its name have ended."""
        name, uid = full_name(pod), object_uid(pod)
        mirror = self._mirrors.get(name, {})
        if self._must_wait(name, uid):
            self._queued[name] = pod
            return
        if mirrored(mirror) == uid:
            pod["status"] = mirror.get("status") or pod["status"]
        self._pods.on_add(pod)
        self._changed.set()

    def _must_wait(self, name: str, uid: str) -> bool:
        """Return True while a former pod of the name has a worker."""
        former = {uid, mirrored(self._mirrors.get(name, {})), *self._former.get(name, ())} - {""}
        return any(map(self._pods.has_worker, former))

    def on_finished(self, uid: str) -> None:
        """Start the version that waited for this pod to end."""
        for name, uids in list(self._former.items()):
            uids.discard(uid)
            if not uids:
                del self._former[name]
        for name, pod in list(self._queued.items()):
            mirror = self._mirrors.get(name, {})
            if object_uid(pod) == uid and mirrored(mirror) == uid:  # its status is that of the former pod
                self._outdated[object_uid(mirror)] = self._mirrors.pop(name)
            if not self._must_wait(name, object_uid(pod)):
                del self._queued[name]
                pod["status"] = {"phase": "Pending"}
                self._pods.on_add(pod)
        self._changed.set()

    # mirrors

    async def keep_mirrors(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._reconcile()
            if self._failures:
                delay = backoff_delay(max(self._failures.values()), RETRY_FIRST_S, RETRY_MOST_S)
                asyncio.get_running_loop().call_later(delay, self._changed.set)

    async def _reconcile(self) -> None:
        """Create and delete mirrors. One that fails is retried and does not hold up the others."""
        running = [pod for pod in self._static.values() if pod not in self._queued.values()]
        desired = steps(running, self._mirrors)
        former = [mirror for mirror in desired.delete if not self._ends(mirror)]
        failed = {}
        for mirror in (*self._outdated.values(), *former):
            failed[full_name(mirror)] = await self._attempt(full_name(mirror), self._api.delete_pod(mirror))
        for pod in desired.create:
            failed[full_name(pod)] = await self._attempt(full_name(pod), self._create(pod))
        self._failures = {name: self._failures.get(name, 0) + 1 for name, fault in failed.items() if fault}

    async def _create(self, pod: views.Pod) -> None:
        if not self._options.node_uid():
            raise MirrorMissing("the node is not registered yet")
        await self._api.create_pod(mirror_of(pod, self._options.node_uid()))

    async def _attempt(self, name: str, call: Awaitable[None]) -> bool:
        """Return True if the call failed."""
        try:
            await call
        except (NodeplaneError, OSError, TimeoutError) as error:
            if self._failures.get(name, 0) in (0, 19):
                log.warning("mirror pod not updated, retrying pod=%s error=%s", name, error)
            return True
        return False

    def _ends(self, mirror: views.Pod) -> bool:
        """Return True while the former pod of a mirror is still ending: the API shows it until then."""
        uid = mirrored(mirror)
        queued = any(object_uid(pod) == uid for pod in self._queued.values())
        return (queued or uid not in self._static) and self._pods.has_worker(uid)
