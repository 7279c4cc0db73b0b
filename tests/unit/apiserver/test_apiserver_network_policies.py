"""NetworkPolicies: defaults, validation, warnings, merge rules and columns, by facts of kube-apiserver 1.36."""

from typing import Any

import pytest

from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.policy.network_policies import NETWORK_POLICIES, NOT_ENFORCED
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.meta import Object

SELECTOR = {"matchLabels": {"app": "web"}}
STRATEGY = NETWORK_POLICIES.strategy
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
        (peer(ipBlock={}), [(f"{TO}.ipBlock.cidr", "Required value")]),
        (block("10.0.0.0"), [(f"{TO}.ipBlock.cidr", VALID)]),
        (block(f"10.0.0.0/{'9' * 5000}"), [(f"{TO}.ipBlock.cidr", VALID)]),
        (block("10.0.0.0/33"), [(f"{TO}.ipBlock.cidr", VALID)]),
        (block("10.0.0.0/0000033"), [(f"{TO}.ipBlock.cidr", VALID)]),
        (block("10.0.0.0/8", "x", "10.1.0.0/16"), [(f"{TO}.ipBlock.except[0]", VALID)]),
        (block("x", "y"), [(f"{TO}.ipBlock.cidr", VALID)]),
        (block("10.0.0.0/8", "10.0.0.0/8"), [(f"{TO}.ipBlock.except[0]", "must be a strict subset of `cidr`")]),
        (
            block("10.0.0.0/8", "10.0.0.0/008"),
            [(f"{TO}.ipBlock.except[0]", text) for text in ("must not have leading 0s", "must be a strict subset")],
        ),
        (block("10.0.0.0/8", "11.1.0.0/16", "10.1.0.0/16"), [(f"{TO}.ipBlock.except[0]", "must be a strict subset")]),
        (block("10.0.0.0/8", "2001:db8::/64"), [(f"{TO}.ipBlock.except[0]", "must be a strict subset of `cidr`")]),
        ({"policyTypes": ["Ingress"] * 3}, [("spec.policyTypes", "may not specify more than two policyTypes")]),
        ({"policyTypes": ["Both"]}, [("spec.policyTypes[0]", 'supported values: "Ingress", "Egress"')]),
    ],
)
def test_network_policy_of_a_spec_has_upstreams_causes(spec: Object, wrong: list[tuple[str, str]]) -> None:
    causes = STRATEGY.validate_create(policy(**spec))
    assert [cause.field for cause in causes] == [field for field, _ in wrong]
    assert all(text in cause.message for cause, (_, text) in zip(causes, wrong, strict=True))


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
    obj = policy(ingress=[{"ports": [{"port": 80}, {"protocol": "UDP"}]}], egress=[{"ports": [{}]}])
    STRATEGY.default(obj)
    assert [port["protocol"] for port in obj["spec"]["ingress"][0]["ports"]] == ["TCP", "UDP"]
    assert obj["spec"]["egress"][0]["ports"] == [{"protocol": "TCP"}]


def test_new_network_policy_warns_that_nothing_enforces_it() -> None:
    assert STRATEGY.warnings(policy(), None) == [NOT_ENFORCED]
    assert STRATEGY.warnings(policy(), policy()) == []


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
