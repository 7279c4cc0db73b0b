"""Rights, caches and pages of the node endpoint."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from aiohttp import web

from actors.podworker.clients.bus import Streams
from actors.podworker.endpoint import healthz
from actors.podworker.endpoint.callers import MAX_CACHED, Caller, ExpiringCache, access_review, needed_right
from actors.podworker.endpoint.errors import NotSynced
from actors.podworker.endpoint.healthz import HealthzServer, NodeHealth
from actors.podworker.endpoint.metrics_pages import families, resource_page
from actors.podworker.endpoint.pages import PodPages, kubelet_configuration, running_pods
from actors.podworker.endpoint.pod_times import PodTimes
from actors.podworker.endpoint.routes import PodLookup, StreamCalls, routes
from actors.podworker.endpoint.server import EndpointOptions, NodeEndpoint
from actors.podworker.endpoint.stats import ContainerUsage, MeasuredContainer, Sample
from protocols.kinds import views
from protocols.messages.pleg import ContainerStatus, PlegState, PodStatus, SandboxStatus
from protocols.process.settings import Settings
from tests.support.ports import free_port
from tests.support.settings import plane_settings


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        ("GET", "/metrics/resource", ("get", ("metrics",))),
        ("GET", "/stats/summary", ("get", ("stats",))),
        ("GET", "/pods", ("get", ("pods", "proxy"))),
        ("GET", "/configz", ("get", ("configz", "proxy"))),
        ("GET", "/healthz/ping", ("get", ("healthz", "proxy"))),
        ("POST", "/exec/default/web/a", ("create", ("proxy",))),
        ("GET", "/podsandmore", ("get", ("proxy",))),
    ],
)
def test_needed_right_is_upstreams(method: str, path: str, right: tuple[str, tuple[str, ...]]) -> None:
    assert needed_right(method, path) == right


@pytest.mark.parametrize("retained", ["99999999", "-5", "x"])
async def test_endpoint_with_a_damaged_port_file_takes_a_free_port(tmp_path: Path, retained: str) -> None:
    (tmp_path / "port").write_text(retained)
    options = EndpointOptions(tmp_path / "cert", tmp_path / "key", tmp_path / "ca", tmp_path / "port")
    endpoint = NodeEndpoint(options, {}, AsyncMock())
    assert endpoint._listen(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) > 0
    await endpoint.close()


def test_access_review_names_the_node_and_every_group() -> None:
    review = access_review(Caller("u", groups=("g",)), "get", "metrics", "n1")
    spec = review["spec"]
    assert (spec["user"], spec["groups"]) == ("u", ["g", "system:authenticated"])
    assert spec["resourceAttributes"]["name"] == "n1"


def test_expiring_cache_forgets_by_time_and_number() -> None:
    cache = ExpiringCache[int, str]()
    cache.put(1, "a", until=10.0)
    assert (cache.get(1, 9.0), cache.get(1, 10.0)) == ("a", None)
    for key in range(2, MAX_CACHED + 2):
        cache.put(key, "b", until=20.0)
    assert (cache.get(1, 9.0), cache.get(2, 9.0)) == (None, "b")


async def test_node_health_lists_what_failed() -> None:
    async def well() -> bool:
        return True

    async def ill() -> bool:
        return False

    health = NodeHealth({"ping": well, "device-plugin": ill})
    assert await health.answer(["ping"], verbose=False) == (200, "ok")
    code, text = await health.answer([], verbose=False)
    assert (code, text) == (500, "[+]ping ok\n[-]device-plugin failed: reason withheld\nhealthz check failed\n")
    for path in (["nothing"], ["ping", ""], [""]):
        assert (await health.answer(path, verbose=False))[0] == 404
    assert await health.answer(["ping"], verbose=True) == (200, "[+]ping ok\nhealthz check passed\n")


async def test_healthz_port_of_another_process_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healthz, "RETRY_S", 0.02)

    async def well() -> bool:
        return True

    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        server = HealthzServer(NodeHealth({"ping": well}), port)
        running = asyncio.create_task(server.run())
        for _ in range(10):
            await asyncio.sleep(0.02)
        assert not running.done()
    try:
        async with asyncio.timeout(60):
            await running
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"\r\n\r\nok")
    finally:
        await server.close()


async def test_healthz_answers_beside_hundreds_of_half_requests() -> None:
    async def well() -> bool:
        return True

    server = HealthzServer(NodeHealth({"ping": well}), port := free_port())
    await server.run()
    halves = []
    try:
        for _ in range(300):
            halves.append(await asyncio.open_connection("127.0.0.1", port))
            halves[-1][1].write(b"GET /healthz HTTP/1.1\r\nHost: n1\r\n")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(60):
            assert (await reader.read()).endswith(b"ok")
        writer.close()
        assert server.evicted == 0, "there is room for all"
    finally:
        for _, half in halves:
            half.close()
        await server.close()


async def asked(path: str, *methods: str) -> bytes:
    """Return what one connection answers to requests for a page of a node that knows no pods."""
    lookup = PodLookup({}, lambda uid: None)
    pages = PodPages({}, tuple, lambda: True)
    handlers = {**routes(lookup, StreamCalls(cast(Any, None)), bare_spdy=False), "pods": pages.pods}
    nowhere, loop = Path("/nonexistent"), asyncio.get_running_loop()
    endpoint = NodeEndpoint(EndpointOptions(nowhere, nowhere, nowhere, nowhere), handlers, AsyncMock())
    async with asyncio.timeout(60), await loop.create_server(web.Server(endpoint.answer), "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        for number, method in enumerate(methods, 1):
            close = "Connection: close\r\n" * (number == len(methods))
            writer.write(f"{method} {path} HTTP/1.1\r\nHost: n1\r\n{close}\r\n".encode())
        answer = await reader.read()
        writer.close()
    return answer


async def test_a_page_answers_kubelets_methods_only() -> None:
    """The body of a response to HEAD would be the beginning of the next one."""
    head, get = (await asked("/pods", "HEAD", "GET")).split(b"HTTP/1.1 ")[1:]
    assert (head[:3], head[-4:]) == (b"405", b"\r\n\r\n")
    assert b"Allow: GET" in head
    assert get.startswith(b"200")
    assert (await asked("/exec/ns/p/a", "PUT")).startswith(b"HTTP/1.1 405")


async def test_an_error_is_plain_text_as_kubelets() -> None:
    """A kube-apiserver makes a Status of it, whose message would be the JSON of ours."""
    head, _, body = (await asked("/containerLogs/ns/p/a", "GET")).partition(b"\r\n\r\n")
    assert b"text/plain" in head
    assert body == b'pod "p" does not exist'


def test_running_pods_are_those_of_the_runtime() -> None:
    run = ContainerStatus("c1", "s1", "a", 0, "running", 1, image="busybox")
    ended = ContainerStatus("c2", "s1", "b", 0, "exited", 1)
    statuses = [
        PodStatus("u1", "web", "default", containers=(run, ended)),
        PodStatus("u2", "over", "default", containers=(ended,), sandboxes=(SandboxStatus("s2", False, 0, 1),)),
    ]
    [pod] = running_pods(statuses)
    assert pod["metadata"]["name"] == "web"
    assert pod["spec"]["containers"] == [{"name": "a", "image": "busybox", "resources": {}}]


@pytest.mark.parametrize(
    ("namespace", "name", "uid"),
    [("kube-system", "dns-n1", "u-static"), ("team-a", "dns-n1", None), ("kube-system", "other", None)],
)
def test_runtime_status_by_annotation_is_that_of_the_same_name(namespace: str, name: str, uid: str | None) -> None:
    statuses = {"u-static": PodStatus(uid="u-static", name="dns-n1", namespace="kube-system")}
    view = PodLookup({}, statuses.get)
    annotations = {"kubernetes.io/config.hash": "u-static", "kubernetes.io/config.mirror": "u-static"}
    pod: views.Pod = {"metadata": {"namespace": namespace, "name": name, "uid": "u-api", "annotations": annotations}}
    assert getattr(view.runtime_status(pod), "uid", None) == uid


def test_container_may_run_until_a_new_pleg_has_listed_it() -> None:
    """Else `kubectl logs -f` ends, and exec finds no container, when pleg is killed."""
    streams = Streams()
    view = PodLookup({}, streams.pod_status.items.get, listed=streams.pods_listed)
    pod: views.Pod = {"metadata": {"namespace": "default", "name": "web", "uid": "u1"}}
    streams.pleg_state.on_snapshot([("pleg", PlegState())], 0)
    with pytest.raises(NotSynced):
        view.runtime_status(pod)
    assert view.may_run(pod, "c1")
    run = ContainerStatus("c1", "s1", "a", 0, "running", 1)
    streams.pod_status.on_snapshot([("u1", PodStatus("u1", "web", "default", containers=(run,)))], 0)
    streams.pleg_state.on_snapshot([("pleg", PlegState(healthy=True, last_relist_ns=1))], 0)
    assert (view.may_run(pod, "c1"), view.may_run(pod, "c2")) == (True, False)
    streams.pod_status.on_snapshot([], 0)
    assert view.runtime_status(pod) is None
    assert not view.may_run(pod, "c1")


def test_families_are_cut_out_whole() -> None:
    text = "# HELP a A.\n# TYPE a gauge\na 1\n# HELP nodeplane_b B.\n# TYPE nodeplane_b gauge\nnodeplane_b 2\n"
    assert families(text, lambda name: name == "a") == ["# HELP a A.\n# TYPE a gauge\na 1\n"]


def test_resource_page_sums_pods_and_escapes_labels() -> None:
    usage = ContainerUsage(at_ns=2_000_000_000, cpu_ns=1_500_000_000, working=100)
    containers = tuple(MeasuredContainer("ns", "web", "u1", name, name, usage) for name in ("a", 'b"'))
    page = resource_page(Sample(0.0, 1.0, usage, containers), lambda container: 5.0 if container.id == "a" else 0.0)
    lines = page.splitlines()
    assert 'container_start_time_seconds{container="a",namespace="ns",pod="web"} 5.0 2000' in lines
    assert 'container_memory_working_set_bytes{container="b\\"",namespace="ns",pod="web"} 100 2000' in lines
    assert 'pod_cpu_usage_seconds_total{namespace="ns",pod="web"} 3.0 2000' in lines
    assert "node_cpu_usage_seconds_total 1.5 2000" in lines


def test_pod_times_are_start_and_last_end() -> None:
    def ended(at: str) -> views.ContainerStatus:
        return {"state": {"terminated": {"finishedAt": at}}}

    status: views.PodStatus = {
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [ended("2026-01-01T00:00:09Z"), ended("2026-01-01T00:00:05Z"), ended("garbage")],
    }
    pods: dict[str, views.Pod] = {
        "default/a": {"metadata": {"namespace": "default", "name": "a", "uid": "u"}, "status": status},
        "x/y": {},
    }
    started, completed = PodTimes(pods).collect()
    assert [(sample.labels["pod"], sample.value) for sample in started.samples] == [("a", 1767225600.0)]
    assert [sample.value for sample in completed.samples] == [1767225609.0]


def test_kubelet_configuration_shows_the_settings(settings: Settings) -> None:
    config = kubelet_configuration(settings, 10250)
    assert (config["port"], config["maxPods"], config["healthzPort"]) == (10250, 110, 10248)
    assert config["containerRuntimeEndpoint"] == "unix:///run/x.sock"
    assert config["allowedUnsafeSysctls"] == ["kernel.sem", "net.core.*"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return plane_settings(
        tmp_path, runtime_endpoint="unix:///run/x.sock", allowed_unsafe_sysctls=("kernel.sem", "net.core.*")
    )
