"""Addresses that programs read differently: invalid where they are new, valid where they are stored."""

from typing import Any

import pytest

from actors.apiserver.table import TABLE
from protocols.kinds.check.causes import Cause
from protocols.kube.meta import Object

ZEROS, MAPPED = "must not have leading 0s", "must not be an IPv4-mapped IPv6 address"
BLOCK = "spec.ingress[0].from[0].ipBlock"


def policy(cidr: str, *excepted: str) -> Object:
    return {"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": cidr, "except": list(excepted)}}]}]}}


def service(**spec: Any) -> Object:
    return {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}], **spec}}


def endpoint_slice(*addresses: str, kind: str = "IPv4") -> Object:
    return {"addressType": kind, "endpoints": [{"addresses": list(addresses)}]}


CASES = [
    ("networkpolicies", policy("10.0.0.1/8"), f"{BLOCK}.cidr", "must not have bits set beyond the prefix length"),
    ("networkpolicies", policy("010.0.0.0/8"), f"{BLOCK}.cidr", f"{ZEROS} in IP or prefix length"),
    ("networkpolicies", policy(f"10.0.0.0/{'0' * 5000}8"), f"{BLOCK}.cidr", f"{ZEROS} in IP or prefix length"),
    ("networkpolicies", policy("::ffff:10.0.0.0/104"), f"{BLOCK}.cidr", "must not have an IPv4-mapped IPv6 address"),
    ("networkpolicies", policy("10.0.0.0/8", "10.1.0.1/16"), f"{BLOCK}.except[0]", "beyond the prefix length"),
    ("services", service(externalIPs=["010.1.2.3"]), "spec.externalIPs[0]", ZEROS),
    ("services", service(clusterIP="10.96.0.09"), "spec.clusterIPs[0]", ZEROS),
    ("services", service(loadBalancerSourceRanges=["10.0.0.1/8"]), "spec.LoadBalancerSourceRanges[0]", "beyond"),
    ("endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.01"}]}]}, "subsets[0].addresses[0].ip", ZEROS),
    ("endpointslices", endpoint_slice("::ffff:10.0.0.1", kind="IPv6"), "endpoints[0].addresses[0]", MAPPED),
]


def made(plural: str, body: Object) -> Object:
    obj: Object = {"metadata": {"name": "a", "namespace": "ns"}, **body}
    TABLE.of(plural).strategy.default(obj)
    TABLE.of(plural).strategy.prepare_create(obj)
    return obj


@pytest.mark.parametrize(("plural", "body", "field", "text"), CASES)
def test_unusual_address_is_invalid_unless_it_is_stored(plural: str, body: Object, field: str, text: str) -> None:
    strategy, obj = TABLE.of(plural).strategy, made(plural, body)
    causes: list[Cause] = strategy.validate_create(obj)
    assert [(cause.field, text in cause.message) for cause in causes] == [(field, True)]
    stored = made(plural, body)
    strategy.prepare_update(obj, stored)
    assert strategy.update_causes(obj, stored) == []


@pytest.mark.parametrize(
    ("cidr", "text"),
    [("10.0.0.1/24", "bits set beyond"), ("2001:DB8::/64", 'canonical form ("2001:db8::/64")'), ("10.0.0.0/24", "")],
)
def test_addresses_of_services_are_a_network_in_canonical_form(cidr: str, text: str) -> None:
    causes = TABLE.of("servicecidrs").strategy.validate_create(made("servicecidrs", {"spec": {"cidrs": [cidr]}}))
    assert [(cause.field, text in cause.message) for cause in causes] == [("spec.cidrs[0]", True)] * bool(text)


def test_unusual_address_of_a_load_balancer_is_invalid_unless_it_is_stored() -> None:
    strategy = TABLE.of("services").strategy
    old, new = made("services", service()), made("services", service())
    new["status"]["loadBalancer"]["ingress"] = [{"ip": "010.1.2.3"}]
    assert [cause.field for cause in strategy.validate_status(new, old)] == ["status.loadBalancer.ingress[0].ip"]
    assert strategy.validate_status(new, new) == []
