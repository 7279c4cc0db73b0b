"""What follows from a path is worked out once, and again when the table is another."""

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from msgspec.structs import replace

from actors.apiserver.actor import TABLE
from actors.apiserver.api.errors import NotFound
from actors.apiserver.api.resource import Table
from actors.apiserver.api.target import Attributes, Target, parse_target
from actors.apiserver.http.routing.route import CACHED_PATHS, LONGEST_PATH, Action, Routes


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
