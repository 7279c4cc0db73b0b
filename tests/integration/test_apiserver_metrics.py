"""The metrics of a plane after a small session: names, labels and buckets are upstream's, the values what happened."""

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from supervisor.report.metrics import merge
from tests.support.apiserver_plane import REPOSITORY, Plane, running_plane
from tests.support.engine import engines

PATH = "/api/v1/namespaces/default/configmaps"
KEPT = {"group": "", "resource": "configmaps"}
KIND = {"group", "resource"}
WHERE = {"group", "version", "resource", "subresource", "scope", "component"}
SECONDS = "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60"
WAITS = "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3"
SIZES = "1024 2048 4096 8192 16384 32768 65536 131072"
# name of the samples, type, labels, buckets
SERVED: list[tuple[str, str, set[str], str]] = [
    ("apiserver_watch_cache_events_received_total", "counter", KIND, ""),
    ("apiserver_watch_cache_events_dispatched_total", "counter", KIND, ""),
    ("apiserver_watch_cache_initializations_total", "counter", KIND, ""),
    ("apiserver_watch_cache_resource_version", "gauge", KIND, ""),
    ("apiserver_watch_cache_read_wait_seconds", "histogram", KIND, WAITS),
    ("apiserver_watch_cache_consistent_read_total", "counter", KIND | {"success", "fallback"}, ""),
    ("watch_cache_capacity", "gauge", KIND, ""),
    ("apiserver_init_events_total", "counter", KIND, ""),
    ("apiserver_terminated_watchers_total", "counter", KIND, ""),
    ("apiserver_cache_list_total", "counter", KIND | {"index"}, ""),
    ("apiserver_cache_list_fetched_objects_total", "counter", KIND | {"index"}, ""),
    ("apiserver_cache_list_returned_objects_total", "counter", KIND, ""),
    ("apiserver_storage_list_total", "counter", KIND, ""),
    ("apiserver_storage_list_fetched_objects_total", "counter", KIND, ""),
    ("apiserver_storage_list_evaluated_objects_total", "counter", KIND, ""),
    ("apiserver_storage_list_returned_objects_total", "counter", KIND, ""),
    ("apiserver_storage_events_received_total", "counter", KIND, ""),
    ("apiserver_watch_events_total", "counter", {"group", "version", "resource"}, ""),
    ("apiserver_watch_events_sizes", "histogram", {"group", "version", "resource"}, SIZES),
    ("apiserver_watch_list_duration_seconds", "histogram", {"group", "version", "resource", "scope"},
     "0.05 0.1 0.2 0.4 0.6 0.8 1 2 4 6 8 10 15 20 30 45 60"),
    ("apiserver_longrunning_requests", "gauge", WHERE | {"verb"}, ""),
    ("apiserver_request_total", "counter", WHERE | {"verb", "dry_run", "code"}, ""),
    ("apiserver_request_duration_seconds", "histogram", WHERE | {"verb", "dry_run"}, SECONDS),
    ("apiserver_response_sizes", "histogram", WHERE | {"verb"}, "1000 1e4 1e5 1e6 1e7 1e8 1e9"),
    ("apiserver_current_inflight_requests", "gauge", {"request_kind"}, ""),
    ("apiserver_resource_objects", "gauge", KIND, ""),
    ("apiserver_storage_objects", "gauge", {"resource"}, ""),
    ("apiserver_storage_size_bytes", "gauge", {"storage_cluster_id"}, ""),
    ("etcd_request_duration_seconds", "histogram", KIND | {"operation"}, SECONDS),
    ("etcd_requests_total", "counter", KIND | {"operation"}, ""),
    ("etcd_bookmark_total", "counter", KIND, ""),
    ("etcd_lease_object_counts", "histogram", set(), "10 50 100 500 1000 2500 5000"),
    ("nodeplane_replica_behind_revisions", "gauge", KIND | {"actor"}, ""),
    ("nodeplane_watch_expired_total", "counter", KIND | {"actor"}, ""),
]  # fmt: skip


class Page:
    """A joined page, as the endpoint serves it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._families: dict[str, Metric] = {family.name: family for family in text_string_to_metric_families(text)}

    def family(self, name: str) -> Metric:
        return self._families[name.removesuffix("_total")]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels."""
        base = name.removesuffix("_count").removesuffix("_sum")
        samples = [s for s in self.family(base).samples if s.name == name]
        found = [s.value for s in samples if labels.items() <= s.labels.items()]
        assert found, f"no {name} with {labels}: {samples[:5]}"
        return sum(found)


async def session_of(plane: Plane) -> None:
    """A few of each: what the test below expects to find counted."""
    async with plane.client() as client:
        for name in ("a", "b", "c"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            async with client.post(PATH, json=body) as answer:
                version = (await answer.json())["metadata"]["resourceVersion"]
        async with client.post(PATH, json=body, params={"dryRun": "All"}) as answer:
            assert answer.status == 409
        await read(client, PATH, {})
        await read(client, PATH, {"resourceVersion": version})
        page = await read(client, PATH, {"limit": "2"})
        await read(client, PATH, {"limit": "2", "continue": page["metadata"]["continue"]})
        query = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        watch = await client.get(PATH, params={**query, "allowWatchBookmarks": "true"})
        for _ in range(4):
            await asyncio.wait_for(watch.content.readline(), 60)
        await apply(client, "a")
        await asyncio.wait_for(watch.content.readline(), 60)
        async with client.get(f"{PATH}/none") as answer:
            assert answer.status == 404
        plane_page.append(await scrape(plane))
        watch.close()


plane_page: list[Page] = []


async def read(client: Any, path: str, query: dict[str, str]) -> dict[str, Any]:
    async with client.get(path, params=query) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def apply(client: Any, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}}
    headers = {"Content-Type": "application/apply-patch+yaml"}
    query = {"fieldManager": "t"}
    async with client.patch(f"{PATH}/{name}", data=json.dumps(body), headers=headers, params=query) as answer:
        assert answer.status == 200, await answer.text()


async def scrape(plane: Plane) -> Page:
    """Once the processes agree: each is asked at a moment of its own."""
    deadline = time.monotonic() + 60
    while True:
        ours = [name for name in ("store", "watchcache", "apiserver-0") if name != "store" or plane.settings.runs_store]
        page = Page(merge({name: await plane.metrics(name) for name in ours}))
        if agrees(page):
            return page
        assert time.monotonic() < deadline, page.text
        await asyncio.sleep(0.05)


def agrees(page: Page) -> bool:
    position = page.value("apiserver_watch_cache_resource_version", **KEPT)
    behind = page.value("nodeplane_replica_behind_revisions", **KEPT)
    counted = page.value("apiserver_request_total", verb="GET", code="404", **KEPT)
    return not behind and page.value("nodeplane_replica_revision", **KEPT) == position and counted == 1


@pytest.fixture(scope="module", params=engines())
def page(request: pytest.FixtureRequest) -> Iterator[Page]:
    """The metrics of an API server on each store after a session of requests."""
    with running_plane(store=request.param) as plane:
        asyncio.run(session_of(plane))
        yield plane_page.pop()


@pytest.mark.parametrize(("name", "kind", "labels", "buckets"), SERVED, ids=[row[0] for row in SERVED])
def test_each_has_upstream_s_type_labels_and_buckets(
    page: Page, name: str, kind: str, labels: set[str], buckets: str
) -> None:
    family = page.family(name)
    assert family.type == kind
    samples = [sample for sample in family.samples if not sample.name.endswith(("_count", "_sum"))]
    for sample in samples:
        assert set(sample.labels) - {"le"} == labels
    if kind == "histogram":
        bounds = {float(sample.labels["le"]) for sample in samples}
        assert bounds == {float(bound) for bound in buckets.split()} | {float("inf")}
    else:
        assert samples, "it is there before anything is counted, or was counted in the session"


def test_the_values_are_what_happened(page: Page) -> None:
    kind = KEPT
    row = {**kind, "version": "v1"}
    requests = {**row, "subresource": "", "component": "apiserver"}

    def asked(verb: str, code: str, scope: str, dry_run: str = "") -> float:
        labels = {**requests, "verb": verb, "code": code, "scope": scope, "dry_run": dry_run}
        return page.value("apiserver_request_total", **labels)

    assert asked("POST", "201", "namespace") == 3
    assert asked("POST", "409", "namespace", "All") == 1
    assert asked("LIST", "200", "namespace") == 4
    assert asked("APPLY", "200", "resource") == 1
    assert asked("GET", "404", "resource") == 1
    assert page.value("apiserver_longrunning_requests", **requests, verb="WATCH", scope="namespace") == 1
    assert page.value("apiserver_current_inflight_requests") == 0
    assert page.value("apiserver_cache_list_total", **kind, index="") == 3
    assert page.value("apiserver_cache_list_returned_objects_total", **kind) == 3 + 3 + 2
    assert page.value("apiserver_storage_list_total", **kind) == 1
    assert page.value("apiserver_storage_list_returned_objects_total", **kind) == 1
    assert page.value("apiserver_watch_cache_consistent_read_total", **kind, success="true", fallback="false") == 2
    assert page.value("apiserver_watch_cache_read_wait_seconds_count", **kind) >= 4
    assert page.value("apiserver_init_events_total", **kind) == 3
    assert page.value("apiserver_watch_events_total", **row) == 4
    assert page.value("apiserver_watch_events_sizes_count", **row) == 4
    assert page.value("apiserver_watch_list_duration_seconds_count", **row, scope="namespace") == 1
    assert page.value("nodeplane_watch_expired_total", **kind) == 0
    assert page.value("apiserver_watch_cache_events_received_total", **kind) == 4 + 1  # the config map of every start
    assert page.value("apiserver_watch_cache_events_dispatched_total", **kind) >= 4
    assert page.value("apiserver_watch_cache_initializations_total", **kind) == 1
    assert page.value("apiserver_resource_objects", **kind) == 3 + 1
    assert page.value("apiserver_storage_objects", resource="configmaps") == 3 + 1
    assert page.value("apiserver_storage_size_bytes", storage_cluster_id="etcd-0") > 4096
    assert page.value("etcd_requests_total", **kind, operation="create") == 3
    assert page.value("etcd_requests_total", **kind, operation="update") == 1
    assert page.value("etcd_requests_total", **kind, operation="list") == 1
    assert page.value("apiserver_response_sizes_count", **requests, verb="LIST", scope="namespace") == 4
    assert page.value("nodeplane_replica_behind_revisions", **kind) == 0
    position = page.value("apiserver_watch_cache_resource_version", **kind)
    assert page.value("nodeplane_replica_revision", **kind) == position


def test_each_is_in_the_reference(page: Page) -> None:
    reference = (REPOSITORY / "docs" / "reference" / "metrics.md").read_text()
    names = {line.split()[2] for line in page.text.splitlines() if line.startswith("# TYPE ")}
    missing = [
        name for name in names if f"| `{name}` |" not in reference and not name.startswith(("process_", "python_"))
    ]
    assert not missing


def test_promtool_finds_no_fault(page: Page) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not there (package prometheus)")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=page.text, capture_output=True, text=True, timeout=60, check=False
    )
    assert "error" not in done.stderr.lower(), done.stderr
