"""Keep the service `kubernetes` in `default`, with its Endpoints and EndpointSlice, as upstream's API server.

The service is created when it is missing and not changed otherwise. Where control planes share a store, each announces
its address by a key with a lease, and the endpoints are the announced ones, so that all of them want the same objects.
A kube-apiserver at the store announces itself by masterleases; then the endpoints are its own.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any

import msgspec

from actors.apiserver.api.stored import encode_object
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import KeyExists, RevisionConflict, Storage, Taken
from actors.apiserver.writes.metadata import stamp_new
from protocols.errors import NodeplaneError
from protocols.kinds.served.row import Served
from protocols.kinds.services.allocation import api_address
from protocols.kinds.services.services import service_networks
from protocols.kube.meta import SERVICE_NAME_LABEL, UNROUTED, Object

INTERVAL_S = 2.0
"""Longest absence of a deleted object."""
ANNOUNCED_S, ANNOUNCE_EACH = 15, 4
"""Seconds that an announcement holds, and rounds between two of them."""
ANNOUNCED, MASTERS = "/registry/apiservers/", "/registry/masterleases/"
NAMESPACE, NAME, PORT_NAME, PORT = "default", "kubernetes", "https", 443
SERVICES, ENDPOINTS, SLICES = "services", "endpoints", "endpointslices.discovery.k8s.io"


Server = tuple[int, str]
"""Port and address of an API server."""


class ApiAddress(msgspec.Struct, frozen=True):
    """Address of this plane's API server, and the ranges of its services."""

    host: str
    port: int
    ranges: str
    """CIDRs of services."""
    shared: bool
    """Other control planes may use the same store."""


class KubernetesService:
    """Reconciler of the service and its endpoints; faults are retried and logged when they change."""

    def __init__(self, storage: Storage, replicas: Mapping[str, Replica], address: ApiAddress) -> None:
        self._storage = storage
        self._replicas = {name: replicas[name] for name in (SERVICES, ENDPOINTS, SLICES)}
        self._address = address
        self._fault = ""

    async def run(self) -> None:
        round_number = 0
        while True:
            try:
                await self._reconcile(announce=round_number % ANNOUNCE_EACH == 0)
                self._fault = ""
            except (NodeplaneError, TimeoutError) as error:
                self._report(str(error))
            round_number += 1
            await asyncio.sleep(INTERVAL_S)

    def _report(self, fault: str) -> None:
        if fault != self._fault:
            logging.getLogger("apiserver").warning("service kubernetes not reconciled, will retry error=%s", fault)
        self._fault = fault

    async def _reconcile(self, announce: bool) -> None:
        await self._ensure(self._replicas[SERVICES], service(self._address))
        if servers := await self._servers(announce):
            await self._ensure(self._replicas[ENDPOINTS], endpoints(servers))
            await self._ensure(self._replicas[SLICES], endpoint_slice(servers))

    async def _servers(self, announce: bool) -> list[Server]:
        """Return the API servers at the store; none where a kube-apiserver writes the endpoints."""
        own = (self._address.port, self._address.host)
        if not self._address.shared:
            return [own]
        row, announcement = self._replicas[ENDPOINTS].resource, f"{ANNOUNCED}{own[0]}/{own[1]}"
        keys, _ = await self._storage.records(row, (ANNOUNCED, MASTERS))
        if announce or announcement not in keys:  # it expires while the machine is suspended or rounds are slow
            await self._storage.announce(row, announcement, b"{}", ANNOUNCED_S)
        if any(key.startswith(MASTERS) for key in keys):
            return []
        others = (key.removeprefix(ANNOUNCED).partition("/") for key in keys)
        return sorted({own, *((int(port), host) for port, _, host in others if _is_server(port, host))})

    async def _ensure(self, replica: Replica, wanted: Object) -> None:
        row = replica.resource
        held = replica.objects.get(f"{NAMESPACE}/{NAME}")
        try:
            if held is None:
                await self._storage.create(row, f"{NAMESPACE}/{NAME}", encode_object(_new(row, wanted)))
            elif row.plural != SERVICES and (better := corrected(held.obj, wanted)) is not None:
                await self._storage.update(row, held, encode_object(better))
        except (KeyExists, RevisionConflict):
            pass  # another process was faster
        except Taken as held_by_other:
            self._report(str(held_by_other))


def _is_server(port: str, host: str) -> bool:
    """Return True for an announcement as this module writes it; anyone at the store may write others."""
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host)) and port.isdecimal() and 0 < int(port) < 65536
    return False


def _new(row: Served, obj: Object) -> Object:
    stamp_new(obj, row)
    row.strategy.default(obj)
    row.strategy.prepare_create(obj)
    return row.strategy.allocate(obj, None)


def corrected(held: Object, wanted: Object) -> Object | None:
    """Return the object with the wanted content and labels; None if it has them. Others may add labels."""
    labels = (held.get("metadata") or {}).get("labels") or {}
    missing = wanted["metadata"]["labels"].items() - labels.items()
    parts = [part for part in wanted if part not in ("kind", "apiVersion", "metadata")]
    if not missing and all(held.get(part) == wanted[part] for part in parts):
        return None
    metadata: dict[str, Any] = {**held["metadata"], "labels": {**labels, **wanted["metadata"]["labels"]}}
    if metadata.get("generation"):
        metadata["generation"] += 1
    return {**held, "metadata": metadata, **{part: wanted[part] for part in parts}}


def service(address: ApiAddress) -> Object:
    """Return the service. It is marked, because pods are given the API's own address instead."""
    metadata = {
        "name": NAME,
        "namespace": NAMESPACE,
        "labels": {"component": "apiserver", "provider": "kubernetes"},
        "annotations": {UNROUTED: "true"},
    }
    port = {"name": PORT_NAME, "protocol": "TCP", "port": PORT, "targetPort": address.port}
    ip = api_address(service_networks(address.ranges)[0])
    spec = {"type": "ClusterIP", "clusterIP": ip, "ipFamilyPolicy": "SingleStack", "ports": [port]}
    return {"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": spec}


def _port(number: int) -> Object:
    return {"name": PORT_NAME, "port": number, "protocol": "TCP"}


def endpoints(servers: list[Server]) -> Object:
    """Return the Endpoints, with a subset for each port."""
    subsets = [
        {"addresses": [{"ip": host} for _, host in group], "ports": [_port(port)]}
        for port, group in groupby(servers, key=lambda server: server[0])
    ]
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    return {
        "kind": "Endpoints",
        "apiVersion": "v1",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "subsets": subsets,
    }


def endpoint_slice(servers: list[Server]) -> Object:
    """Return the slice: it has the port of the first server, and the addresses of its family with that port."""
    port, first = servers[0]
    version = ipaddress.ip_address(first).version
    hosts = [host for number, host in servers if number == port]
    same = [host for host in hosts if ipaddress.ip_address(host).version == version]
    return {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {SERVICE_NAME_LABEL: NAME}},
        "addressType": f"IPv{version}",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}} for host in same],
        "ports": [_port(port)],
    }
