"""Write the default roles and bindings at the first start, in the background."""

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
    """Creates missing defaults. Idempotent and safe in several processes: creation requires absence.

    The defaults are imported when they are written, to keep startup fast.
    """

    def __init__(self, storage: Storage, roles: Replica, bindings: Replica) -> None:
        self._storage = storage
        self._replicas = {"ClusterRole": roles, "ClusterRoleBinding": bindings}

    async def run(self) -> None:
        """Write the defaults, with retries until the store accepts them. Start once the replicas are filled."""
        from actors.apiserver.resources.rbac.defaults import default_objects

        while True:
            try:
                await self._write(default_objects())
                return
            except NodeplaneError as error:
                logging.getLogger(__name__).warning("default roles not written, will retry error=%s", error)
                await asyncio.sleep(RETRY_S)

    async def _write(self, wanted: list[dict[str, Any]]) -> None:
        """Create all defaults in one transaction if none exists, else the missing ones one by one."""
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
