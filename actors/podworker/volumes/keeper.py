"""The volumes of one pod: made before its first container, kept as their sources are while it runs.

No watch and no timer: a pod that has such volumes looks at their sources with its own resync, at most once a minute.
"""

import asyncio
import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from actors.podworker.environment.downward import Node
from actors.podworker.environment.references import fetch, volume_refs
from actors.podworker.errors import ContainerConfigInvalid, ReferenceUnreadable, VolumeNotReady
from actors.podworker.ports import World
from actors.podworker.types import Object, PodSpec
from actors.podworker.volumes import atomic, host_path, memory
from actors.podworker.volumes.paths import volume_path
from actors.podworker.volumes.payload import kind_of, payload, token_refs, volumes_of
from actors.podworker.volumes.types import EMPTY_DIR, HOST_PATH, WRITTEN, Inputs, TokenRef
from protocols.errors import NodeplaneError

REFRESH_S = 60.0
TOKEN_RENEWED = 0.8
"""Share of a token's life after which a new one is asked for."""
log = logging.getLogger("podworker")


class _Token(msgspec.Struct, frozen=True):
    text: str
    renew_at: float


class Volumes:
    """`spec` answers with the pod as it is now."""

    def __init__(self, world: World, spec: Callable[[], PodSpec]) -> None:
        self._world = world
        self._spec = spec
        self._ready = False
        self._due = 0.0
        self._tokens: dict[TokenRef, _Token] = {}
        self._task: asyncio.Task[None] | None = None

    async def prepare(self, node: Node) -> None:
        """Raises VolumeNotReady. Nothing to do once it succeeded."""
        if self._ready:
            return
        for volume in volumes_of(self._spec()):
            try:
                await asyncio.to_thread(self._make, volume)
            except (VolumeNotReady, ContainerConfigInvalid, OSError) as error:
                raise VolumeNotReady(_failure(volume, error)) from None
        await self._write(node)
        self._ready = True

    def refresh(self, node: Node) -> None:
        """Look at the sources again in the background, when a minute has passed."""
        if self._due > time.monotonic() or (self._task is not None and not self._task.done()) or not self._written():
            return
        self._due = time.monotonic() + REFRESH_S
        self._task = asyncio.get_running_loop().create_task(self._refresh(node))

    @property
    def follow_sources(self) -> bool:
        """They are looked at again each minute."""
        return bool(self._written())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _refresh(self, node: Node) -> None:
        try:
            await self._write(node)
        except NodeplaneError as error:
            spec = self._spec()
            log.info("volumes of pod %s/%s stay as they are: %s", spec.namespace, spec.name, error)

    def _written(self) -> list[Object]:
        return [v for v in volumes_of(self._spec()) if kind_of(v) in WRITTEN]

    def _make(self, volume: Object) -> None:
        spec, kind = self._spec(), kind_of(volume)
        if kind == HOST_PATH:
            host_path.prepare(volume[HOST_PATH])
        elif kind == EMPTY_DIR:
            path = volume_path(spec, volume, self._world.site.root)
            if (volume.get(EMPTY_DIR) or {}).get("medium") == memory.MEDIUM:
                memory.mount(path, volume, spec, self._world.site.memory)
            _empty_dir(path, group_of(spec))

    async def _write(self, node: Node) -> None:
        volumes, spec = self._written(), self._spec()
        if not volumes:
            return
        self._due = time.monotonic() + REFRESH_S
        inputs = await self._inputs(spec, node)
        for volume in volumes:
            try:
                files = await asyncio.to_thread(payload, volume, inputs)
                path = volume_path(spec, volume, self._world.site.root)
                await asyncio.to_thread(atomic.write, path, files, group_of(spec))
            except (VolumeNotReady, ContainerConfigInvalid, OSError) as error:
                raise VolumeNotReady(_failure(volume, error)) from None

    async def _inputs(self, spec: PodSpec, node: Node) -> Inputs:
        try:
            found = await fetch(self._world.objects, spec.namespace, volume_refs(spec))
        except ReferenceUnreadable as error:
            raise VolumeNotReady(str(error)) from None
        tokens = {ref: await self._token(spec, ref) for ref in sorted(token_refs(spec))}
        return Inputs(spec=spec, node=node, found=found, tokens=tokens)

    async def _token(self, spec: PodSpec, ref: TokenRef) -> str:
        held, now = self._tokens.get(ref), time.monotonic()
        if held is not None and now < held.renew_at:
            return held.text
        try:
            text, seconds = await self._world.objects.token(spec, ref.audience, ref.seconds)
        except NodeplaneError as error:
            raise VolumeNotReady(f"service account token: {error}") from None
        self._tokens[ref] = _Token(text, now + seconds * TOKEN_RENEWED)
        return text


def group_of(spec: PodSpec) -> int:
    """fsGroup, -1 when there is none."""
    group = ((spec.raw.get("spec") or {}).get("securityContext") or {}).get("fsGroup")
    return -1 if group is None else int(group)


def _empty_dir(path: Path, group: int) -> None:
    """Anybody in the pod may write; nobody else comes through the directories above."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
    found = path.stat()
    if group >= 0 and (found.st_gid != group or not found.st_mode & stat.S_ISGID):
        os.chown(path, -1, group)
        path.chmod(0o2777)


def _failure(volume: Object, error: Exception) -> str:
    return f'MountVolume.SetUp failed for volume "{volume.get("name", "")}" : {error}'
