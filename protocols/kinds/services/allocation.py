"""Allocate cluster IPs and node ports of services, and name the keys that reserve them. Pure.

A service and the records of what it holds are written in one transaction that requires the records' absence, so no two
services have the same address, whatever API server process wrote them. An address is chosen at random first; after a
conflict it is chosen among those that no known service has.

Cluster IPs are recorded as upstream's IPAddress objects, so that a kube-apiserver at the same store respects them.
"""

import ipaddress
import random
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from protocols.kinds.check.causes import Cause, invalid, too_many
from protocols.kinds.check.values import address
from protocols.kinds.served.errors import RangeFull
from protocols.kinds.services.families import EXTERNAL, HEADLESS, IPS, cluster_ips
from protocols.kinds.table import IPADDRESSES
from protocols.kube.meta import Object
from protocols.kube.objects import items

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

ADDRESSES, PORTS = "/registry/ipaddresses/", "/registry/ranges/nodeports/"
FIRST_PORT, LAST_PORT = 30000, 32767
MAX_PORTS = 100
"""Node ports of one service: etcd takes 128 operations in a transaction."""
MIN_STATIC, MAX_STATIC = 16, 256
"""Addresses at the begin of a range that are used last, since users choose theirs there."""
SCANNED = 1 << 16
"""Addresses of a range that are searched for a free one."""


class Allocation(msgspec.Struct, frozen=True):
    """Inputs of one attempt to allocate."""

    ranges: tuple[Network, ...]
    taken: Collection[str]
    """Keys of records that others hold, from failed attempts of this request."""
    services: Callable[[], Iterable[Object]]
    """The services that this process knows."""

    def assign(self, spec: Object, before: Object | None) -> list[Cause]:
        """Set the missing addresses and ports; return what cannot be had."""
        causes = self._assign_ips(spec, before)
        if needs_ports(spec):
            causes += self._assign_ports(spec, before)
        if needs_health_port(spec):
            causes += self._assign_health_port(spec, before)
        return causes

    def _assign_health_port(self, spec: Object, before: Object | None) -> list[Cause]:
        if not (requested := spec.get("healthCheckNodePort")):
            spec["healthCheckNodePort"] = next(self._free_ports(spec))
        elif requested not in node_ports(before or {}) and (why := self._port_fault(requested)):
            return [invalid("spec.healthCheckNodePort", requested, why)]
        return []

    def _assign_ips(self, spec: Object, before: Object | None) -> list[Cause]:
        ips = cluster_ips(spec)
        if spec.get("type") == EXTERNAL or ips[:1] == [HEADLESS]:
            return []
        held = cluster_ips(before or {})
        causes = [cause for ip in ips if ip not in held for cause in self._ip_causes(ip, ips)]
        if before is not None and held[:1] == [HEADLESS]:
            return causes
        for family in (spec.get("ipFamilies") or ())[len(ips) :]:
            ips.append(self._free_ip(family))
        if ips:
            spec["clusterIP"], spec["clusterIPs"] = ips[0], ips
        return causes

    def _ip_causes(self, text: str, ips: list[str]) -> list[Cause]:
        """Check an address that the client requests."""
        ip = address(text)
        network = next((net for net in self.ranges if ip is not None and ip in net), None)
        if ip is None or network is None:
            why = "the provided network does not match the current range"
        elif ip not in _usable(network):
            why = f"the provided IP ({ip}) is not in the valid range. The range of valid IPs is {network}"
        elif _ip_key(ip) in self.taken:
            why = "provided IP is already allocated"
        else:
            return []
        return [invalid(IPS, ips, f"failed to allocate IP {text}: {why}")]

    def _free_ip(self, family: str) -> str:
        network = next((net for net in self.ranges if f"IPv{net.version}" == family), None)
        if network is None:
            raise RangeFull(f"failed to allocate a serviceIP: {family} is not configured on this cluster")
        usable = _usable(network)
        if not self.taken:
            return str(usable[random.randrange(usable.static, usable.size)])
        used = {key for service in self.services() for key in reservations(service)} | set(self.taken)
        free = next((str(ip) for ip in usable.shuffled() if _ip_key(ip) not in used), "")
        if not free:
            raise RangeFull("failed to allocate a serviceIP: range is full")
        return free

    def _assign_ports(self, spec: Object, before: Object | None) -> list[Cause]:
        ports, held = items(spec, "ports"), node_ports(before or {})
        automatic = spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
        if len(ports) > MAX_PORTS:
            return [too_many("spec.ports", len(ports), MAX_PORTS)]
        causes, shared, free = list[Cause](), dict[object, int](), self._free_ports(spec)
        for port in ports:
            if port.get("nodePort") and port.get("port") not in shared:
                shared[port.get("port")] = port["nodePort"]
        for number, port in enumerate(ports):
            if requested := port.get("nodePort"):
                if requested not in held and (why := self._port_fault(requested)):
                    causes.append(invalid(f"spec.ports[{number}].nodePort", requested, why))
            elif automatic:
                # ports of the same number and another protocol share it
                same_number = shared.get(port.get("port")) if before is None else None
                port["nodePort"] = same_number or next(free)
                shared[port.get("port")] = port["nodePort"]
        return causes

    def _port_fault(self, number: int) -> str:
        if not FIRST_PORT <= number <= LAST_PORT:
            return f"provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
        return "provided port is already allocated" if _port_key(number) in self.taken else ""

    def _free_ports(self, spec: Object) -> Iterator[int]:
        """Yield different numbers that nobody has, in random order. Raises RangeFull after the last one."""
        specs = [spec, *(service.get("spec") or {} for service in (self.services() if self.taken else ()))]
        used = {number for each in specs for number in node_ports(each)}
        for number in random.sample(range(FIRST_PORT, LAST_PORT + 1), LAST_PORT + 1 - FIRST_PORT):
            if number not in used and _port_key(number) not in self.taken:
                yield number
        raise RangeFull("failed to allocate a nodePort: range is full")


class _Usable:
    """The addresses of a range without its own and, of IPv4, the broadcast one."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.size = network.num_addresses - (2 if network.version == 4 else 1)
        self.static = min(max(MIN_STATIC, network.num_addresses // 16), MAX_STATIC, self.size - 1)

    def __getitem__(self, number: int) -> Address:
        return self.network[number + 1]

    def __contains__(self, ip: Address) -> bool:
        return 0 < int(ip) - int(self.network.network_address) <= self.size

    def shuffled(self) -> Iterator[Address]:
        """Yield addresses in random order, those that users choose last, without the API server's."""
        for low, high in ((self.static, self.size), (1, self.static)):
            for number in random.sample(range(low, high), min(high - low, SCANNED)):
                yield self[number]


def _usable(network: Network) -> _Usable:
    return _Usable(network)


def api_address(network: Network) -> str:
    """Return the address of the service `kubernetes`: the first one."""
    return str(network[1])


def needs_ports(spec: Object) -> bool:
    """Return True if each port of the service gets a node port."""
    return spec.get("type") in ("LoadBalancer", "NodePort")


def takes_external_traffic(spec: Object) -> bool:
    """Return True if externalTrafficPolicy applies to the service."""
    return needs_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_port(spec: Object) -> bool:
    """Return True if the service gets a port on which nodes report endpoints of their own."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def node_ports(spec: Object) -> list[int]:
    """Return the node ports, that of health checks included."""
    numbers = [port["nodePort"] for port in items(spec, "ports") if port.get("nodePort")]
    return [*numbers, spec["healthCheckNodePort"]] if spec.get("healthCheckNodePort") else numbers


def _ip_key(ip: Address) -> str:
    return f"{ADDRESSES}{ip}"


def _port_key(number: int) -> str:
    return f"{PORTS}{number}"


def reservations(service: Object) -> dict[str, bytes]:
    """Return the records of what a stored service holds, by key."""
    spec, metadata = service.get("spec") or {}, service["metadata"]
    records = {}
    for text in cluster_ips(spec):
        if text != HEADLESS and (ip := address(text)) is not None:
            records[_ip_key(ip)] = msgspec.json.encode(_ip_object(ip, metadata))
    owner = msgspec.json.encode({"namespace": metadata.get("namespace", ""), "name": metadata["name"]})
    return records | {_port_key(number): owner for number in node_ports(spec)}


def _ip_object(ip: Address, owner: Object) -> Object:
    """Return upstream's IPAddress of a service's address: the same bytes each time."""
    labels = {
        "ipaddress.kubernetes.io/ip-family": f"IPv{ip.version}",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    metadata = {
        "name": str(ip),
        "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{owner.get('uid')}/{ip}")),
        "creationTimestamp": owner.get("creationTimestamp"),
        "labels": labels,
    }
    parent = {"resource": "services", "namespace": owner.get("namespace", ""), "name": owner["name"]}
    return {
        **IPADDRESSES.type_meta,
        "metadata": metadata,
        "spec": {"parentRef": parent},
    }
