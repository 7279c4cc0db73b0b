"""Write what upstream's API server creates by itself, at the first start and in the background.

That is the system namespaces, priority classes, default roles and bindings, and the config map from which
kube-scheduler, kube-controller-manager and extension API servers learn the CA of the API's clients.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

from actors.apiserver.api.stored import Stored, encode_object
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import KeyExists, RevisionConflict, Storage
from actors.apiserver.writes.metadata import stamp_new
from protocols.errors import NodeplaneError
from protocols.kinds.cluster.api_services import registrations
from protocols.kinds.cluster.priority_classes import system_classes
from protocols.kinds.served.row import Served

RETRY_S = 5.0
AT_ONCE = 100
"""Objects of one write; etcd allows 128."""
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
KINDS = {
    "Namespace": "namespaces",
    "ConfigMap": "configmaps",
    "ClusterRole": "clusterroles.rbac.authorization.k8s.io",
    "ClusterRoleBinding": "clusterrolebindings.rbac.authorization.k8s.io",
    "Role": "roles.rbac.authorization.k8s.io",
    "RoleBinding": "rolebindings.rbac.authorization.k8s.io",
    "PriorityClass": "priorityclasses.scheduling.k8s.io",
    "APIService": "apiservices.apiregistration.k8s.io",
}
"""Replica of each kind."""
AUTHENTICATION = "extension-apiserver-authentication"
REQUEST_HEADERS = {
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-username-headers": '["X-Remote-User"]',
}
"""Whose certificates may name a user, and in which headers: kubeadm's values."""
Object = dict[str, Any]


class Bootstrap:
    """Creates missing defaults. Idempotent and safe in several processes: creation requires absence.

    The roles are imported when they are written, to keep startup fast.
    """

    def __init__(
        self,
        storage: Storage,
        replicas: Mapping[str, Replica],
        authorities: Callable[[], tuple[str, str]],
        versions: Callable[[], dict[str, list[str]]],
    ) -> None:
        """`authorities` returns the CAs of clients and of front proxies, the latter empty if there is none.

        `versions` returns the built-in versions by group.
        """
        self._storage = storage
        self._replicas = {kind: replicas[store] for kind, store in KINDS.items()}
        self._authorities, self._versions = authorities, versions

    async def run(self) -> None:
        """Write the defaults, with retries until the store accepts them. Start once the replicas are filled."""
        while True:
            try:
                await self._write(await asyncio.to_thread(self._defaults))
                return
            except (NodeplaneError, OSError) as error:
                logging.getLogger(__name__).warning("default objects not written, will retry error=%s", error)
                await asyncio.sleep(RETRY_S)

    def _defaults(self) -> list[Object]:
        """Return all defaults. Takes milliseconds, so it runs in a thread."""
        from protocols.kinds.rbac.defaults import default_objects

        first = [*map(_namespace, NAMESPACES), *system_classes(), authentication(*self._authorities())]
        return [*first, *default_objects(), *registrations(self._versions())]

    async def _write(self, wanted: Iterable[Object]) -> None:
        """Create the missing objects, many in one write; complete the others one by one."""
        missing = []
        for obj in wanted:
            if self._held(obj) is None:
                missing.append(obj)
            elif self._better(obj) is not None:
                await self._ensure(obj)
        for _, same in groupby(missing, key=lambda obj: str(obj["kind"])):  # one kind lies in one store
            await self._create_all(list(same))

    async def _create_all(self, missing: list[Object]) -> None:
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            if not await self._storage.create_all([self._new(obj) for obj in some]):
                for obj in some:
                    await self._ensure(obj)

    def _held(self, obj: Object) -> Stored | None:
        return self._replicas[obj["kind"]].objects.get(self._key(obj))

    def _key(self, obj: Object) -> str:
        metadata = obj["metadata"]
        return self._replicas[obj["kind"]].resource.key(metadata.get("namespace", ""), metadata["name"])

    def _better(self, obj: Object) -> Object | None:
        from protocols.kinds.rbac.defaults import missing_in

        held = self._held(obj)
        if held is None or obj["kind"] in ("Namespace", "PriorityClass", "APIService"):
            return None
        return updated(held.obj, obj) if obj["kind"] == "ConfigMap" else missing_in(held.obj, obj)

    def _new(self, obj: Object) -> tuple[Served, str, bytes]:
        row = self._replicas[obj["kind"]].resource
        stamp_new(obj, row)
        row.strategy.default(obj)
        row.strategy.prepare_create(obj)
        return row, self._key(obj), encode_object(obj)

    async def _ensure(self, obj: Object) -> None:
        resource, held = self._replicas[obj["kind"]].resource, self._held(obj)
        try:
            if held is None:
                await self._storage.create(*self._new(obj))
            elif (better := self._better(obj)) is not None:
                await self._storage.update(resource, held, encode_object(better))
        except (KeyExists, RevisionConflict):
            pass  # another process was faster


def _namespace(name: str) -> Object:
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}


def authentication(client_ca: str, front_proxy_ca: str = "") -> Object:
    """Return the config map of CAs; without a front proxy it has the client CA only."""
    metadata = {"name": AUTHENTICATION, "namespace": "kube-system"}
    data = {"client-ca-file": client_ca}
    if front_proxy_ca:
        data |= {"requestheader-client-ca-file": front_proxy_ca, **REQUEST_HEADERS}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}


def updated(stored: Object, wanted: Object) -> Object | None:
    """Return the config map with our data; None if it has them. Others may add keys, as those of a front proxy."""
    held = stored.get("data") or {}
    return None if wanted["data"].items() <= held.items() else {**stored, "data": {**held, **wanted["data"]}}
