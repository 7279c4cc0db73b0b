"""NetworkPolicies: defaults, validation, warnings, merge rules and columns, by facts of kube-apiserver 1.36."""

import ipaddress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from actors.apiserver.writes.patches.strategic import apply_strategic_patch
from protocols.kinds.policy.network_policies import NETWORK_POLICIES
from protocols.kinds.policy.network_rules import NOT_ENFORCED, NetworkPolicyStrategy
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.meta import Object

SELECTOR = {"matchLabels": {"app": "web"}}
STRATEGY = NetworkPolicyStrategy()
VALID = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def policy(**spec: Any) -> Object:
    return {"metadata": {"name": "p", "generation": 1}, "spec": spec}


def ports(**port: Any) -> Object:
    return {"ingress": [{"ports": [port]}]}


def peer(**peer: Any) -> Object:
    return {"egress": [{"to": [peer]}]}


def block(cidr: str, *without: str) -> Object:
    return peer(ipBlock={"cidr": cidr, "except": list(without)})


PORT, TO = "spec.ingress[0].ports[0]", "spec.egress[0].to[0]"


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, []),
        ({"podSelector": SELECTOR, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]}, []),
        (ports(protocol="SCTP", port=80, endPort=90), []),
        (ports(protocol="UDP", port="dns"), []),
        (peer(podSelector={}, namespaceSelector=SELECTOR), []),
        (block("10.0.0.0/8", "10.1.0.0/16"), []),
        (block("2001:db8::/32", "2001:db8:1::/48"), []),
        (
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            [("spec.podSelector.matchExpressions[0].operator", "not a valid selector operator")],
        ),
        (ports(protocol="ICMP"), [(f"{PORT}.protocol", 'supported values: "TCP", "UDP", "SCTP"')]),
        (ports(protocol=""), [(f"{PORT}.protocol", 'supported values: "TCP", "UDP", "SCTP"')]),
        (ports(port=0), [(f"{PORT}.port", "must be between 1 and 65535, inclusive")]),
        (ports(port="a--b"), [(f"{PORT}.port", "must not contain consecutive hyphens")]),
        (ports(port=80, endPort=79), [(f"{PORT}.endPort", "must be greater than or equal to `port`")]),
        (ports(port=80, endPort=65536), [(f"{PORT}.endPort", "must be between 1 and 65535, inclusive")]),
        (ports(port="web", endPort=90), [(f"{PORT}.endPort", "may not be specified when `port` is non-numeric")]),
        (ports(endPort=90), [(f"{PORT}.endPort", "may not be specified when `port` is not specified")]),
        (peer(), [(TO, "must specify a peer")]),
        (
            peer(ipBlock={"cidr": "10.0.0.0/8"}, namespaceSelector={}),
            [(TO, "may not specify both ipBlock and another peer")],
        ),
        (
            peer(namespaceSelector={"matchLabels": {"a b": ""}}),
            [(f"{TO}.namespaceSelector.matchLabels", "name part must consist of")],
        ),
        (peer(ipBlock={"except": ["nothing"]}), [(f"{TO}.ipBlock.cidr", "Required value")]),
        (block("10.0.0.0", "nothing"), [(f"{TO}.ipBlock.cidr", VALID)]),
        (block(f"10.0.0.0/{'9' * 5000}"), [(f"{TO}.ipBlock.cidr", VALID)]),
        (block("10.0.0.0/33"), [(f"{TO}.ipBlock.cidr", VALID)]),
        (block("010.0.0.0/8"), [(f"{TO}.ipBlock.cidr", "must not have leading 0s in IP or prefix length")]),
        (block("10.0.0.0/08"), [(f"{TO}.ipBlock.cidr", "must not have leading 0s in IP or prefix length")]),
        (block("::ffff:10.0.0.0/104"), [(f"{TO}.ipBlock.cidr", "must not have an IPv4-mapped IPv6 address")]),
        (block("10.0.0.1/8"), [(f"{TO}.ipBlock.cidr", "must not have bits set beyond the prefix length")]),
        (block("10.0.0.0/8", "x", "10.1.0.0/16"), [(f"{TO}.ipBlock.except[0]", VALID)]),
        (block("10.0.0.0/8", "10.0.0.0/8"), [(f"{TO}.ipBlock.except[0]", "must be a strict subset of `cidr`")]),
        (block("10.0.0.0/8", "11.0.0.0/16"), [(f"{TO}.ipBlock.except[0]", "must be a strict subset of `cidr`")]),
        (block("::/0", "10.0.0.0/8"), [(f"{TO}.ipBlock.except[0]", "must be a strict subset of `cidr`")]),
        ({"policyTypes": ["Both"]}, [("spec.policyTypes[0]", 'supported values: "Ingress", "Egress"')]),
        (
            {"policyTypes": ["Ingress", "Egress", "Both"]},
            [("spec.policyTypes", "may not specify more than two policyTypes")],
        ),
    ],
)
def test_network_policy_of_a_spec_has_upstreams_causes(spec: Object, wrong: list[tuple[str, str]]) -> None:
    causes = STRATEGY.validate_create(policy(**spec))
    assert [cause.field for cause in causes] == [field for field, _ in wrong]
    assert all(text in cause.message for cause, (_, text) in zip(causes, wrong, strict=True))


@given(st.ip_addresses(), st.integers(0, 128), st.integers(0, 128))
def test_longer_prefix_of_an_address_is_a_valid_exception(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, one: int, other: int
) -> None:
    lengths = sorted(length % (address.max_prefixlen + 1) for length in (one, other))
    whole, part = (ipaddress.ip_network(f"{address}/{length}", strict=False) for length in lengths)
    assume(not str(part).startswith("::ffff:"))
    causes = STRATEGY.validate_create(policy(**block(str(whole), str(part))))
    assert bool(causes) == (lengths[0] == lengths[1])


def test_stored_cidr_remains_valid_in_an_update() -> None:
    old, new = policy(**block("010.0.0.0/8")), policy(**block("010.0.0.0/8", "10.1.0.0/016"))
    assert STRATEGY.validate_update(old, old) == []
    assert [cause.field for cause in STRATEGY.validate_update(new, old)] == [f"{TO}.ipBlock.except[0]"]


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        (None, ["Ingress"]),
        ({"egress": []}, ["Ingress"]),
        ({"egress": [{}]}, ["Ingress", "Egress"]),
        ({"egress": [{}], "policyTypes": ["Egress"]}, ["Egress"]),
    ],
)
def test_policy_types_default_to_the_rules(spec: Object | None, types: list[str]) -> None:
    obj: Object = {"spec": spec}
    STRATEGY.default(obj)
    assert obj["spec"]["policyTypes"] == types


def test_protocol_of_a_port_defaults_to_tcp() -> None:
    obj = policy(ingress=[{"ports": [{"port": 80}, {"protocol": "UDP"}]}], egress=[{"ports": [{"protocol": None}]}])
    STRATEGY.default(obj)
    assert [port["protocol"] for port in obj["spec"]["ingress"][0]["ports"]] == ["TCP", "UDP"]
    assert obj["spec"]["egress"][0]["ports"] == [{"protocol": "TCP"}]


def test_new_network_policy_warns_that_nothing_enforces_it() -> None:
    assert STRATEGY.warnings(policy(), None) == [NOT_ENFORCED]
    assert STRATEGY.warnings(policy(), policy()) == []


def test_network_policy_warns_of_addresses_in_another_form() -> None:
    [warning] = STRATEGY.warnings(policy(**block("10.0.0.0/8", "2001:DB8:0::/48")), policy())
    assert warning == (
        f'{TO}.ipBlock.except[0]: IPv6 CIDR value "2001:DB8:0::/48" should be in RFC 5952 canonical format '
        '("2001:db8::/48")'
    )


def test_network_policy_columns_show_the_selector() -> None:
    assert [column.name for column in NETWORK_POLICIES.columns] == ["Name", "Pod-Selector", "Age"]
    shown = NETWORK_POLICIES.columns[1].cell
    some = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}], **SELECTOR}
    assert [shown(policy(podSelector=each)) for each in ({}, some)] == ["<none>", "app=web,tier in (a,b)"]


def test_strategic_patch_replaces_rules_and_merges_the_selector() -> None:
    before = policy(podSelector=SELECTOR, policyTypes=["Ingress"], ingress=[{}, {"ports": [{"port": 1}]}])
    patch = {"spec": {"podSelector": {"matchLabels": {"tier": "back"}}, "ingress": [{}], "policyTypes": ["Egress"]}}
    after = apply_strategic_patch(kind_shape("networking.k8s.io", "v1", "NetworkPolicy"), before, patch)
    assert after["spec"] == {
        "podSelector": {"matchLabels": {"app": "web", "tier": "back"}}, "ingress": [{}], "policyTypes": ["Egress"]
    }  # fmt: skip
