"""Volumes of one pod: created before its first container, updated with their sources while it runs.

There is no watch and no timer of a pod: the manager reads each source once a minute for all pods. A pod whose sources
have other versions than its files, or with a token to renew, is synced and updates them. If files show labels,
annotations or resources of the pod, they are also updated with the next sync after one of these changed.

Mount points inside a volume whose files we write are created first, as upstream's pkg/volume/util/nested_volumes.go
does: the runtime mounts the volume read-only and could not create them there.
"""

import asyncio
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

import msgspec

from actors.podworker.model.dependencies import Dependencies, NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid, ReferenceUnreadable, VolumeNotReady
from actors.podworker.pods.environment.references import fetch, volume_refs
from actors.podworker.pods.volumes import atomic, memory
from actors.podworker.pods.volumes.paths import is_in_memory, volume_path
from actors.podworker.pods.volumes.payload import (
    EMPTY_DIR,
    HOST_PATH,
    WRITTEN,
    Inputs,
    TokenRef,
    kind_of,
    payload,
    shows_pod,
    token_refs,
    volumes_of,
)
from actors.podworker.pods.volumes.sources import Source, VersionedReader, Versions
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.lifecycle.pods.types import PodSpec
from protocols.process.tasks import HangingCalls, Tasks, TooManyHung
from protocols.trace import span

_DIRECTORY = 0o755


def nested_mount_points(spec: PodSpec) -> dict[str, list[str]]:
    """Return by volume the paths below it at which containers mount something else. Pure.

    One pass over the mounts, of which a pod may have tens of thousands.
    """
    by_volume: dict[str, set[str]] = {}
    for container in (*spec.containers, *spec.ephemeral):
        for volume, point in _of_container(container.raw):
            by_volume.setdefault(volume, set()).add(point)
    return {volume: sorted(points) for volume, points in by_volume.items()}


def _of_container(container: views.Container) -> Iterator[tuple[str, str]]:
    mounts = {_path(mount): mount for mount in container.get("volumeMounts") or ()}
    for path in mounts:
        outer = next((parent for parent in path.parents if parent in mounts), None)
        if outer is not None and not (mounts[outer].get("subPath") or mounts[outer].get("subPathExpr")):
            yield str(mounts[outer].get("name") or ""), str(path.relative_to(outer))


def _path(mount: views.VolumeMount) -> PurePosixPath:
    return PurePosixPath(str(mount.get("mountPath") or ""))


def make_mount_points(directory: Path, points: list[str]) -> None:
    """Create the directories. Raises VolumeNotReady where a file of the volume has the name, and OSError."""
    for point in points:
        if ".." in PurePosixPath(point).parts:
            raise VolumeNotReady(f"mount path {point!r} leads out of the volume; write it without ..")
        path = directory
        for part in PurePosixPath(point).parts:
            path = path / part
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                raise VolumeNotReady(f"{point!r} is mounted where the volume has a file; mount it elsewhere")
            if not path.exists():
                path.mkdir()
                path.chmod(_DIRECTORY)


CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}
CREATED = {"DirectoryOrCreate": "Directory", "FileOrCreate": "File"}
HOST_PATH_S = 10.0
HOST_PATHS = HangingCalls("host path", most=64)
"""Checks of host paths: `stat` on a dead network file system never returns, and must not take the threads of others."""
VERIFY_S = 1800.0
"""After so long the next sync compares the files with their sources, changed or not."""
TOKEN_RENEWED, TOKEN_KEPT_S = 0.8, 86_400.0
"""Share of a token's lifetime after which it is renewed, and seconds after which one that lives for days is."""
LEEWAY_S = 60.0
"""The API accepts a token that is issued so much later than its own time."""
Shown = tuple[object, ...]
"""Labels, annotations and resources of the pod, as the files show them; empty if no file shows any."""
log = logging.getLogger("podworker")


def prepare_host_path(source: views.HostPathVolumeSource) -> None:
    """Check or create a hostPath. Blocks. Raises VolumeNotReady."""
    kind, path = source.get("type") or "", str(source.get("path") or "")
    expected = CREATED.get(kind, kind)
    if expected not in CHECKS:
        raise VolumeNotReady(f"hostPath type {kind!r} is unknown")
    try:
        if kind in CREATED and not os.path.lexists(path):
            _create(expected, path)
        fits, noun = CHECKS[expected]
        if not fits(os.stat(path).st_mode):
            raise VolumeNotReady(f"hostPath type check failed: {path} is not a {noun}")
    except FileNotFoundError:
        raise VolumeNotReady(f"hostPath type check failed: {path} is not a {CHECKS[expected][1]}") from None
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise VolumeNotReady(f"hostPath type check failed: {path}: {reason}") from None


async def ready_host_path(source: views.HostPathVolumeSource) -> None:
    """Check or create a hostPath, whose file system may be away. Raises VolumeNotReady.

    An empty type means no check: the runtime creates a missing directory.
    """
    kind, path = source.get("type") or "", str(source.get("path") or "")
    if not kind:
        return
    try:
        await HOST_PATHS.run(f"{kind} {path}", lambda: prepare_host_path(source), HOST_PATH_S)
    except TimeoutError:
        text = f"hostPath type check failed: {path} does not answer within {HOST_PATH_S:g} s; is its file server away?"
        raise VolumeNotReady(text) from None
    except TooManyHung as error:
        raise VolumeNotReady(f"hostPath type check failed: {path}: {error}") from None


def _create(kind: str, path: str) -> None:
    if kind == "Directory":
        os.makedirs(path, 0o755, exist_ok=True)
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


class _Token(msgspec.Struct, frozen=True):
    """A token is valid by the API's clock, so its times are those of the wall, also after a step or a suspend."""

    text: str
    issued_at: float
    renew_at: float

    @property
    def is_fresh(self) -> bool:
        return self.issued_at - LEEWAY_S <= time.time() < self.renew_at


class Volumes:
    """Volumes of one pod. `spec` returns the current pod."""

    def __init__(self, deps: Dependencies, spec: Callable[[], PodSpec]) -> None:
        self._deps = deps
        self._spec = spec
        self._ready = False
        self._due = 0.0
        self._failed = False
        """The files could not be updated."""
        self._reader = VersionedReader(deps.objects)
        self._tokens: dict[TokenRef, _Token] = {}
        self._shown: Shown = ()
        self._share = memory.PodShare(deps.node_info.root)
        self._writing = asyncio.Lock()
        """Two writers of one directory would each remove the version of the other."""
        self._tasks = Tasks()

    async def prepare(self, node: NodeFields) -> None:
        """Set up all volumes, once. Raises VolumeNotReady."""
        if self._ready:
            return
        for volume in volumes_of(self._spec()):
            try:
                await self._make(volume)
            except (VolumeNotReady, ContainerConfigInvalid, OSError) as error:
                raise VolumeNotReady(_failure(volume, error)) from None
        await self._write_alone(node)
        self._ready = True

    @property
    def sources(self) -> Iterable[Source]:
        """Return the objects that the files were made from."""
        return self._reader.versions

    def expire(self) -> None:
        """Compare the files with their sources at the next sync."""
        self._due = 0.0

    def outdated(self, versions: Versions) -> bool:
        """Return True if the next sync is to update the files: their sources have these versions."""
        fresh = all(token.is_fresh for token in self._tokens.values())
        if self._failed or not fresh or self._reader.outdated(versions):
            self.expire()
        return self._due == 0.0 and bool(self._written())

    def refresh(self, node: NodeFields) -> None:
        """Update the files in the background if they are outdated, or the pod no longer is as they show it."""
        fresh = self._due > time.monotonic() and self._shown == self._shown_by(self._spec())
        if fresh or len(self._tasks) or not self._written():
            return
        self._due = time.monotonic() + VERIFY_S
        self._tasks.start(self._refresh(node), "volumes", self._spec().uid)

    def close(self) -> None:
        self._tasks.cancel()

    async def _refresh(self, node: NodeFields) -> None:
        try:
            await self._write_alone(node)
            while self._shown != self._shown_by(self._spec()):
                await self._write_alone(node)
        except NodeplaneError as error:
            spec = self._spec()
            log.info("volumes not updated pod=%s/%s error=%s", spec.namespace, spec.name, error)

    @cached_property
    def _shows_pod(self) -> bool:
        return shows_pod(self._spec())  # the volumes of a pod never change

    def _shown_by(self, spec: PodSpec) -> Shown:
        """Return the fields of the pod that its files show and that may change."""
        if not self._shows_pod:
            return ()
        metadata, pod = spec.raw.get("metadata") or {}, spec.raw.get("spec") or {}
        resources = [container.raw.get("resources") for container in spec.containers]
        return metadata.get("labels"), metadata.get("annotations"), pod.get("resources"), resources

    def _written(self) -> list[views.Volume]:
        return [v for v in volumes_of(self._spec()) if kind_of(v) in WRITTEN]

    async def _make(self, volume: views.Volume) -> None:
        kind = kind_of(volume)
        if kind == HOST_PATH:
            await ready_host_path(volume[HOST_PATH])
        elif kind == EMPTY_DIR:
            await asyncio.to_thread(self._make_empty_dir, volume)

    def _make_empty_dir(self, volume: views.Volume) -> None:
        spec = self._spec()
        path = volume_path(spec, volume, self._deps.node_info.root)
        if (volume.get(EMPTY_DIR) or {}).get("medium") == memory.MEDIUM:
            memory.mount_tmpfs(path, volume, spec, self._deps.node_info.memory)
        _empty_dir(path, group_of(spec))

    async def _write_alone(self, node: NodeFields) -> None:
        """Write the files once no other task does. Raises VolumeNotReady."""
        async with self._writing:
            await self._write(node)

    async def _write(self, node: NodeFields) -> None:
        """Write the files of all volumes; one that fails does not hold up the others. Raises VolumeNotReady."""
        volumes, spec = self._written(), self._spec()
        self._shown = self._shown_by(spec)
        if not volumes:
            return
        self._due, self._failed = time.monotonic() + VERIFY_S, True
        try:
            contents = await fetch(self._reader, spec.namespace, volume_refs(spec))
        except ReferenceUnreadable as error:
            raise VolumeNotReady(str(error)) from None
        failures: list[str] = []
        for volume in volumes:
            try:
                await self._write_one(volume, Inputs(spec=spec, node=node, found=contents))
            except (VolumeNotReady, ContainerConfigInvalid, OSError) as error:
                failures.append(_failure(volume, error))
        if failures:
            raise VolumeNotReady(failures[0])
        self._failed = False

    async def _write_one(self, volume: views.Volume, inputs: Inputs) -> None:
        spec = inputs.spec
        tokens = {ref: await self._token(spec, ref) for ref in sorted(token_refs(volume))}
        await asyncio.to_thread(self._put, volume, msgspec.structs.replace(inputs, tokens=tokens))

    def _put(self, volume: views.Volume, inputs: Inputs) -> None:
        spec, root = inputs.spec, self._deps.node_info.root
        path, files = volume_path(spec, volume, root), payload(volume, inputs)
        check = self._share.count(path, files) if is_in_memory(path, root) else None
        atomic.write(path, files, group_of(spec), check)
        make_mount_points(path, nested_mount_points(spec).get(str(volume.get("name")), []))

    async def _token(self, spec: PodSpec, ref: TokenRef) -> str:
        held, now = self._tokens.get(ref), time.time()
        if held is not None and held.is_fresh:
            return held.text
        try:
            with span(spec.uid, "token", audience=ref.audience):
                text, seconds = await self._deps.objects.token(spec, ref.audience, ref.seconds)
        except NodeplaneError as error:
            raise VolumeNotReady(f"service account token: {error}") from None
        self._tokens[ref] = _Token(text, now, now + min(seconds * TOKEN_RENEWED, TOKEN_KEPT_S))
        return text


def group_of(spec: PodSpec) -> int:
    """Return fsGroup, -1 if there is none."""
    group = ((spec.raw.get("spec") or {}).get("securityContext") or {}).get("fsGroup")
    return -1 if group is None else int(group)


def _empty_dir(path: Path, group: int) -> None:
    """Create a directory that every container of the pod can write; its parents keep others out."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
    info = path.stat()
    if group >= 0 and (info.st_gid != group or not info.st_mode & stat.S_ISGID):
        os.chown(path, -1, group)
        path.chmod(0o2777)


def _failure(volume: views.Volume, error: Exception) -> str:
    return f'MountVolume.SetUp failed for volume "{volume.get("name", "")}" : {error}'
