"""Services: IP families, allocation, changes, and the records of what they hold, against upstream's rules and texts."""

import copy
import ipaddress
import json
from collections.abc import Collection
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kinds.served.errors import AllocationInvalid, RangeFull
from protocols.kinds.services.allocation import reservations
from protocols.kinds.services.services import ServiceStrategy, service_networks
from protocols.kube.meta import Object

PORT = {"port": 80}


def strategy(ranges: str = "10.96.0.0/24", *services: Object) -> ServiceStrategy:
    made = ServiceStrategy()
    made.ranges = service_networks(ranges)
    made.services = lambda: services
    return made


def created(by: ServiceStrategy, taken: Collection[str] = (), **spec: Any) -> Object:
    obj: Object = {"metadata": {"name": "s", "namespace": "ns", "uid": "u"}, "spec": {"ports": [dict(PORT)], **spec}}
    by.default(obj)
    by.prepare_create(obj)
    assert by.validate_create(obj) == []
    return by.allocate(obj, None, taken)


def updated(by: ServiceStrategy, old: Object, taken: Collection[str] = (), **changes: Any) -> tuple[Object, list[str]]:
    """Return the service after an update that sends the old spec with changes; None removes a field."""
    sent = {k: v for k, v in {**old["spec"], **changes}.items() if v is not None}
    new = copy.deepcopy({**old, "spec": sent})
    by.default(new)
    by.prepare_update(new, old)
    faults = [f"{cause.field}: {cause.message}" for cause in by.validate_update(new, old)]
    return (new if faults else by.allocate(new, old, taken)), faults


def faults_of(by: ServiceStrategy, **spec: Any) -> list[str]:
    obj: Object = {"metadata": {"name": "s"}, "spec": {"ports": [dict(PORT)], **spec}}
    by.default(obj)
    by.prepare_create(obj)
    return [f"{cause.field}: {cause.message}" for cause in by.validate_create(obj)]


def test_service_gets_an_address_of_the_range() -> None:
    spec = created(strategy())["spec"]
    assert ipaddress.ip_address(spec["clusterIP"]) in ipaddress.ip_network("10.96.0.0/24")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert int(spec["clusterIP"].rpartition(".")[2]) > 16, "users choose from the first ones"


@pytest.mark.parametrize(
    ("ranges", "spec", "families", "policy", "addresses"),
    [
        ("10.0.0.0/24", {"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], "SingleStack", 1),
        ("10.0.0.0/24", {"clusterIP": "None"}, ["IPv4", "IPv6"], "RequireDualStack", 1),
        ("10.0.0.0/24", {"ipFamilyPolicy": "PreferDualStack"}, ["IPv4"], "PreferDualStack", 1),
        ("10.0.0.0/24,fd00::/112", {}, ["IPv4"], "SingleStack", 1),
        ("10.0.0.0/24,fd00::/112", {"ipFamilyPolicy": "PreferDualStack"}, ["IPv4", "IPv6"], "PreferDualStack", 2),
        ("10.0.0.0/24,fd00::/112", {"ipFamilyPolicy": "RequireDualStack"}, ["IPv4", "IPv6"], "RequireDualStack", 2),
        ("10.0.0.0/24,fd00::/112", {"ipFamilies": ["IPv6"]}, ["IPv6"], "SingleStack", 1),
        ("fd00::/112", {}, ["IPv6"], "SingleStack", 1),
    ],
)
def test_families_follow_the_policy_and_the_ranges(
    ranges: str, spec: Object, families: list[str], policy: str, addresses: int
) -> None:
    found = created(strategy(ranges), **spec)["spec"]
    assert (found["ipFamilies"], found["ipFamilyPolicy"], len(found["clusterIPs"])) == (families, policy, addresses)
    for family, text in zip(families, found["clusterIPs"], strict=False):
        assert text == "None" or f"IPv{ipaddress.ip_address(text).version}" == family


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (
            {"ipFamilyPolicy": "RequireDualStack"},
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack '
            "services",
        ),
        ({"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'),
        ({"ipFamilies": ["IPv4", "IPv4"]}, 'spec.ipFamilies[1]: Duplicate value: "IPv4"'),
        (
            {"clusterIP": "fd00::1"},
            'spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster',
        ),
        (
            {"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.8"]},
            'spec.clusterIPs: Invalid value: ["10.96.0.8"]: first value must match `clusterIP`',
        ),
        ({"clusterIPs": ["10.96.0.8"]},
         'spec.clusterIPs: Invalid value: ["10.96.0.8"]: must be empty when `clusterIP` is not specified'),
        (
            {"clusterIP": "None", "clusterIPs": ["None", "10.96.0.8"]},
            'spec.clusterIPs: Invalid value: ["None","10.96.0.8"]: \'None\' must be the first and only value',
        ),
        ({"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.96.0.8"},
         "spec.clusterIPs: Forbidden: may not be set for ExternalName services"),
    ],
)  # fmt: skip
def test_families_and_addresses_that_contradict_are_invalid(spec: Object, fault: str) -> None:
    assert faults_of(strategy(), **spec) == [fault]


@pytest.mark.parametrize(
    ("requested", "taken", "why"),
    [
        ("10.97.0.1", (), "the provided network does not match the current range"),
        (
            "10.96.0.0",
            (),
            "the provided IP (10.96.0.0) is not in the valid range. The range of valid IPs is 10.96.0.0/24",
        ),
        ("10.96.0.7", ("/registry/ipaddresses/10.96.0.7",), "provided IP is already allocated"),
    ],
)  # fmt: skip
def test_address_requested_in_vain_is_invalid(requested: str, taken: tuple[str, ...], why: str) -> None:
    with pytest.raises(AllocationInvalid) as caught:
        created(strategy(), taken, clusterIP=requested)
    text = f'spec.clusterIPs: Invalid value: ["{requested}"]: failed to allocate IP {requested}: {why}'
    assert str(caught.value) == text


def test_address_requested_is_given() -> None:
    assert created(strategy(), clusterIP="10.96.0.7")["spec"]["clusterIPs"] == ["10.96.0.7"]


def test_address_after_a_conflict_is_one_that_nobody_has() -> None:
    """In a range of six, five of which are known or taken, the last one is found; then the range is full."""
    held = [{"metadata": {"name": f"s{n}"}, "spec": {"clusterIPs": [f"10.0.0.{n}"]}} for n in (2, 3, 4)]
    taken = {"/registry/ipaddresses/10.0.0.1", "/registry/ipaddresses/10.0.0.5"}
    by = strategy("10.0.0.0/29", *held)
    assert created(by, taken)["spec"]["clusterIP"] == "10.0.0.6"
    with pytest.raises(RangeFull, match="failed to allocate a serviceIP: range is full"):
        created(by, taken | {"/registry/ipaddresses/10.0.0.6"})


def test_external_name_has_no_addresses() -> None:
    spec = created(strategy(), type="ExternalName", externalName="a.b", ports=None)["spec"]
    assert {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"}.isdisjoint(spec)


def test_node_ports_are_allocated_and_shared_by_protocols() -> None:
    ports = [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}, {"name": "c", "port": 54}]
    first, second, third = (p["nodePort"] for p in created(strategy(), type="NodePort", ports=ports)["spec"]["ports"])
    assert first == second != third
    assert all(30000 <= number <= 32767 for number in (first, third))


def test_node_ports_after_a_conflict_are_searched_once() -> None:
    by, services = strategy(), Mock(return_value=[{"metadata": {}, "spec": {"ports": [{"nodePort": 30000}]}}])
    by.services = services
    ports = [{"name": f"p{n}", "port": n} for n in range(1, 101)]
    made = created(by, {"/registry/ranges/nodeports/30001"}, type="NodePort", clusterIP="10.96.0.9", ports=ports)
    numbers = {port["nodePort"] for port in made["spec"]["ports"]}
    assert (len(numbers), numbers & {30000, 30001}, services.call_count) == (100, set(), 1)


@pytest.mark.parametrize(
    ("number", "taken", "why"),
    [
        (80, (), "provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (30007, ("/registry/ranges/nodeports/30007",), "provided port is already allocated"),
    ],
)
def test_node_port_requested_in_vain_is_invalid(number: int, taken: tuple[str, ...], why: str) -> None:
    with pytest.raises(AllocationInvalid) as caught:
        created(strategy(), taken, type="NodePort", ports=[{"port": 80, "nodePort": number}])
    assert f"spec.ports[0].nodePort: Invalid value: {number}: {why}" in str(caught.value)


def test_load_balancer_has_node_ports_unless_it_declines() -> None:
    spec = created(strategy(), type="LoadBalancer", externalTrafficPolicy="Local")["spec"]
    assert spec["allocateLoadBalancerNodePorts"] is True
    assert spec["ports"][0]["nodePort"] != spec["healthCheckNodePort"]
    declined = created(strategy(), type="LoadBalancer", allocateLoadBalancerNodePorts=False)["spec"]
    assert "nodePort" not in declined["ports"][0]


def test_update_without_allocated_values_keeps_them() -> None:
    by = strategy()
    old = created(by, type="NodePort")
    new, faults = updated(by, old, clusterIP=None, clusterIPs=None, ipFamilies=None, ipFamilyPolicy=None, ports=[PORT])
    assert faults == []
    assert new["spec"] == old["spec"]


def test_update_of_the_type_allocates_and_releases() -> None:
    by = strategy()
    old = created(by)
    named, faults = updated(by, old, type="ExternalName", externalName="a.b")
    assert (faults, reservations(named)) == ([], {})
    assert {"clusterIP", "clusterIPs", "ipFamilies"}.isdisjoint(named["spec"])
    back, faults = updated(by, named, type="ClusterIP", externalName=None)
    assert faults == []
    assert len(reservations(back)) == 1
    opened, faults = updated(by, back, type="NodePort")
    assert faults == []
    assert opened["spec"]["ports"][0]["nodePort"] >= 30000
    closed, faults = updated(by, opened, type="ClusterIP")
    assert (faults, closed["spec"]) == ([], back["spec"])


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"clusterIP": "10.0.0.9"}, 'spec.clusterIPs[0]: Invalid value: ["10.0.0.9"]: may not change once set'),
        ({"clusterIP": "None"}, 'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'),
    ],
)
def test_update_of_the_first_address_is_invalid(changes: Object, fault: str) -> None:
    by = strategy("10.0.0.0/24,fd00::/112")
    assert updated(by, created(by, clusterIP="10.0.0.8"), **changes)[1] == [fault]


def test_second_address_comes_and_goes_with_the_policy() -> None:
    by = strategy("10.0.0.0/24,fd00::/112")
    one = created(by)
    two, faults = updated(by, one, ipFamilyPolicy="RequireDualStack")
    assert (faults, two["spec"]["ipFamilies"]) == ([], ["IPv4", "IPv6"])
    assert two["spec"]["clusterIPs"][0] == one["spec"]["clusterIP"]
    assert ipaddress.ip_address(two["spec"]["clusterIPs"][1]).version == 6
    again, faults = updated(by, two, ipFamilyPolicy="SingleStack")
    assert (faults, again["spec"]) == ([], one["spec"])
    fault = updated(by, two, clusterIPs=two["spec"]["clusterIPs"][:1])[1]
    assert fault == [
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary "
        "cluster IP"
    ]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"loadBalancerSourceRanges": ["nope"]}, "spec.LoadBalancerSourceRanges[0]: Invalid value: "),
        ({"loadBalancerClass": "a/b/c"}, "spec.loadBalancerClass: Invalid value: "),
        ({"externalIPs": ["169.254.1.1"]}, "spec.externalIPs[0]: Invalid value: "),
        ({"externalIPs": ["nope"]}, "spec.externalIPs[0]: Invalid value: "),
    ],
)
def test_load_balancer_with_one_fault_is_invalid(spec: Object, fault: str) -> None:
    (found,) = faults_of(strategy(), type="LoadBalancer", **spec)
    assert found.startswith(fault)
    assert faults_of(strategy(), type="LoadBalancer", loadBalancerSourceRanges=[" 10.0.0.0/8"]) == []


@pytest.mark.parametrize(("before", "after"), [("a/b", "a/c"), (None, "a/b"), ("a/b", None)])
def test_class_of_a_load_balancer_stays_until_its_type_changes(before: str | None, after: str | None) -> None:
    by = strategy()
    old = created(by, type="LoadBalancer", **({"loadBalancerClass": before} if before else {}))
    (fault,) = updated(by, old, loadBalancerClass=after)[1]
    assert fault.startswith("spec.loadBalancerClass: ")
    assert fault.endswith("may not change once set")
    assert updated(by, old, type="ClusterIP")[1] == []


@pytest.mark.parametrize(
    ("ingress", "fault"),
    [
        ({"ip": "1.2.3.4", "ipMode": "Proxy"}, ""),
        ({"ip": "nope"}, "ip: Invalid value: "),
        ({"hostname": "Bad_Host"}, "hostname: Invalid value: "),
        ({"hostname": "1.2.3.4"}, 'hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address'),
        ({"hostname": "a.b", "ipMode": "VIP"}, "ipMode: Forbidden: may not be specified when `ip` is not set"),
        ({"ip": "1.2.3.4", "ipMode": "Other"}, "ipMode: Unsupported value: "),
    ],
)
def test_address_of_a_load_balancer_is_checked(ingress: Object, fault: str) -> None:
    obj = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [dict(ingress)]}}}
    strategy().default_status(obj)
    found = [f"{cause.field}: {cause.message}" for cause in strategy().validate_status(obj, obj)]
    assert [each.startswith(f"status.loadBalancer.ingress[0].{fault}") for each in found] == [True] * bool(fault)


def test_address_of_a_load_balancer_ends_with_its_type() -> None:
    by = strategy()
    balancer = {**created(by, type="LoadBalancer"), "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    plain, faults = updated(by, balancer, type="ClusterIP")
    assert (faults, plain["status"]) == ([], {"loadBalancer": {}})
    (cause,) = by.validate_status({**plain, "status": balancer["status"]}, plain)
    assert str(cause.message) == "Forbidden: may only be used when `spec.type` is 'LoadBalancer'"


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"type": "NodePort", "clusterIP": "None"},
         "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"),
        ({"type": "ExternalName"}, "spec.externalName: Required value"),
        ({"externalTrafficPolicy": "Local"},
         'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'),
        ({"type": "LoadBalancer", "healthCheckNodePort": 30001},
         "spec.healthCheckNodePort: Invalid value: 30001: may only be set when `type` is 'LoadBalancer' and "
         "`externalTrafficPolicy` is 'Local'"),
    ],
)  # fmt: skip
def test_field_that_the_type_contradicts_is_invalid(spec: Object, fault: str) -> None:
    assert faults_of(strategy(), **spec) == [fault]


def test_external_name_may_end_with_a_dot_and_is_ignored_for_other_types() -> None:
    assert faults_of(strategy(), type="ExternalName", externalName="a.b.") == []
    assert faults_of(strategy(), externalName="A_") == []


def test_health_check_port_stays_and_is_of_the_range() -> None:
    by = strategy()
    old = created(by, type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=30001)
    assert updated(by, old, healthCheckNodePort=30002)[1] == ["spec.healthCheckNodePort: Forbidden: field is immutable"]
    for port, why in ((4000, "provided port is not in the valid range"), (30001, "provided port is already allocated")):
        with pytest.raises(AllocationInvalid, match=why):
            created(by, ["/registry/ranges/nodeports/30001"], type="LoadBalancer", externalTrafficPolicy="Local",
                    healthCheckNodePort=port)  # fmt: skip


def test_node_ports_end_with_the_type_though_a_port_goes_at_once() -> None:
    by = strategy()
    old = created(by, type="NodePort", ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "b"}])
    new, faults = updated(by, old, type="ClusterIP", ports=old["spec"]["ports"][:1])
    assert (faults, "nodePort" in new["spec"]["ports"][0]) == ([], False)


def test_address_of_a_load_balancer_is_virtual_by_default() -> None:
    obj: Object = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "a.b"}]}}}
    strategy().default_status(obj)
    assert obj["status"]["loadBalancer"]["ingress"] == [{"ip": "1.2.3.4", "ipMode": "VIP"}, {"hostname": "a.b"}]


def test_records_name_their_service_in_upstreams_form() -> None:
    service = created(strategy(), type="NodePort", clusterIP="10.96.0.7", ports=[{"port": 80, "nodePort": 30007}])
    found = reservations(service)
    assert list(found) == ["/registry/ipaddresses/10.96.0.7", "/registry/ranges/nodeports/30007"]
    address = json.loads(found["/registry/ipaddresses/10.96.0.7"])
    assert address["spec"] == {"parentRef": {"resource": "services", "namespace": "ns", "name": "s"}}
    assert address["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] == "ipallocator.k8s.io"
    assert found == reservations(service), "the same bytes each time"


@given(st.lists(st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]), min_size=1, max_size=6))
def test_records_follow_every_change_of_type(kinds: list[str]) -> None:
    """A service holds exactly what its spec shows, whatever types it had."""
    by = strategy()
    service = created(by)
    for kind in kinds:
        service, faults = updated(by, service, type=kind, externalName="a.b" if kind == "ExternalName" else None)
        assert faults == []
        spec, held = service["spec"], list(reservations(service))
        assert len(held) == {"ExternalName": 0, "ClusterIP": 1}.get(kind, 2), (kind, spec)
