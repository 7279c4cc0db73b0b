from pathlib import Path
from typing import Any

import pytest

from actors.podworker.clients.api import address, addresses
from actors.podworker.model.dependencies import Address
from actors.podworker.pods.containers.names import content, dns_config, has_hosts, hostname
from actors.podworker.pods.environment.services import service_variables
from actors.podworker.pods.workers import sync
from protocols.kinds import views
from protocols.kube.meta import UNROUTED, Object
from protocols.lifecycle.pods.types import read_pod
from tests.support.podworker_fakes import container, pod
from tests.support.podworker_scene import Scene, at_work

API = Address("127.0.0.1", 6443)
RESOLV = "# node\nsearch lab.example\nnameserver 192.0.2.53\noptions ndots:1 rotate\n"


def service(
    name: str, ip: str = "10.0.0.10", namespace: str = "ns", ports: list[views.ServicePort] | None = None
) -> views.Service:
    usual: list[views.ServicePort] = [{"name": "http", "port": 80}, {"name": "dns-udp", "port": 53, "protocol": "UDP"}]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": ip, "ports": ports or usual}}


def variables(*services: Any, **spec: Any) -> dict[str, str]:
    return service_variables(read_pod(pod(**spec)), services, API)


def test_a_service_of_the_namespace_becomes_host_port_and_link_variables() -> None:
    assert {k: v for k, v in variables(service("my-db")).items() if k.startswith("MY_DB")} == {
        "MY_DB_SERVICE_HOST": "10.0.0.10",
        "MY_DB_SERVICE_PORT": "80",
        "MY_DB_SERVICE_PORT_HTTP": "80",
        "MY_DB_SERVICE_PORT_DNS_UDP": "53",
        "MY_DB_PORT": "tcp://10.0.0.10:80",
        "MY_DB_PORT_80_TCP": "tcp://10.0.0.10:80",
        "MY_DB_PORT_80_TCP_PROTO": "tcp",
        "MY_DB_PORT_80_TCP_PORT": "80",
        "MY_DB_PORT_80_TCP_ADDR": "10.0.0.10",
        "MY_DB_PORT_53_UDP": "udp://10.0.0.10:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "10.0.0.10",
    }
    assert variables(service("six", ip="fd00::1"))["SIX_PORT"] == "tcp://[fd00::1]:80"


@pytest.mark.parametrize(
    "other",
    [
        service("there", namespace="elsewhere"),
        service("headless", ip="None"),
        service("none", ip=""),
        {"metadata": {"name": "portless", "namespace": "ns"}, "spec": {"clusterIP": "10.0.0.9"}},
        {"metadata": {"name": "odd", "namespace": "ns"}, "spec": {"clusterIP": "10.0.0.9", "ports": 5}},
        {"metadata": {"name": "odd", "namespace": "ns"}, "spec": {"clusterIP": "10.0.0.9", "ports": ["80"]}},
    ],
)
def test_other_namespaces_and_services_without_an_address_have_no_variables(other: views.Service) -> None:
    assert variables(other) == variables()


def test_service_kubernetes_that_nothing_routes_leaves_the_apis_own_address() -> None:
    routed = service("kubernetes", ip="10.96.0.1", namespace="default", ports=[{"name": "https", "port": 443}])
    routed["metadata"]["annotations"] = {UNROUTED: "true"}
    found = variables(addresses(routed), metadata={"namespace": "default"})
    assert (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_SERVICE_PORT"]) == ("127.0.0.1", "6443")


def test_the_apis_address_is_always_a_variable() -> None:
    assert variables(enableServiceLinks=False)["KUBERNETES_SERVICE_HOST"] == "127.0.0.1"
    assert variables()["KUBERNETES_SERVICE_PORT_HTTPS"] == "6443"
    named = service("kubernetes", ip="10.0.0.1", namespace="default", ports=[{"name": "https", "port": 443}])
    assert variables(named)["KUBERNETES_PORT"] == "tcp://10.0.0.1:443"
    own = service("kubernetes", ip="10.0.0.2")
    assert variables(named, own)["KUBERNETES_SERVICE_HOST"] == "10.0.0.2"
    assert variables(named, own, enableServiceLinks=False)["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"
    assert service_variables(read_pod(pod()), (), Address()) == {}


def test_what_is_kept_of_a_service_and_of_the_apis_url() -> None:
    assert address("https://127.0.0.1:6443") == API
    spec: views.ServiceSpec = {"clusterIP": "1.2.3.4", "ports": [], "selector": {}}
    full: views.Service = {"metadata": {"name": "a", "labels": {}}, "spec": spec}
    assert addresses(full) == {"metadata": {"name": "a"}, "spec": {"clusterIP": "1.2.3.4", "ports": []}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "p"),
        ({"hostname": "web-0"}, "web-0"),
        ({"hostname": "web-0", "subdomain": "web"}, "web-0"),
        ({"hostname": "web-0", "subdomain": "web", "setHostnameAsFQDN": True}, "web-0.web.ns.svc.cluster.local"),
        ({"setHostnameAsFQDN": True}, "p"),
        ({"hostNetwork": True, "hostname": "web-0"}, ""),
        ({"hostnameOverride": "mine.example"}, "mine.example"),
        ({"metadata": {"name": "a" * 62 + "-bc"}}, "a" * 62),
    ],
)
def test_host_name(spec: Object, expected: str) -> None:
    assert hostname(read_pod(pod(**spec))) == expected


async def test_qualified_name_that_is_too_long_for_linux_keeps_the_sandbox_from_being_created(tmp_path: Path) -> None:
    names: Any = {"hostname": "h" * 50, "subdomain": "s", "setHostnameAsFQDN": True}
    text = "is too long (64 characters is the max, 73 characters requested)"
    async with at_work(Scene(tmp_path, pod(**names))) as scene:
        await scene.until(lambda: "FailedCreatePodSandBox" in scene.fake.recorder.reasons())
        assert scene.fake.recorder.events[-1][2].endswith(text)
        assert scene.fake.runtime.count("run_sandbox") == 0


def test_hosts_file_of_a_pod_with_an_address_is_kubelets() -> None:
    spec = read_pod(
        pod(hostname="web-0", subdomain="web", hostAliases=[{"ip": "192.0.2.7", "hostnames": ["db", "db.example"]}])
    )
    text = content(spec, ("10.1.0.5", "fd00::5"), "192.0.2.1 node\n")
    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    names = "web-0.web.ns.svc.cluster.local\tweb-0\n"
    assert f"10.1.0.5\t{names}fd00::5\t{names}" in text
    assert text.endswith("192.0.2.7\tdb\tdb.example\n")
    assert "192.0.2.1" not in text


def test_hosts_file_on_the_nodes_network_is_the_nodes_with_more() -> None:
    aliased = read_pod(pod(hostNetwork=True, hostname="x", hostAliases=[{"ip": "192.0.2.7", "hostnames": ["db"]}]))
    assert content(aliased, (), "192.0.2.1 node\n") == (
        "# Kubernetes-managed hosts file (host network).\n192.0.2.1 node\n\n"
        "# Entries added by HostAliases.\n192.0.2.7\tdb\n"
    )
    named = read_pod(pod(hostname="web-0", subdomain="web"))
    assert content(named, (), "192.0.2.1 node\n") == (
        "# Kubernetes-managed hosts file.\n192.0.2.1 node\n127.0.0.1\tweb-0.web.ns.svc.cluster.local\tweb-0\n"
    )


@pytest.mark.parametrize(
    ("spec", "mounted", "expected"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"hostNetwork": True}, True, True),
        ({"hostNetwork": True, "hostAliases": [{"ip": "192.0.2.7", "hostnames": ["db"]}]}, False, True),
    ],
)
def test_hosts_file_is_made_where_it_can_be_mounted_or_adds_something(
    spec: Object, mounted: bool, expected: bool
) -> None:
    assert has_hosts(read_pod(pod(**spec)), (), mounted) is expected


def test_resolver() -> None:
    def made(**spec: Any) -> object:
        config = dns_config(read_pod(pod(container("a"), **spec)), RESOLV)
        return config and (list(config.servers), list(config.searches), list(config.options))

    more = {
        "nameservers": ["192.0.2.54", "192.0.2.53"],
        "searches": ["svc.example"],
        "options": [{"name": "ndots", "value": "5"}],
    }
    assert made() is None
    assert made(dnsPolicy="None", dnsConfig=more) == (["192.0.2.54", "192.0.2.53"], ["svc.example"], ["ndots:5"])
    assert made(dnsPolicy="ClusterFirst", dnsConfig=more) == (
        ["192.0.2.53", "192.0.2.54"],
        ["lab.example", "svc.example"],
        ["ndots:5", "rotate"],
    )


async def test_dns_beyond_the_limits_of_resolvers_is_left_out_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = [f"{number:02}.{'x' * 70}" for number in range(30)]
    nodes = f"search long.{'x' * 250} lab.example.\n" + "".join(f"nameserver 192.0.2.{n}\n" for n in range(3))
    monkeypatch.setattr(sync, "node_resolv", lambda spec: nodes)
    raw = pod(container("a"), dnsConfig={"nameservers": ["10.0.0.1"], "searches": ["lab.example", *searches]})
    scene = Scene(tmp_path, raw)
    config = dns_config(read_pod(raw), nodes)
    assert config is not None
    assert config.servers == ["192.0.2.0", "192.0.2.1", "192.0.2.2"]
    assert config.searches == ["lab.example", *searches[:27]]
    async with at_work(scene):
        await scene.running()
    texts = [text for _, reason, text in scene.fake.recorder.events if reason == "DNSConfigForming"]
    assert [text.partition(":")[2][:12] for text in texts] == [" 192.0.2.0 1", " lab.example"]
