"""Environment variables of services: those in the pod's namespace and the API server. Pure."""

from collections.abc import Iterable
from contextlib import suppress

from actors.podworker.model.dependencies import Address
from protocols.kinds import views
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.request_uri import uri_host
from protocols.lifecycle.pods.types import PodSpec

API_NAMESPACE, API_NAME = "default", "kubernetes"
HEADLESS = "None"


def service_variables(spec: PodSpec, services: Iterable[views.Service], api: Address) -> dict[str, str]:
    """Return the variables of the services visible to a pod.

    `services` are those of all namespaces. The API server's variables are always set, the others unless the pod has
    enableServiceLinks: false. A service of the wrong shape has none: another API server may have stored it, and it
    would keep all pods of its namespace from starting.
    """
    by_name = {_name(service): service for service in _visible(spec, services)}
    variables: dict[str, str] = {}
    for name in sorted(by_name):
        with suppress(*SHAPE_ERRORS):
            variables |= _variables(by_name[name])
    if API_NAME not in by_name and api.host:
        ports: list[views.ServicePort] = [{"name": "https", "port": api.port, "protocol": "TCP"}]
        variables |= _variables({"metadata": {"name": API_NAME}, "spec": {"clusterIP": api.host, "ports": ports}})
    return variables


def _visible(spec: PodSpec, services: Iterable[views.Service]) -> list[views.Service]:
    """Return the API's service, then the namespace's own, which override it if they have its name."""
    links = (spec.raw.get("spec") or {}).get("enableServiceLinks") is not False
    addressed = [service for service in services if _ip(service) not in ("", HEADLESS)]
    theirs = [s for s in addressed if _namespace(s) == API_NAMESPACE and _name(s) == API_NAME]
    return theirs + [s for s in addressed if links and _namespace(s) == spec.namespace]


def _variables(service: views.Service) -> dict[str, str]:
    """Return the variables of one service; its first port is also the service's."""
    ports = (service.get("spec") or {}).get("ports") or []
    if not ports:
        return {}
    prefix, ip = _upper(_name(service)), _ip(service)
    variables = {f"{prefix}_SERVICE_HOST": ip, f"{prefix}_SERVICE_PORT": str(ports[0].get("port"))}
    variables |= {f"{prefix}_SERVICE_PORT_{_upper(p['name'])}": str(p.get("port")) for p in ports if p.get("name")}
    variables[f"{prefix}_PORT"] = _url(ip, ports[0])
    for port in ports:
        link = f"{prefix}_PORT_{port.get('port')}_{_protocol(port)}"
        variables |= {link: _url(ip, port), f"{link}_PROTO": _protocol(port).lower()}
        variables |= {f"{link}_PORT": str(port.get("port")), f"{link}_ADDR": ip}
    return variables


def _url(ip: str, port: views.ServicePort) -> str:
    return f"{_protocol(port).lower()}://{uri_host(ip)}:{port.get('port')}"


def _protocol(port: views.ServicePort) -> str:
    return str(port.get("protocol") or "TCP").upper()


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def _name(service: views.Service) -> str:
    return str((service.get("metadata") or {}).get("name") or "")


def _namespace(service: views.Service) -> str:
    return str((service.get("metadata") or {}).get("namespace") or "")


def _ip(service: views.Service) -> str:
    return str((service.get("spec") or {}).get("clusterIP") or "")
