"""Find the pod that pods/NAME/proxy and services/NAME/proxy lead to.

A name is NAME, NAME:PORT or SCHEME:NAME:PORT. As upstream, a service leads to a ready endpoint of its EndpointSlices;
without one, to an address of its Endpoints, which no controller mirrors here. Either must be the address of a pod of
its namespace: who writes them does not choose where the API server connects.
"""

import random
from collections.abc import Awaitable, Callable, Iterator
from ipaddress import ip_address

import msgspec

from actors.apiserver.api.errors import NEVER_AGAIN, BadRequest, ServiceUnavailable
from actors.apiserver.api.request.target import Target, not_found
from actors.apiserver.reads.endpoints import Slices, ready_endpoints
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text

SCHEMES = ("", "http", "https")
MOST_TRIES = 16
"""Endpoints of a service whose pods are looked up for one request."""
Stored = Callable[[str, str, str], Awaitable[Object | None]]
"""Reads the newest object by plural, namespace and name."""


class Backend(msgspec.Struct, frozen=True):
    """Port of a pod that a proxy connects to."""

    scheme: str
    host: str
    port: int

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return how the backend may name itself in a redirect."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host, f"{host}:{self.port}"


class Backends:
    """Pods may have loopback addresses if the API server's own `advertised` one is: all is on one machine."""

    def __init__(self, stored: Stored, slices: Slices, advertised: str) -> None:
        self._stored, self._slices, self._loopback = stored, slices, ip_address(advertised).is_loopback

    async def named(self, target: Target) -> Object:
        """Return the pod or service. Raises NotFound, BadRequest."""
        _, name, _ = split_name(target.name, target.resource.singular)
        stored = await self._stored(target.resource.plural, target.namespace, name)
        if stored is None:
            raise not_found(target.resource, name)
        return stored

    async def find(self, target: Target, obj: Object) -> Backend:
        """Return where the pod or service leads. Raises BadRequest, ServiceUnavailable."""
        scheme, _, port = split_name(target.name, target.resource.singular)
        if target.resource.singular == "service":
            host, number = await self._endpoint(obj, port)
        else:
            usual = "443" if scheme == "https" else "80"
            host, number = _pod_address(obj), port_number(port or _first_port(obj) or usual, target.name)
        return Backend(scheme or "http", self._allowed(host), number)

    def _allowed(self, host: str) -> str:
        """Return an address that is a pod's. Raises BadRequest: a node could report the API server's own."""
        try:
            address = ip_address(host)
        except ValueError:
            raise BadRequest("address not allowed") from None
        address = getattr(address, "ipv4_mapped", None) or address  # ::ffff:127.0.0.1 leads to 127.0.0.1
        loopback = address.is_loopback and self._loopback
        local = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
        if local and not loopback:
            raise BadRequest("address not allowed")
        return host

    async def _endpoint(self, service: Object, port: str) -> tuple[str, int]:
        namespace, name = text(service, "metadata", "namespace"), text(service, "metadata", "name")
        wanted = _port_name(service, port)
        candidates = list(ready_endpoints(self._slices(namespace), name, wanted))
        if not candidates:
            candidates = list(_candidates(await self._stored("endpoints", namespace, name) or {}, wanted))
        first = random.randrange(len(candidates)) if candidates else 0
        for host, number, pod in (candidates[first:] + candidates[:first])[:MOST_TRIES]:
            stored = await self._stored("pods", namespace, pod)
            if stored is not None and host in _addresses(stored):
                return host, number
        raise ServiceUnavailable(f'no endpoints available for service "{name}"', NEVER_AGAIN)


def split_name(name: str, kind: str) -> tuple[str, str, str]:
    """Return scheme, name and port. Raises BadRequest."""
    match name.split(":"):
        case [only] if only:
            return "", only, ""
        case [only, port] if only:
            return "", only, port
        case [scheme, only, port] if only and scheme in SCHEMES:
            return scheme, only, port
    raise BadRequest(f'invalid {kind} request "{name}"')


def port_number(port: str, name: str) -> int:
    """Raises BadRequest."""
    if not port.isascii() or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise BadRequest(f'invalid pod request "{name}"')
    return int(port)


def _pod_address(pod: Object) -> str:
    return text(pod, "status", "podIP")


def _first_port(pod: Object) -> str:
    """Return the first port of the first container that has any; empty without one."""
    ports = (port for container in items(pod, "spec", "containers") for port in items(container, "ports"))
    return str(at(next(ports, {}), "containerPort") or "")


def _port_name(service: Object, port: str) -> str:
    """Return the name of a port of the service that is given by name or number. Raises ServiceUnavailable."""
    if not port.isascii() or not port.isdecimal():
        return port
    for declared in items(service, "spec", "ports"):
        if str(at(declared, "port")) == port:
            return text(declared, "name")
    name = text(service, "metadata", "name")
    raise ServiceUnavailable(f'no service port {port} found for service "{name}"', NEVER_AGAIN)


def _candidates(endpoints: Object, port: str) -> Iterator[tuple[str, int, str]]:
    """Yield address, port and pod of each endpoint that has the port."""
    for subset in items(endpoints, "subsets"):
        number = next(
            (at(subset_port, "port") for subset_port in items(subset, "ports") if text(subset_port, "name") == port),
            None,
        )
        if isinstance(number, int):
            backed = (address for address in items(subset, "addresses") if text(address, "targetRef", "kind") == "Pod")
            yield from ((text(endpoint, "ip"), number, text(endpoint, "targetRef", "name")) for endpoint in backed)


def _addresses(pod: Object) -> set[str]:
    return {_pod_address(pod), *(text(pod_ip, "ip") for pod_ip in items(pod, "status", "podIPs"))} - {""}
