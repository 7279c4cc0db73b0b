"""What follows from a path is worked out once, and again when the table is another."""

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from msgspec.structs import replace

from actors.apiserver.api.errors import MethodNotAllowed, NotFound
from actors.apiserver.api.request.target import Attributes, Target, parse_target, query_of
from actors.apiserver.http.routing.route import CACHED_PATHS, LONGEST_PATH, Action, Routes, attributes_of
from actors.apiserver.table import TABLE
from protocols.kinds.served.row import Table


def action(target: Target) -> Action:
    async def done(request: Any) -> Any:
        return target.verb

    return done


def test_paths_asked_for_again_are_known_until_the_table_changes() -> None:
    table = Table(TABLE.built_in)
    routes = Routes(table, action)
    path = "/api/v1/namespaces/ns/configmaps"
    asked = make_mocked_request("GET", path)
    assert routes.known(asked) is None
    first = routes.of("GET", path)
    assert first is not None
    assert first.target == parse_target(table, "GET", path)
    assert routes.known(asked) is routes.of("GET", path) is first
    created = routes.of("POST", path)
    assert created is not None
    assert created.target.verb == "create"
    assert routes.of("GET", "/version") is None
    table.replace(())
    assert routes.known(asked) is None
    assert routes.of("GET", path) is not first


def test_custom_resources_are_looked_up_for_each_request() -> None:
    table = Table(TABLE.built_in)
    routes = Routes(table, action)
    path = "/apis/example.com/v1/widgets"
    with pytest.raises(NotFound):
        routes.of("GET", path)
    custom: Any = type("Kind", (), {"warning": "old"})()
    row = replace(TABLE.of("configmaps"), group="example.com", version="v1", plural="widgets", custom=custom)
    table.replace((row,))
    found = routes.of("GET", path)
    assert found is not None
    assert found.warnings == ("old",)
    assert routes.known(make_mocked_request("GET", path)) is None
    table.replace(())
    with pytest.raises(NotFound):
        routes.of("GET", path)


@pytest.mark.parametrize(
    ("path", "warning"),
    [
        ("/api/v1/endpoints", "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        (
            "/apis/resource.k8s.io/v1beta1/resourceclaims",
            "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+",
        ),
        (
            "/apis/resource.k8s.io/v1alpha3/devicetaintrules",
            "resource.k8s.io/v1alpha3 DeviceTaintRule is deprecated in v1.36+, unavailable in v1.39+",
        ),
        ("/apis/resource.k8s.io/v1beta2/devicetaintrules", ""),
        ("/apis/resource.k8s.io/v1/resourceclaims", ""),
    ],
)
def test_deprecated_versions_warn(path: str, warning: str) -> None:
    route = Routes(Table(TABLE.built_in), action).of("GET", path)
    assert route is not None
    assert route.warnings == ((warning,) if warning else ())


def test_of_many_paths_not_all_are_remembered() -> None:
    routes = Routes(Table(TABLE.built_in), action)
    for number in range(3 * CACHED_PATHS):
        found = routes.of("GET", f"/api/v1/namespaces/ns/pods/p-{number}")
        assert found is not None
        assert found.target.name == f"p-{number}"
    assert len(routes._found) <= CACHED_PATHS
    long = "/api/v1/namespaces/ns/pods/" + "x" * LONGEST_PATH
    assert routes.of("GET", long) is not routes.of("GET", long)


def test_what_is_asked_for_is_known_with_the_path() -> None:
    routes = Routes(Table(TABLE.built_in), action)
    route = routes.of("PUT", "/api/v1/namespaces/n%20s/pods/p/status")
    assert route is not None
    path = "/api/v1/namespaces/n s/pods/p/status"
    assert route.attributes == Attributes("update", path, "", "pods", "status", "n s", "p")
    assert route.place == ("", "v1", "pods", "status", "resource", "apiserver")
    within = routes.of("GET", "/api/v1/namespaces/ns")
    assert within is not None
    assert within.attributes.namespace == within.attributes.name == "ns"


@pytest.mark.parametrize(
    ("path", "wanted", "query"),
    [
        ("/api/v1/watch/pods", ("pods", "", ""), {"fieldSelector": ""}),
        ("/api/v1/watch/namespaces/ns/pods", ("pods", "ns", ""), {"fieldSelector": ""}),
        ("/api/v1/watch/namespaces/ns/pods/p", ("pods", "ns", "p"), {"fieldSelector": "metadata.name=p"}),
        ("/api/v1/watch/nodes/a%3Db", ("nodes", "", "a=b"), {"fieldSelector": "metadata.name=a\\=b"}),
        ("/api/v1/watch/namespaces/ns", ("namespaces", "", "ns"), {"fieldSelector": "metadata.name=ns"}),
        ("/apis/coordination.k8s.io/v1/watch/leases", ("leases", "", ""), {"fieldSelector": ""}),
    ],
)
def test_paths_of_watches_are_lists_that_watch(path: str, wanted: tuple[str, str, str], query: dict[str, str]) -> None:
    target = parse_target(Table(TABLE.built_in), "GET", path)
    assert target is not None
    assert (target.resource.plural, target.namespace, target.watched) == wanted
    assert (target.verb, target.name) == ("list", "")
    assert query_of(target, {"watch": "0", "limit": "1"}) == {"watch": "true", "limit": "1", **query}


def test_a_field_selector_narrows_the_watch_of_a_name() -> None:
    target = parse_target(Table(TABLE.built_in), "GET", "/api/v1/watch/nodes/n")
    assert target is not None
    assert query_of(target, {"fieldSelector": "a=b"})["fieldSelector"] == "a=b,metadata.name=n"


@pytest.mark.parametrize(
    ("method", "path", "error"),
    [
        ("GET", "/api/v1/watch", NotFound),
        ("GET", "/api/v1/watch/pods/p", NotFound),
        ("GET", "/api/v1/watch/namespaces/ns/pods/p/log", NotFound),
        ("GET", "/api/v1/watch/watch/pods", NotFound),
        ("DELETE", "/api/v1/watch/namespaces/ns/pods", MethodNotAllowed),
    ],
)
def test_other_paths_below_watch_are_not_served(method: str, path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_target(Table(TABLE.built_in), method, path)


@pytest.mark.parametrize(("verb", "name"), [("list", "a"), ("deletecollection", "")])
def test_name_of_a_field_selector_is_authorized_for_reads_only(verb: str, name: str) -> None:
    target = Target(TABLE.of("configmaps"), verb, "ns")
    assert attributes_of(target, verb, "", (("metadata.name", "a"),)).name == name


def test_objects_of_all_namespaces_are_not_deleted_by_one_request() -> None:
    table = Table(TABLE.built_in)
    with pytest.raises(MethodNotAllowed):
        parse_target(table, "DELETE", "/api/v1/configmaps")
    inside, of_cluster = "/api/v1/namespaces/ns/configmaps", "/apis/resource.k8s.io/v1/resourceslices"
    assert [parse_target(table, "DELETE", path).verb for path in (inside, of_cluster)] == ["deletecollection"] * 2  # type: ignore[union-attr]
