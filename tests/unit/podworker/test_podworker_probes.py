"""Probes: the standing never changes before its threshold, and what it does to a pod."""

import asyncio
import socket
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import grpc
import hypothesis.strategies as st
import pytest
from hypothesis import given

from actors.podworker.model.probe_metrics import ProbeMetrics
from actors.podworker.pods.probes import handlers
from actors.podworker.pods.probes.handlers import check, http_url, run_hook
from protocols.bus import BusError, DeadlineExceeded, Unavailable
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.probes import (
    LIVENESS,
    READINESS,
    STARTUP,
    Probe,
    ProbeAttempt,
    ProbeOutcome,
    ProbeState,
    ProbeTarget,
    initial_state,
    is_decided,
    observe,
    probed,
    probes_of,
    verdict_of,
)
from protocols.lifecycle.pods.types import read_pod
from protocols.messages.cri import ANSWERED
from tests.support.podworker_fakes import FakeDependencies, container, pod
from tests.support.podworker_scene import Scene, at_work

OUTCOMES = st.sampled_from(ProbeOutcome)
PROBES = st.builds(
    Probe,
    kind=st.sampled_from([LIVENESS, READINESS, STARTUP]),
    handler=st.just({"exec": {}}),
    success=st.integers(1, 4),
    failure=st.integers(1, 4),
)


@given(PROBES, st.lists(OUTCOMES, max_size=30), st.booleans())
def test_a_standing_changes_only_after_enough_equal_answers(
    probe: Probe, outcomes: list[ProbeOutcome], known: bool
) -> None:
    standing, told = initial_state(probe.kind, known), list[ProbeOutcome]()
    for outcome in outcomes:
        before = standing.good
        standing = observe(probe, standing, outcome)
        if outcome is not ProbeOutcome.UNKNOWN:
            told.append(outcome)
        if standing.good is not before:
            wanted = ProbeOutcome.SUCCESS if standing.good else ProbeOutcome.FAILURE
            need = probe.success if standing.good else probe.failure
            assert told[-need:] == [wanted] * need
    tail = told[-1:] and [o for o in told if o is told[-1]]
    needed = probe.success if told[-1:] == [ProbeOutcome.SUCCESS] else probe.failure
    if tail and told[-needed:] == [told[-1]] * needed and len(told) >= needed:
        assert standing.good is (told[-1] is ProbeOutcome.SUCCESS)


@given(st.dictionaries(st.sampled_from([LIVENESS, READINESS, STARTUP]), st.sampled_from([True, False, None])))
def test_verdicts(goods: dict[str, bool | None]) -> None:
    verdict = verdict_of({kind: (Probe(kind, {}), ProbeState(good)) for kind, good in goods.items()})
    assert verdict.started == (goods.get(STARTUP, True) is True)
    assert not verdict.ready or verdict.started
    assert bool(verdict.fault) == (goods.get(LIVENESS, True) is False or goods.get(STARTUP, True) is False)


def test_when_no_more_is_asked() -> None:
    startup, readiness = Probe(STARTUP, {}), Probe(READINESS, {})
    assert is_decided(startup, ProbeState(True))
    assert is_decided(startup, ProbeState(False))
    assert not is_decided(startup, ProbeState(None))
    assert not is_decided(readiness, ProbeState(False))


def test_defaults_and_where_a_url_leads() -> None:
    raw = container(
        "a", livenessProbe={"httpGet": {"port": "web", "path": "x"}}, ports=[{"name": "web", "containerPort": 81}]
    )
    spec = read_pod(pod(raw, inits=[container("i", livenessProbe={"exec": {"command": ["x"]}})]))
    assert probed(spec)
    assert probes_of(spec.inits[0]) == ()
    (probe,) = probes_of(spec.apps[0])
    assert (probe.period, probe.timeout, probe.success, probe.failure, probe.initial_delay) == (10, 1, 1, 3, 0)
    assert http_url(probe.handler["httpGet"], ProbeTarget("id", "::1", {"web": 81})) == "http://[::1]:81/x"


async def test_headers_of_an_http_probe_are_those_of_its_spec(tmp_path: Path) -> None:
    """As kubelet's: a name may come twice, an empty Accept is left out, and nothing asks for compression.

    Headers of the answer may be long.
    """
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2])
        writer.write(b"HTTP/1.1 200 OK\r\nX-Policy: " + b"x" * 20_000 + b"\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        pairs = (("X-A", "1"), ("X-A", "2"), ("accept", ""), ("user-agent", "me"), ("host", "example.com"))
        headers = [{"name": name, "value": value} for name, value in pairs]
        handler: Any = {"httpGet": {"port": server.sockets[0].getsockname()[1], "httpHeaders": headers}}
        deps = FakeDependencies(tmp_path).deps
        assert (await check(deps, handler, ProbeTarget("c1", "127.0.0.1"), 30)).outcome is ProbeOutcome.SUCCESS
    assert sorted(map(str.lower, seen)) == [
        "connection: close",
        "host: example.com",
        "user-agent: me",
        "x-a: 1",
        "x-a: 2",
    ]


async def test_checks_of_real_sockets(tmp_path: Path) -> None:
    """Answers by path: /CODE that status; /elsewhere leads to another host, /here to /200; /cut and /slow end early."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if not line:  # a TCP probe connects and leaves
            writer.close()
            return
        path = line.split()[1].decode()[1:]
        location = {"elsewhere": "http://other.example/", "here": "/200", "304": "/500"}.get(path, "")
        code = path if path.isdecimal() else "200" if path in ("cut", "slow") else "302"
        size = 0 if code == "304" else 9 if path in ("cut", "slow") else 2
        head = f"HTTP/1.1 {code} X\r\nContent-Length: {size}\r\n" + (f"Location: {location}\r\n" if location else "")
        writer.write(f"{head}\r\n{'ok'[:size]}".encode())
        await writer.drain()
        if path == "slow":
            await reader.read()
        writer.close()

    deps = FakeDependencies(tmp_path).deps
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    target = ProbeTarget("c1", "127.0.0.1")

    async def http(path: str, timeout: float = 30) -> ProbeAttempt:
        return await check(deps, {"httpGet": {"port": port, "path": path}}, target, timeout)

    assert (await http("/200")).outcome is ProbeOutcome.SUCCESS
    for path in ("/399", "/304", "/302", "/elsewhere"):
        attempt = await http(path)
        assert (attempt.outcome, attempt.warning) == (ProbeOutcome.SUCCESS, True)
    assert (await http("/cut")).outcome is ProbeOutcome.UNKNOWN
    assert ProbeOutcome.UNKNOWN in {(await http("/slow", timeout)).outcome for timeout in (0.1, 2)}
    assert (await http("/here")).outcome is ProbeOutcome.SUCCESS
    assert (await http("/500")).output == "HTTP probe failed with statuscode: 500"
    assert (await check(deps, {"tcpSocket": {"port": port}}, target, 30)).outcome is ProbeOutcome.SUCCESS
    server.close()
    await server.wait_closed()
    dialled = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert await check(deps, {"tcpSocket": {"port": port}}, target, 30) == ProbeAttempt(ProbeOutcome.FAILURE, dialled)
    assert (await http("/200")) == ProbeAttempt(ProbeOutcome.FAILURE, f'Get "http://127.0.0.1:{port}/200": {dialled}')
    assert "no port named" in (await check(deps, {"tcpSocket": {"port": "x"}}, target, 30)).output


async def test_https_hook_of_a_server_without_tls_is_called_in_plain_text(tmp_path: Path) -> None:
    seen = b""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen = await reader.read(4096)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\nshort")
        writer.close()

    fake = FakeDependencies(tmp_path)
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        headers = [{"name": "Authorization", "value": "s"}, {"name": "X-A", "value": "1"}]
        hook: Any = {"httpGet": {"port": port, "scheme": "HTTPS", "httpHeaders": headers}}
        spec = read_pod(pod(container("a")))
        await run_hook(fake.deps, spec, spec.containers[0], hook, "c1", "127.0.0.1", 30)
    assert b"X-A: 1" in seen
    assert b"Authorization" not in seen
    text = f"request to HTTPS lifecycle hook 127.0.0.1:{port} got HTTP response, retry with HTTP succeeded"
    assert fake.recorder.events == [("Warning", "LifecycleHTTPFallback", text)]


async def test_https_hook_is_called_in_plain_text_with_openssl_since_3_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(source: views.HTTPGetAction, target: ProbeTarget, *_: object) -> None:
        if source["scheme"] == "HTTPS":
            key: Any = SimpleNamespace(host="h", port=1, ssl=False)
            raise aiohttp.ClientConnectorSSLError(key, ssl.SSLError(1, "[SSL] record layer failure (_ssl.c:1033)"))

    monkeypatch.setattr(handlers, "fetch", fetch)
    fake, spec = FakeDependencies(tmp_path), read_pod(pod(container("a")))
    hook: Any = {"httpGet": {"port": 1, "scheme": "HTTPS"}}
    await run_hook(fake.deps, spec, spec.containers[0], hook, "c1", "127.0.0.1", 30)
    assert [reason for _, reason, _ in fake.recorder.events] == ["LifecycleHTTPFallback"]


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1"])
async def test_grpc_health(ip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SERVING for the service `good`, NOT_SERVING for others; nobody there is a failure, too."""
    if ip == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    asked: list[bytes] = []

    async def answer(request: bytes, context: object) -> bytes:
        asked.append(request)
        return b"\x08\x01" if request.endswith(b"good") else b"\x08\x02"

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    port = server.add_insecure_port(f"[{ip}]:0" if ":" in ip else f"{ip}:0")
    await server.start()
    deps, target = FakeDependencies(tmp_path).deps, ProbeTarget("c1", ip)

    async def ask(service: str) -> ProbeAttempt:
        return await check(deps, {"grpc": {"port": port, "service": service}}, target, 30)

    assert (await ask("good")).outcome is ProbeOutcome.SUCCESS
    assert (await ask("x" * 200 + "good")).outcome is ProbeOutcome.SUCCESS
    assert (await ask("")).output == 'service unhealthy (responded with "NOT_SERVING")'
    assert asked == [b"\x0a\x04good", b"\x0a\xcc\x01" + b"x" * 200 + b"good", b""]
    await server.stop(0)
    assert (await ask("good")).outcome is ProbeOutcome.FAILURE
    assert (await ask("good")).output.startswith("error: failed to connect service ")


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (
            {"httpGet": {"port": 1, "path": "/a"}},
            'Get "http://127.0.0.1:1/a": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
        ),
        ({"tcpSocket": {"port": 1}}, "dial tcp 127.0.0.1:1: i/o timeout"),
        ({"grpc": {"port": 1}}, "timeout: health rpc did not complete within 1m30s"),
        ({"exec": {"command": ["sleep", "9"]}}, 'command timed out: "sleep 9" timed out after 1m30s'),
    ],
)
async def test_probe_without_an_answer_in_time_fails_in_upstreams_words(
    handler: Any, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(*args: object) -> None:
        raise TimeoutError

    for name in ("fetch", "_tcp", "_grpc"):
        monkeypatch.setattr(handlers, name, late)
    fake = FakeDependencies(tmp_path)
    fake.runtime.answers["sleep 9"] = DeadlineExceeded("late", {ANSWERED: "true"})
    assert (await check(fake.deps, handler, ProbeTarget("c1", "127.0.0.1"), 90)).output == text


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ((0, b"fine"), ProbeOutcome.SUCCESS),
        ((1, b"bad"), ProbeOutcome.FAILURE),
        (DeadlineExceeded("late", {ANSWERED: "true"}), ProbeOutcome.FAILURE),
        (DeadlineExceeded("the runtime hangs"), ProbeOutcome.UNKNOWN),
        (Unavailable("cri is away"), ProbeOutcome.UNKNOWN),
    ],
)
async def test_exec(tmp_path: Path, answer: tuple[int, bytes] | BusError, outcome: ProbeOutcome) -> None:
    fake = FakeDependencies(tmp_path)
    fake.runtime.answers["try it"] = answer
    handler: views.Probe = {"exec": {"command": ["try", "it"]}}
    assert (await check(fake.deps, handler, ProbeTarget("c1", ""), 1)).outcome is outcome


def quick(command: str, **more: Any) -> Object:
    return {"exec": {"command": [command]}, "periodSeconds": 1, "failureThreshold": 1, **more}


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe periods of a hundredth."""
    real = asyncio.sleep
    monkeypatch.setattr("actors.podworker.pods.probes.prober.asyncio.sleep", lambda seconds: real(seconds / 100))


async def test_probe_results_are_counted_until_the_pod_ends(tmp_path: Path, fast: None) -> None:
    scene = Scene(tmp_path, pod(container("a", readinessProbe=quick("ready"))))
    metrics = scene.fake.probes
    scene.fake.runtime.answers["ready"] = (1, b"not yet")
    async with at_work(scene):
        await scene.running()
        await scene.until(lambda: counted(metrics).get(("Readiness", "failed", "a"), 0) > 1)
    assert counted(metrics) == {}


def counted(metrics: ProbeMetrics) -> dict[tuple[str, ...], float]:
    [family] = metrics.collect()
    names = ("probe_type", "result", "container")
    return {tuple(sample.labels[name] for name in names): sample.value for sample in family.samples}


async def test_slow_answer_does_not_defer_the_next_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in kubelet, a period begins with an attempt: else a timeout as long as the period halves the attempts."""
    now, pauses, real = [0.0], list[float](), asyncio.sleep

    async def answer(*_: object) -> ProbeAttempt:
        now[0] += 4.0
        return ProbeAttempt(ProbeOutcome.FAILURE)

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await real(0.001)

    monkeypatch.setattr("actors.podworker.pods.probes.prober.check", answer)
    monkeypatch.setattr("actors.podworker.pods.probes.prober.asyncio.sleep", pause)
    monkeypatch.setattr("actors.podworker.pods.probes.prober.time", SimpleNamespace(monotonic=lambda: now[0]))
    async with at_work(Scene(tmp_path, pod(container("a", readinessProbe=quick("ready", periodSeconds=10))))) as scene:
        await scene.until(lambda: 6.0 in pauses)


async def test_readiness_shows_at_once_and_liveness_restarts(tmp_path: Path, fast: None) -> None:
    raw = pod(container("a", readinessProbe=quick("ready"), livenessProbe=quick("live", failureThreshold=2)))
    scene = Scene(tmp_path, raw)
    answers = scene.fake.runtime.answers
    answers["ready"] = (1, b"not yet")
    async with at_work(scene):
        await scene.running()
        await scene.until(
            lambda: ("Warning", "Unhealthy", "Readiness probe failed: not yet") in scene.fake.recorder.events
        )
        assert not scene.shown("a")["ready"]
        assert scene.shown("a")["started"]
        answers["ready"] = (0, b"")
        await scene.until(lambda: scene.shown("a")["ready"])
        answers["live"] = (1, b"stuck")
        await scene.until(lambda: scene.fake.runtime.most_running and len(scene.fake.runtime.containers) == 2)
        answers["live"] = (0, b"")
        await scene.until(lambda: scene.shown("a").get("restartCount") == 1 and scene.shown("a")["ready"])
        answers["live"] = Unavailable("cri is away")
        text = "Liveness probe errored and resulted in unknown state: cri is away"
        await scene.until(lambda: ("Warning", "Unhealthy", text) in scene.fake.recorder.events)
        text = "Container a failed liveness probe, will be restarted"
        assert ("Normal", "Killing", text) in scene.fake.recorder.events
        assert scene.fake.runtime.most_running == {"a": 1}


async def test_a_sidecar_holds_up_the_rest_until_its_startup_probe_succeeds(tmp_path: Path, fast: None) -> None:
    slow = container("s", restartPolicy="Always", startupProbe=quick("up", failureThreshold=1000))
    scene = Scene(tmp_path, pod(container("a"), inits=[slow]))
    scene.fake.runtime.answers["up"] = (1, b"")
    async with at_work(scene):
        await scene.running("s")
        await asyncio.sleep(0.05)
        assert not scene.shown("s")["started"]
        assert not scene.fake.runtime.running("a")
        scene.fake.runtime.answers["up"] = (0, b"")
        await scene.running("a")
        assert scene.shown("s")["started"]


async def test_a_new_life_does_not_take_readiness_away(tmp_path: Path) -> None:
    raw = pod(container("a", readinessProbe=quick("ready", periodSeconds=1)))
    scene = Scene(tmp_path, raw)
    async with at_work(scene):
        await scene.until(lambda: scene.shown("a").get("ready"))
    fresh = Scene(tmp_path, {**raw, "status": scene.status})
    fresh.fake.runtime.__dict__.update(scene.fake.runtime.__dict__, changed=fresh.changed)
    fresh.fake.runtime.answers["ready"] = Unavailable("not asked yet")
    fresh.fake.pleg.deliver("uid-1")
    async with at_work(fresh):
        await fresh.until(lambda: fresh.fake.statuses.history)
        assert all(s["containerStatuses"][0]["ready"] for s in fresh.fake.statuses.history)


async def test_hooks_run_inside_the_grace_and_say_when_they_fail(tmp_path: Path) -> None:
    hooks = {"postStart": {"exec": {"command": ["hello"]}}, "preStop": {"exec": {"command": ["bye"]}}}
    scene = Scene(tmp_path, pod(container("a", lifecycle=hooks)))
    scene.fake.runtime.answers["bye"] = (2, b"no")
    async with at_work(scene):
        await scene.running()
        assert ("exec_sync", "hello") in scene.fake.runtime.calls
        scene.delete(grace=5)
        await scene.until(lambda: scene.fake.pods.deleted)
        calls = [call for call, what in scene.fake.runtime.calls if call == "stop_container" or what == "bye"]
        assert calls[:2] == ["exec_sync", "stop_container"]
        assert ("Warning", "FailedPreStopHook", "PreStopHook failed") in scene.fake.recorder.events


async def test_a_failed_post_start_ends_the_container(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(container("a", lifecycle={"postStart": {"exec": {"command": ["no"]}}}), policy="Never"))
    scene.fake.runtime.answers["no"] = (1, b"sorry")
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        assert ("Warning", "FailedPostStartHook", "PostStartHook failed") in scene.fake.recorder.events


async def test_a_post_start_that_nobody_runs_fails_as_upstreams(tmp_path: Path) -> None:
    """Else a manifest that works here fails in a cluster."""
    hook = {"postStart": {"tcpSocket": {"port": 80}}}
    scene = Scene(tmp_path, pod(container("a", lifecycle=hook), policy="Never"))
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        assert ("Warning", "FailedPostStartHook", "PostStartHook failed") in scene.fake.recorder.events


async def test_a_failed_post_start_is_the_reason_to_wait_until_the_next_start(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(container("a", lifecycle={"postStart": {"exec": {"command": ["no"]}}})))
    scene.fake.runtime.answers["no"] = (1, b"sorry")

    def waited() -> list[views.ContainerStateWaiting]:
        shown = [entry["state"] for entry in entries_of(scene.fake.statuses.history)]
        return [state["waiting"] for state in shown if state.get("waiting", {}).get("reason") == "PostStartHookError"]

    async with at_work(scene):
        await scene.until(
            lambda: scene.shown("a").get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"
        )
        assert scene.shown("a")["lastState"]["terminated"]["exitCode"] == 143
        [first, *_] = waited()
        assert first["message"] == (
            'Exec lifecycle hook ([no]) for Container "a" in Pod "p_ns(uid-1)" failed - '
            "error: command 'no' exited with 1: sorry"
        )


async def test_a_failed_post_start_of_a_container_that_is_not_restarted_shows_its_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(container("a", lifecycle={"postStart": {"exec": {"command": ["no"]}}}), policy="Never"))
    scene.fake.runtime.answers["no"] = (1, b"sorry")
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        assert scene.shown("a")["state"]["terminated"]["exitCode"] == 143


def entries_of(history: list[views.PodStatus]) -> list[views.ContainerStatus]:
    return [entry for status in history for entry in status.get("containerStatuses", ())]


async def test_the_active_deadline_fails_the_pod(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(container("a"), activeDeadlineSeconds=3600))
    async with at_work(scene):
        await scene.running()
        scene.worker.update(pod(container("a"), activeDeadlineSeconds=1))
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        assert scene.status["reason"] == "DeadlineExceeded"
        assert scene.shown("a")["state"]["terminated"]["exitCode"] == 143


async def test_termination_messages_from_file_and_log(tmp_path: Path) -> None:
    words = container("a", terminationMessagePolicy="FallbackToLogsOnError")
    scene = Scene(tmp_path, pod(words, container("b"), policy="Never"))
    async with at_work(scene):
        await scene.running("a")
        await scene.running("b")
        log = tmp_path / "logs" / "ns_p_uid-1" / "a" / "0.log"
        log.write_bytes(b"2026-01-01T00:00:00.000000000Z stdout F one\n2026-01-01T00:00:00.000000000Z stderr P two\n")
        (tmp_path / "pods" / "uid-1" / "containers" / "b" / "0.message").write_text("x" * 5000)
        for name in "ab":
            scene.fake.runtime.end(scene.fake.runtime.running(name)[0].id, 1)
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        assert scene.shown("a")["state"]["terminated"]["message"] == "one\ntwo"
        assert scene.shown("b")["state"]["terminated"]["message"] == "x" * 4096
