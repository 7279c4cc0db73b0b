"""Rules of nodes and services: faults at upstream's paths, and defaults."""

import base64
import copy
from typing import Any

import pytest

from actors.apiserver.table import TABLE

Object = dict[str, Any]
PORT = {"port": 80}


def made(plural: str, **fields: Any) -> Object:
    row = TABLE.of(plural)
    metadata = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    obj = {"apiVersion": row.api_version, "kind": row.kind, "metadata": metadata, **copy.deepcopy(fields)}
    row.strategy.default(obj)
    row.strategy.prepare_create(obj)
    return obj


def faults(plural: str, obj: Object) -> list[str]:
    causes = TABLE.of(plural).strategy.validate_create(obj)
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


def changed(plural: str, new: Object, old: Object) -> list[str]:
    strategy = TABLE.of(plural).strategy
    strategy.default(new)
    strategy.prepare_update(new, old)
    return [cause.field for cause in strategy.validate_update(new, old)]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"ports": [PORT]}, []),
        ({}, ["Required spec.ports"]),
        ({"clusterIP": "None"}, []),
        ({"ports": [{"port": 0}]}, ["Invalid spec.ports[0].targetPort", "Invalid spec.ports[0].port"]),
        ({"ports": [{**PORT, "protocol": "XXX"}]}, ["NotSupported spec.ports[0].protocol"]),
        ({"ports": [PORT, {"port": 81, "name": "x"}]}, ["Required spec.ports[0].name"]),
        ({"ports": [{**PORT, "nodePort": 30000}]}, ["Forbidden spec.ports[0].nodePort"]),
        ({"ports": [PORT], "type": "Some"}, ["NotSupported spec.type"]),
        ({"ports": [PORT], "selector": {"a b": "c"}}, ["Invalid spec.selector"]),
        ({"ports": [PORT], "clusterIP": "nope"}, ["Invalid spec.clusterIPs[0]"]),
        ({"ports": [PORT], "externalIPs": ["nope"]}, ["Invalid spec.externalIPs[0]"]),
        ({"ports": [PORT], "ipFamilyPolicy": "Some"}, ["NotSupported spec.ipFamilyPolicy"]),
        ({"ports": [PORT], "loadBalancerClass": "a/b"}, ["Forbidden spec.loadBalancerClass"]),
    ],
)
def test_service_with_one_fault_is_rejected_at_its_field(spec: Object, found: list[str]) -> None:
    assert faults("services", made("services", spec=spec)) == found


def test_service_has_upstreams_defaults() -> None:
    spec = made("services", spec={"clusterIP": "None", "sessionAffinity": "ClientIP", "ports": [PORT]})["spec"]
    assert (spec["clusterIPs"], spec["ipFamilies"]) == (["None"], ["IPv4", "IPv6"])
    assert spec["ipFamilyPolicy"] == "RequireDualStack"
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert "externalTrafficPolicy" not in spec
    assert made("services", spec={"type": "NodePort"})["spec"]["externalTrafficPolicy"] == "Cluster"


def test_update_of_a_service_keeps_its_addresses() -> None:
    old = made("services", spec={"clusterIP": "None"})
    new = {**old, "spec": {}}
    assert changed("services", new, old) == []
    assert new["spec"]["clusterIPs"] == ["None"]
    assert changed("services", {**old, "spec": {"clusterIP": "nope"}}, old) == ["spec.clusterIPs[0]"]


TAINT = {"key": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"spec": {"taints": [TAINT]}}, []),
        ({"spec": {"taints": [TAINT, TAINT]}}, ["Duplicate metadata.taints[1]"]),
        ({"spec": {"taints": [{"key": "a"}]}}, ["Required metadata.taints[0].effect"]),
        ({"spec": {"taints": [{**TAINT, "effect": "X"}]}}, ["NotSupported metadata.taints[0].effect"]),
        ({"spec": {"taints": [{**TAINT, "key": "a b"}]}}, ["Invalid metadata.taints[0].key"]),
        ({"spec": {"podCIDRs": ["nope"]}}, ["Invalid spec.podCIDRs[0]"]),
        ({"spec": {"podCIDRs": ["10.0.0.0/8", "11.0.0.0/8"]}}, ["Invalid spec.podCIDRs"]),
        ({"spec": {"podCIDRs": ["10.0.0.0/8", "fd00::/64"]}}, []),
        ({"status": {"capacity": {"cpu": "-1"}}}, ["Invalid status.capacity.cpu", "Invalid status.allocatable.cpu"]),
        ({"status": {"allocatable": {"pods": "500m"}}}, ["Invalid status.allocatable.pods"]),
        ({"status": {"declaredFeatures": ["A", "A/b", "B"]}}, []),
        (
            {"status": {"declaredFeatures": ["B", "A", "A"]}},
            ["Invalid status.declaredFeatures[1]", "Duplicate status.declaredFeatures[2]"],
        ),
        (
            {"status": {"declaredFeatures": ["", "A" * 253, "A" * 254]}},
            ["Invalid status.declaredFeatures[0]", "Invalid status.declaredFeatures[2]"],
        ),
        ({"status": {"nodeInfo": {"swap": {"capacity": 0}}}}, ["Invalid metadata.nodeSwapStatus.capacity"]),
        ({"status": {"nodeInfo": {"swap": {}}}}, []),
    ],
)
def test_node_with_one_fault_is_rejected_at_its_field(fields: Object, found: list[str]) -> None:
    assert faults("nodes", made("nodes", **fields)) == found


def test_texts_of_nodes() -> None:
    def texts(**fields: Object) -> list[str]:
        return [cause.message for cause in TABLE.of("nodes").strategy.validate_create(made("nodes", **fields))]

    (text,) = texts(spec={"taints": [TAINT, TAINT]})
    assert text.endswith("}: taints must be unique by key and effect pair")
    assert texts(status={"declaredFeatures": ["B", "A"]}) == ['Invalid value: "A": list must be sorted alphabetically']


def test_node_that_is_known_keeps_its_provider_and_its_network() -> None:
    old = made("nodes", spec={"providerID": "x://1", "podCIDR": "10.0.0.0/8"})
    assert old["spec"]["podCIDRs"] == ["10.0.0.0/8"]
    assert changed("nodes", {**old, "spec": {**old["spec"], "unschedulable": True}}, old) == []
    assert changed("nodes", {**old, "spec": {}}, old) == ["spec.podCIDRs", "spec.providerID"]


def test_node_allocates_what_it_has_by_default() -> None:
    assert made("nodes", status={"capacity": {"cpu": "4"}})["status"]["allocatable"] == {"cpu": "4"}


def test_status_of_a_node_has_each_address_once() -> None:
    address = {"type": "InternalIP", "address": "10.0.0.1"}
    node = made("nodes", status={"addresses": [address, address]})
    causes = TABLE.of("nodes").strategy.validate_status(node, node)
    assert [cause.field for cause in causes] == ["status.addresses[1]"]


def test_error_code_of_an_attachment_is_not_negative() -> None:
    """CSI drivers report gRPC codes."""
    strategy = TABLE.of("volumeattachments").strategy
    codes = {
        code: strategy.validate_status({"status": {"attachError": {"errorCode": code}}}, {}) for code in (-1, 0, 13)
    }
    assert [(cause.field, code) for code, causes in codes.items() for cause in causes] == [
        ("status.attachError.errorCode", -1)
    ]


def test_replicas_of_an_autoscaler_are_not_negative() -> None:
    status = {"status": {"currentReplicas": -1, "desiredReplicas": -1}}
    causes = TABLE.of("horizontalpodautoscalers").strategy.validate_status(status, {})
    assert [cause.field for cause in causes] == ["status.currentReplicas", "status.desiredReplicas"]


def test_external_id_of_a_node_never_changes() -> None:
    node = {"metadata": {"name": "n"}, "spec": {"externalID": "a"}}
    causes = TABLE.of("nodes").strategy.validate_update(node, {"metadata": {"name": "n"}, "spec": {}})
    assert [(cause.field, cause.message) for cause in causes] == [("spec.externalID", "Forbidden: may not be updated")]


@pytest.mark.parametrize(("port", "found"), [({}, False), ({"hostPort": 80}, False), ({"hostPort": 81}, True)])
@pytest.mark.parametrize("plural", ["deployments", "daemonsets"])
def test_template_on_the_hosts_network_may_leave_out_host_ports(plural: str, port: Object, found: bool) -> None:
    """Its pods get them by default. Each workload of that kind was rejected."""
    labels, container = {"a": "b"}, {"name": "c", "image": "i", "ports": [{"containerPort": 80, **port}]}
    template = {"metadata": {"labels": labels}, "spec": {"hostNetwork": True, "containers": [container]}}
    obj = made(plural, spec={"selector": {"matchLabels": labels}, "template": template})
    where = "spec.template.spec.containers[0].ports[0].hostPort"
    assert faults(plural, obj) == ([f"Invalid {where}"] if found else [])


def base64_of(count: int) -> str:
    return base64.b64encode(bytes(count)).decode()


@pytest.mark.parametrize(
    ("plural", "data", "found"),
    [
        ("secrets", {"data": {"a": base64_of(1 << 20)}}, []),
        ("secrets", {"data": {"a": base64_of(1 << 20), "b": base64_of(1)}}, ["TooLong data"]),
        ("configmaps", {"data": {"a": "é" * (1 << 19)}, "binaryData": {"b": ""}}, []),
        ("configmaps", {"data": {"a": "é" * (1 << 19), "b": "a"}}, ["TooLong data"]),
        ("configmaps", {"binaryData": {"a": base64_of(1 << 20)}}, []),
    ],
)
def test_the_size_of_configuration_is_that_of_its_decoded_bytes(plural: str, data: Object, found: list[str]) -> None:
    assert faults(plural, made(plural, **data)) == found


BOUND, EARLIER, LATER = "Bound", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("status", "since"),
    [
        ({"phase": BOUND}, EARLIER),
        ({"phase": BOUND, "lastPhaseTransitionTime": LATER}, LATER),
        ({"phase": "Released", "lastPhaseTransitionTime": LATER}, LATER),
        ({"phase": "Released", "lastPhaseTransitionTime": EARLIER}, None),
        ({"phase": "Released"}, None),
    ],
)
def test_time_of_a_volumes_phase_moves_with_the_phase(status: Object, since: str | None) -> None:
    """None: the time of the write."""
    old = made("persistentvolumes")
    old["status"] = {"phase": BOUND, "lastPhaseTransitionTime": EARLIER}
    new = {**copy.deepcopy(old), "status": dict(status)}
    TABLE.of("persistentvolumes").strategy.prepare_status(new, old)
    stored = new["status"]["lastPhaseTransitionTime"]
    assert stored == since if since else stored not in (EARLIER, LATER)
