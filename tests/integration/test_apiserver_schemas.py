"""kubectl explains what is served, from our OpenAPI documents."""

import pytest

from tests.support.apiserver_plane import Plane


def test_explain_shows_types_and_what_they_mean(plane: Plane) -> None:
    told = plane.kubectl("explain", "pod.spec.containers")
    assert "FIELD: containers <[]Container>" in told
    assert "name\t<string> -required-" in told
    assert "The image to run." in told
    assert "livenessProbe\t<Probe>" in told


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("resourceslicepatches.spec.devices", "priority\t<integer>"),
        ("resourceclaims.status.reservedFor", "uid\t<string> -required-"),
        ("leases.spec", "holderIdentity\t<string>"),
        ("nodes.status.conditions", "FIELD: conditions <[]NodeCondition>"),
        ("pods.metadata.labels", "FIELD: labels <map[string]string>"),
    ],
)
def test_every_group_is_explained(plane: Plane, field: str, said: str) -> None:
    assert said in plane.kubectl("explain", field)


def test_an_unknown_field_is_reported(plane: Plane) -> None:
    told = plane.kubectl("explain", "pod.spec.nonsense", check=False)
    assert 'field "nonsense" does not exist' in told


def test_fields_are_listed_to_the_bottom(plane: Plane) -> None:
    told = plane.kubectl("explain", "pods", "--recursive")
    assert "containerPort\t<integer>" in told
    assert "resourceID\t<string>" in told


def test_clients_of_v2_get_the_same_explanations(plane: Plane) -> None:
    """kubectl before 1.27 asks for protobuf."""
    explained = plane.kubectl("explain", "pod.spec.containers.ports", "--output=plaintext-openapiv2")
    assert "containerPort\t<integer> -required-" in explained
    assert "mode" in plane.kubectl("explain", "pods", "--recursive", "--output=plaintext-openapiv2")
