"""Writes the default roles and bindings at the first start, without anybody waiting for it."""

import asyncio
import logging
from typing import Any

from actors.apiserver.api.resource import Resource
from actors.apiserver.api.stored import encode_object
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import KeyExists, RevisionConflict, Storage
from actors.apiserver.writes.metadata import stamp_new
from protocols.errors import NodeplaneError

RETRY_S = 5.0


class Bootstrap:
    """Idempotent, and harmless when several processes do it side by side: creation is guarded by absence.

    The defaults are imported when they are written, so that no start waits for them.
    """

    def __init__(self, storage: Storage, roles: Replica, bindings: Replica) -> None:
        self._storage = storage
        self._replicas = {"ClusterRole": roles, "ClusterRoleBinding": bindings}

    async def run(self) -> None:
        """Once the replicas are filled. Comes back until the store has taken everything."""
        from actors.apiserver.resources.rbac.defaults import default_objects

        while True:
            try:
                await self._write(default_objects())
                return
            except NodeplaneError as error:
                logging.getLogger(__name__).warning("default roles are not written yet: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _write(self, wanted: list[dict[str, Any]]) -> None:
        """All at once where nothing is there yet, which is one write; else one by one what is missing."""
        lacking = [obj for obj in wanted if self._lacks(obj)]
        if len(lacking) == len(wanted) and await self._storage.create_all([self._new(obj) for obj in lacking]):
            return
        for obj in lacking:
            await self._ensure(obj)

    def _lacks(self, obj: dict[str, Any]) -> bool:
        from actors.apiserver.resources.rbac.defaults import missing_in

        held = self._replicas[obj["kind"]].objects.get(obj["metadata"]["name"])
        return held is None or missing_in(held.obj, obj) is not None

    def _new(self, obj: dict[str, Any]) -> tuple[Resource, str, bytes]:
        row = self._replicas[obj["kind"]].resource
        stamp_new(obj, row)
        return row, obj["metadata"]["name"], encode_object(obj)

    async def _ensure(self, obj: dict[str, Any]) -> None:
        from actors.apiserver.resources.rbac.defaults import missing_in

        replica, name = self._replicas[obj["kind"]], obj["metadata"]["name"]
        held = replica.objects.get(name)
        try:
            if held is None:
                await self._storage.create(*self._new(obj))
            elif (better := missing_in(held.obj, obj)) is not None:
                await self._storage.update(replica.resource, held, encode_object(better))
        except (KeyExists, RevisionConflict):
            pass  # another process was faster
