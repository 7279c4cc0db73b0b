"""EndpointSlices: what services and pods make of each other, over any history."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from actors.controllers.services.controller import trim_pod
from actors.controllers.services.endpoints import MAX_ENDPOINTS, desired_slices, differs
from protocols.kinds.check.table import causes_of
from protocols.kinds.services.endpoint_rules import slice_rules
from protocols.kube.meta import SERVICE_NAME_LABEL, Object, name_of


def service(name: str = "web", **spec: Any) -> Object:
    ports = [{"port": 443, "targetPort": "https", "name": "s"}, {"port": 80}]
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "labels": {"chart": "a"}}
    return {"metadata": metadata, "spec": {"selector": {"app": "web"}, "ports": ports, "ipFamilies": ["IPv4"], **spec}}


def pod(name: str, ip: str = "10.0.0.1", ready: bool = True, port: int | None = 8443, **more: Any) -> Object:
    ports = [{"name": "https", "containerPort": port}] if port else []
    return trim_pod(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": name,
                "labels": {"app": "web"},
                **more.get("meta", {}),
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": ports}], **more.get("spec", {})},
            "status": {
                "podIPs": [{"ip": ip}] if ip else [],
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": str(ready)}],
                **more.get("status", {}),
            },
        }
    )


def addresses(found: list[Object]) -> list[str]:
    return [address for each in found for endpoint in each["endpoints"] for address in endpoint["addresses"]]


def test_slice_of_a_pod_names_its_ports_node_and_owner() -> None:
    (found,) = desired_slices(service(), [pod("a")])
    assert found["ports"] == [
        {"name": "s", "port": 8443, "protocol": "TCP"},
        {"name": "", "port": 80, "protocol": "TCP"},
    ]
    assert found["endpoints"] == [
        {
            "addresses": ["10.0.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": "n1",
            "targetRef": {"kind": "Pod", "name": "a", "namespace": "ns", "uid": "a"},
        }
    ]
    assert found["metadata"]["labels"] == {
        "chart": "a",
        SERVICE_NAME_LABEL: "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert found["metadata"]["ownerReferences"][0]["uid"] == "u-web"


def test_pods_that_are_not_ready_terminate_or_ended_are_told_apart() -> None:
    leaving = pod("b", "10.0.0.2", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    pods = [pod("a", ready=False), leaving, pod("c", "10.0.0.3", status={"phase": "Failed"}), pod("d", "")]
    (found,) = desired_slices(service(), pods)
    shown = [(endpoint["targetRef"]["name"], *endpoint["conditions"].values()) for endpoint in found["endpoints"]]
    assert shown == [("a", False, False, False), ("b", False, True, True)]
    (published,) = desired_slices(service(publishNotReadyAddresses=True), pods)
    assert [endpoint["conditions"]["ready"] for endpoint in published["endpoints"]] == [True, True]


def test_pods_with_other_ports_are_in_another_slice() -> None:
    found = desired_slices(service(), [pod("a"), pod("b", "10.0.0.2", port=9443), pod("c", "10.0.0.3", port=None)])
    assert [[port["port"] for port in each["ports"]] for each in found] == [[80], [8443, 80], [9443, 80]]


def test_named_port_may_be_a_sidecar_s_but_not_an_init_container_s() -> None:
    ports = [{"name": "https", "containerPort": 9443}]
    found = [
        desired_slices(
            service(), [pod("a", port=None, spec={"initContainers": [{"name": "i", "ports": ports, **more}]})]
        )
        for more in ({"restartPolicy": "Always"}, {})
    ]
    assert [[port["port"] for port in made["ports"]] for (made,) in found] == [[9443, 80], [80]]


def test_services_without_pods_have_an_empty_slice_and_others_none() -> None:
    (empty,) = desired_slices(service(), [])
    assert (empty["endpoints"], empty["ports"]) == ([], [])
    assert desired_slices(service(type="ExternalName"), [pod("a")]) == []
    assert desired_slices(service(selector={}), [pod("a")]) == []


def test_hostname_is_that_of_pods_in_the_service_s_subdomain() -> None:
    named = pod("a", spec={"hostname": "db-0", "subdomain": "web"})
    headless = desired_slices(service(clusterIP="None"), [named])[0]
    assert headless["endpoints"][0]["hostname"] == "db-0"
    assert headless["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


pods = st.lists(
    st.tuples(st.integers(0, 400), st.booleans(), st.sampled_from([8443, 9443, None])),
    max_size=300,
    unique_by=lambda p: p[0],
)


@given(pods)
def test_each_pod_is_in_one_slice_of_at_most_a_hundred(entries: list[tuple[int, bool, int | None]]) -> None:
    made = [pod(f"p{at}", f"10.1.{at // 250}.{at % 250 + 1}", ready, port) for at, ready, port in entries]
    found = desired_slices(service(), made)
    assert sorted(addresses(found)) == sorted(each["status"]["podIPs"][0]["ip"] for each in made)
    assert all(len(each["endpoints"]) <= MAX_ENDPOINTS for each in found)
    assert len({name_of(each) for each in found}) == len(found)
    again = {name_of(each): each for each in desired_slices(service(), reversed(made))}
    assert not any(differs(each, again[name_of(each)]) for each in found)


def test_loopback_address_is_valid_only_in_slices_made_of_pods() -> None:
    (made,) = desired_slices(service(), [pod("a", "127.0.0.1")])
    assert causes_of(slice_rules, "", made) == []
    (cause,) = causes_of(slice_rules, "", {**made, "metadata": {}})
    assert "may not be in the loopback range" in cause.message
