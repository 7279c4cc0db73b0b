"""The pods that services/NAME/proxy may lead to."""

import msgspec
import pytest

from actors.apiserver.api.errors import BadRequest, ServiceUnavailable
from actors.apiserver.api.request.target import Target
from actors.apiserver.http.nodes.backends import MOST_TRIES, Backend, Backends
from actors.apiserver.http.nodes.dialing import node_error
from actors.apiserver.http.nodes.location import Location
from actors.apiserver.http.nodes.proxy import moved
from protocols.kinds.pods.pods import PODS
from protocols.kinds.services.network import SERVICES
from protocols.kube.meta import SERVICE_NAME_LABEL, Object


class Stored:
    """Objects of one namespace by plural and name; counts how many pods are read."""

    def __init__(self, **objects: Object) -> None:
        self.objects = objects
        self.pods_read = 0

    async def __call__(self, plural: str, namespace: str, name: str) -> Object | None:
        assert namespace == "ns"
        self.pods_read += plural == "pods"
        found: Object | None = self.objects.get(f"{plural}_{name}")
        return found

    def slices(self, namespace: str) -> list[Object]:
        assert namespace == "ns"
        return [obj for key, obj in self.objects.items() if key.startswith("endpointslices_")]


def service(*ports: tuple[str, int]) -> Object:
    named = [{"name": name, "port": port} for name, port in ports]
    return {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"ports": named}}


def endpoints(*addresses: tuple[str, str], ports: tuple[tuple[str, int], ...] = (("web", 8080),)) -> Object:
    backed = [{"ip": ip, **({"targetRef": {"kind": "Pod", "name": pod}} if pod else {})} for ip, pod in addresses]
    return {"subsets": [{"addresses": backed, "ports": [{"name": name, "port": port} for name, port in ports]}]}


def endpoint_slice(ip: str, pod: str, service: str = "s", port: str = "web", **conditions: bool | None) -> Object:
    target = {"targetRef": {"kind": "Pod", "name": pod}}
    return {
        "metadata": {"labels": {SERVICE_NAME_LABEL: service}},
        "endpoints": [{"addresses": [ip], "conditions": conditions, **target}],
        "ports": [{"name": port, "port": 8080}],
    }


def pod(ip: str, *more: str) -> Object:
    return {"metadata": {"name": "p"}, "status": {"podIP": ip, "podIPs": [{"ip": each} for each in (ip, *more)]}}


async def found(stored: Stored, name: str, advertised: str = "10.0.0.1") -> Backend:
    return await _found(Backends(stored, stored.slices, advertised), Target(SERVICES, "get", "ns", name, "proxy"))


async def _found(backends: Backends, target: Target) -> Backend:
    return await backends.find(target, await backends.named(target))


@pytest.mark.parametrize(
    ("name", "scheme", "port"), [("p", "http", 80), ("http:p:", "http", 80), ("https:p:", "https", 443)]
)
async def test_pod_without_ports_has_the_one_of_its_scheme(name: str, scheme: str, port: int) -> None:
    stored = Stored(pods_p=pod("10.1.0.1"))
    target = Target(PODS, "get", "ns", name, "proxy")
    backends = Backends(stored, stored.slices, "10.0.0.1")
    assert await _found(backends, target) == Backend(scheme, "10.1.0.1", port)


async def test_service_leads_to_the_address_of_a_pod_by_port_name_or_number() -> None:
    stored = Stored(
        services_s=service(("web", 80), ("metrics", 81)),
        endpoints_s=endpoints(("10.1.0.1", "p"), ports=(("web", 8080), ("metrics", 9090))),
        pods_p=pod("10.1.0.2", "10.1.0.1"),
    )
    assert await found(stored, "s:web") == Backend("http", "10.1.0.1", 8080)
    assert await found(stored, "https:s:81") == Backend("https", "10.1.0.1", 9090)
    with pytest.raises(ServiceUnavailable, match='no endpoints available for service "s"') as lasting:
        await found(stored, "s")
    assert not lasting.value.retry_after


async def test_service_leads_to_a_ready_endpoint_of_its_slices_rather_than_to_endpoints() -> None:
    stored = Stored(
        services_s=service(("web", 80)),
        endpoints_s=endpoints(("10.1.0.2", "old")),
        endpointslices_a=endpoint_slice("10.1.0.3", "p", ready=False),
        endpointslices_b=endpoint_slice("10.1.0.4", "p", service="other", ready=True),
        endpointslices_c=endpoint_slice("10.1.0.5", "p", port="metrics", ready=True),
        endpointslices_d=endpoint_slice("10.1.0.1", "p", ready=None),
        pods_p=pod("10.1.0.1", "10.1.0.3", "10.1.0.4", "10.1.0.5"),
        pods_old=pod("10.1.0.2"),
    )
    for _ in range(8):
        assert await found(stored, "s:web") == Backend("http", "10.1.0.1", 8080)
    del stored.objects["endpointslices_d"]
    assert await found(stored, "s:80") == Backend("http", "10.1.0.2", 8080)


async def test_address_of_a_slice_that_is_no_pods_is_not_reached() -> None:
    """Who writes EndpointSlices must not choose where the API server connects."""
    slices = {"endpointslices_a": endpoint_slice("10.9.9.9", "p"), "endpointslices_b": endpoint_slice("10.1.0.1", "q")}
    stored = Stored(services_s=service(("web", 80)), pods_p=pod("10.1.0.1"), **slices)
    with pytest.raises(ServiceUnavailable):
        await found(stored, "s:web")


@pytest.mark.parametrize("address", [("10.9.9.9", ""), ("10.9.9.9", "p"), ("10.1.0.1", "other")])
async def test_address_that_is_no_pods_is_not_reached(address: tuple[str, str]) -> None:
    """Who writes Endpoints must not choose where the API server connects."""
    stored = Stored(services_s=service(("web", 80)), endpoints_s=endpoints(address), pods_p=pod("10.1.0.1"))
    with pytest.raises(ServiceUnavailable):
        await found(stored, "s:web")


async def test_many_endpoints_without_pods_cost_few_reads() -> None:
    addresses = [(f"10.2.{number // 250}.{number % 250}", f"p{number}") for number in range(1000)]
    stored = Stored(services_s=service(("web", 80)), endpoints_s=endpoints(*addresses))
    with pytest.raises(ServiceUnavailable):
        await found(stored, "s:web")
    assert stored.pods_read == MOST_TRIES


@pytest.mark.parametrize(("advertised", "allowed"), [("127.0.0.1", True), ("10.0.0.1", False)])
async def test_loopback_is_a_pods_only_where_all_is_on_one_machine(advertised: str, allowed: bool) -> None:
    """A node of another machine reports the addresses of its pods."""
    stored = Stored(pods_p=pod("127.0.0.1"))
    backends = Backends(stored, stored.slices, advertised)
    target = Target(PODS, "get", "ns", "p:8080", "proxy")
    if allowed:
        assert await _found(backends, target) == Backend("http", "127.0.0.1", 8080)
    else:
        with pytest.raises(BadRequest, match="address not allowed"):
            await _found(backends, target)


@pytest.mark.parametrize("ip", ["::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0.0.0.0", "127.0.0.1", "::1"])
async def test_address_of_the_api_server_itself_is_not_reached_in_any_notation(ip: str) -> None:
    stored = Stored(services_s=service(("web", 80)), endpoints_s=endpoints((ip, "p")), pods_p=pod(ip))
    with pytest.raises(BadRequest, match="address not allowed"):
        await found(stored, "s:web")


def test_moved_redirect_to_the_root_stays_below_the_proxy() -> None:
    hosts = Backend("http", "10.1.0.1", 8080).hosts
    assert moved("http://10.1.0.1:8080", "/base/proxy", hosts) == "/base/proxy/"
    assert moved("http://10.1.0.1:8080?a=b", "/base/proxy", hosts) == "/base/proxy/?a=b"
    assert moved("next", "/base/proxy", hosts) == "next"


@pytest.mark.parametrize(
    "status", [{}, {"code": "x"}, {"code": 200}, {"code": 404, "details": [1]}, {"code": 404, "details": "x"},
               {"code": 429, "details": {"retryAfterSeconds": "x"}}],
)  # fmt: skip
def test_node_error_status_that_is_no_failure_is_a_text(status: Object) -> None:
    where = Location("n", "10.0.0.1", 10250, "/", ())
    error = node_error(where, 500, msgspec.json.encode({"kind": "Status", **status}))
    assert (error.code, error.retry_after) == (500, 0)


def test_node_error_status_is_passed_on() -> None:
    where = Location("n", "10.0.0.1", 10250, "/", ())
    error = node_error(where, 404, b'{"kind":"Status","code":404,"message":"no such container"}')
    assert (error.code, str(error)) == (404, "no such container")
