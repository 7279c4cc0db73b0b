import pytest

from protocols.kinds import table as resources
from protocols.kube import meta, times
from protocols.kube.errors import TimeInvalid


def test_keys() -> None:
    pod = {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}}
    assert meta.key_of(pod) == "ns/a"
    assert meta.key_of({"metadata": {"name": "n1"}}) == "n1"
    assert meta.split_key("ns/a") == ("ns", "a")
    assert meta.split_key("n1") == ("", "n1")
    assert meta.version_of(pod) == "7"
    assert meta.object_reference({**pod, "kind": "Pod", "apiVersion": "v1"}) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ns",
        "name": "a",
        "uid": "u",
        "resourceVersion": "7",
    }


def test_missing_metadata_is_empty() -> None:
    assert meta.key_of({}) == ""
    assert meta.labels_of({"metadata": None}) == {}
    assert meta.annotations_of({}) == {}
    assert not meta.terminating({})


def test_conditions() -> None:
    node = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert meta.condition_true(node, "Ready")
    assert not meta.condition_true(node, "Other")
    assert not meta.condition_true({"status": None}, "Ready")


def test_paths_and_storage_prefixes() -> None:
    assert resources.PODS.path() == "/api/v1/pods"
    assert resources.PODS.path("a", "ns", "status") == "/api/v1/namespaces/ns/pods/a/status"
    assert resources.LEASES.path("a", "ns") == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/a"
    assert resources.NODES.storage_prefix == "/registry/minions/"
    assert resources.RESOURCESLICEPATCHES.api_version == "resource.k8s.io/v1alpha3"
    assert resources.LEASES.full_name == "leases.coordination.k8s.io"


def test_every_resource_is_found_by_kind() -> None:
    assert len(resources.BY_KIND) == len(resources.ALL)


def test_times() -> None:
    assert times.format_time(1.9) == "1970-01-01T00:00:01Z"
    assert times.format_micro(1.25) == "1970-01-01T00:00:01.250000Z"
    assert times.parse_time("1970-01-01T00:00:01.250000Z") == 1.25
    assert times.parse_time("1970-01-01T01:00:00+01:00") == 0
    assert times.format_ns(0) == ""
    assert times.format_ns(2_500_000_000) == "1970-01-01T00:00:02Z"
    assert times.parse_time(times.now()) <= times.parse_time(times.now_micro())


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31 12:00:00Z", "20261"]
)
def test_bad_times(text: str) -> None:
    with pytest.raises(TimeInvalid):
        times.parse_time(text)
