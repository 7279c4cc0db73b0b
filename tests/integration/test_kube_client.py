"""Client, informer and recorder against a server that is killed, goes mute, expires and talks nonsense."""

import asyncio
import math
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from protocols.kinds.table import PODS
from protocols.kube.errors import ApiAway, ApiError, CredentialsUnusable
from protocols.kube.meta import Object, name_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.events import WAITING, EventRecorder, RecorderOptions
from protocols.kubeclient.informer import Informer, InformerOptions
from supervisor.pki.certificates import wanted
from supervisor.pki.issue import issue
from tests.support.kube_server import KubeServer, failure
from tests.support.waiting import until_true


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """Certificates of a plane."""
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as directory:
        issue(Path(directory), wanted("n1"))
        yield Path(directory)


class Seen:
    """A handler that writes down what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_add(self, obj: Object) -> None:
        self.told.append(f"+{name_of(obj)}")

    def on_update(self, old: Object, new: Object) -> None:
        assert old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"]
        self.told.append(f"~{name_of(new)}")

    def on_delete(self, obj: Object) -> None:
        self.told.append(f"-{name_of(obj)}")


class World:
    def __init__(self, server: KubeServer, client: ApiClient) -> None:
        self.server = server
        self.client = client
        self.seen = Seen()
        self.tasks: list[asyncio.Task[None]] = []

    def spawn(self, coroutine: Any) -> None:
        self.tasks.append(asyncio.create_task(coroutine))

    async def follow(self, **options: Any) -> Informer:
        informer = Informer(self.client, PODS, InformerOptions(**options), self.seen)
        self.spawn(informer.run())
        await informer.wait_synced(60)
        await until_true(lambda: self.server.watches > 0)
        return informer


@asynccontextmanager
async def world(certificates: Path, timeout: float = 5.0, refused_s: float = math.inf) -> AsyncIterator[World]:
    server = KubeServer(certificates)
    await server.start()
    cert, key = certificates / "scheduler.crt", certificates / "scheduler.key"
    options = ClientOptions(server=server.url, ca=certificates / "ca.crt", cert=cert, key=key, timeout=timeout)
    client = ApiClient(msgspec.structs.replace(options, refused_s=refused_s))
    await client.start()
    here = World(server, client)
    try:
        yield here
    finally:
        for task in here.tasks:
            task.cancel()
        for task in here.tasks:
            with suppress(asyncio.CancelledError):
                await task
        await client.close()
        await server.stop()


@asynccontextmanager
async def serving(certificates: Path, timeout: float = 5.0) -> AsyncIterator[World]:
    async with world(certificates, timeout) as here:
        yield here


@pytest.mark.parametrize("streams", [True, False])
async def test_list_then_watch(certificates: Path, streams: bool) -> None:
    async with serving(certificates) as here:
        here.server.streams = streams
        await here.server.put("a")
        informer = await here.follow()
        assert here.server.lists == 1
        await here.server.put("b")
        await here.server.put("a", spec={"x": 1})
        await here.server.remove("b")
        await until_true(lambda: here.seen.told == ["+a", "+b", "~a", "-b"])
        assert informer.items.keys() == {"ns/a"}
        assert informer.items["ns/a"]["kind"] == "Pod"


async def test_refused_initial_events_are_asked_for_once_per_client(certificates: Path) -> None:
    async with serving(certificates) as here:
        here.server.streams = False
        for _ in range(3):
            await here.follow()
        await until_true(lambda: here.server.watches == 3)
        assert (here.server.lists, len(here.server.requests)) == (3, 1 + 3 + 3)


@pytest.mark.parametrize("streams", [True, False])
async def test_only_the_first_list_may_be_from_the_cache(certificates: Path, streams: bool) -> None:
    async with serving(certificates) as here:
        here.server.streams = streams
        await here.follow(cached=True)
        await here.server.raw(b"garbage")
        await until_true(lambda: here.server.lists == 2)
        assert here.server.versions == ["0", ""]


async def test_initial_events_cut_off_change_nothing_and_come_again(certificates: Path) -> None:
    async with serving(certificates) as here:
        for name in "abc":
            await here.server.put(name)
        here.server.cut = 2
        informer = await here.follow()
        assert here.seen.told == ["+a", "+b", "+c"]
        assert (here.server.lists, informer.reflector.lists) == (2, 1)


async def test_initial_events_without_end_are_listed(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocols.kubeclient.informer.INITIAL_S", 0.3)
    async with serving(certificates) as here:
        await here.server.put("a")
        here.server.ends = False
        informer = await here.follow()
        await until_true(lambda: here.seen.told == ["+a"])
        assert (here.server.lists, informer.reflector.lists) == (2, 1)


async def test_watches_leave_the_connections_of_requests_to_others(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protocols.kubeclient.client.REQUESTS", 1)
    async with serving(certificates) as here:
        for _ in range(3):
            await here.follow()
        assert (await here.client.list(PODS))["items"] == []
        await until_true(lambda: here.server.watches == 3)


async def test_killed_server_costs_no_event_and_no_list(certificates: Path) -> None:
    async with serving(certificates) as here:
        informer = await here.follow()
        for number in range(5):
            await here.server.put(f"before-{number}")
            await here.server.stop()
            await here.server.put(f"while-{number}")
            await here.server.start()
            await until_true(partial(informer.items.get, f"ns/while-{number}"))
        assert here.server.lists == 1
        assert sorted(here.seen.told) == sorted(f"+{name}-{n}" for name in ("before", "while") for n in range(5))


async def test_dropped_connection_resumes_where_a_bookmark_was(certificates: Path) -> None:
    async with serving(certificates) as here:
        informer = await here.follow()
        here.server.revision = 500
        await here.server.bookmark()
        await until_true(lambda: informer.reflector.position == "500")
        here.server.compacted = 500
        here.server.drop_connections()
        await here.server.put("a")
        await until_true(lambda: here.seen.told == ["+a"])
        assert here.server.lists == 1


async def test_clean_ends_are_no_failures(certificates: Path) -> None:
    async with serving(certificates) as here:
        informer = await here.follow(timeout_s=(1, 1))
        await until_true(lambda: here.server.watches >= 3)
        await here.server.put("a")
        await until_true(lambda: here.seen.told == ["+a"])
        assert (here.server.lists, informer.failure) == (1, "")


async def test_expired_position_lists_again_and_emits_the_difference(certificates: Path) -> None:
    async with serving(certificates) as here:
        for name in ("gone", "same", "changed"):
            await here.server.put(name)
        await here.follow(on_doubt=lambda: here.seen.told.append("doubt"))
        here.server.mute = True
        await here.server.remove("gone")
        await here.server.put("changed", spec={})
        await here.server.put("new")
        here.server.compacted = here.server.revision
        here.server.mute = False
        here.seen.told.clear()
        here.server.drop_connections()
        await until_true(lambda: here.seen.told == ["doubt", "-gone", "~changed", "+new"])
        assert here.server.lists == 2


@pytest.mark.parametrize(
    "line", [b"garbage", b"[]", b"{}", b'{"type":"ADDED","object":{}}', b'{"type":"NEW","object":{}}', b"\xff"]
)
async def test_nonsense_on_a_watch_leads_to_a_new_list(certificates: Path, line: bytes) -> None:
    async with serving(certificates) as here:
        informer = await here.follow()
        await here.server.raw(line)
        await until_true(lambda: here.server.lists == 2)
        await here.server.put("a")
        await until_true(lambda: here.seen.told == ["+a"])
        assert informer.failure == ""


async def test_a_server_that_expires_every_watch_is_not_hammered(certificates: Path) -> None:
    async with serving(certificates) as here:
        here.server.compacted = 10**9
        await here.follow()
        await asyncio.sleep(1.0)
        assert here.server.lists <= 8


async def test_a_half_open_connection_is_noticed_by_its_silence(certificates: Path) -> None:
    async with serving(certificates) as here:
        await here.follow(silence_s=0.5)
        here.server.mute = True
        await here.server.put("a")
        await until_true(lambda: here.server.watches >= 2)
        here.server.mute = False
        await until_true(lambda: here.seen.told == ["+a"])
        assert here.server.lists == 1


async def test_a_long_event_arrives_whole(certificates: Path) -> None:
    async with serving(certificates) as here:
        informer = await here.follow()
        await here.server.put("a", spec={"text": "x" * 3_000_000})
        await until_true(lambda: here.seen.told == ["+a"])
        assert len(informer.items["ns/a"]["spec"]["text"]) == 3_000_000


async def test_reads_wait_for_a_server_that_restarts(certificates: Path) -> None:
    async with serving(certificates) as here:
        await here.server.stop()
        reading = asyncio.create_task(here.client.list(PODS))
        await asyncio.sleep(0.2)
        await here.server.start()
        assert (await reading)["items"] == []


async def test_user_waits_for_no_server_that_is_stopped(certificates: Path) -> None:
    async with world(certificates, timeout=1000.0, refused_s=0.0) as here:
        await here.server.stop()
        with pytest.raises(ApiAway, match="refuses connections: nobody listens there"):
            await here.client.get(PODS, "a", "ns")


async def test_deadlines_hold(certificates: Path) -> None:
    async with serving(certificates, timeout=1.0) as here:
        await here.server.stop()
        began = asyncio.get_running_loop().time()
        with pytest.raises(ApiAway):
            await here.client.get(PODS, "a", "ns", timeout=0.5)
        with pytest.raises(ApiAway):
            await here.client.create(PODS, {"metadata": {"name": "a"}}, "ns")
        assert asyncio.get_running_loop().time() - began < 15


async def test_a_write_whose_answer_is_lost_is_not_repeated(certificates: Path) -> None:
    async with serving(certificates) as here:

        def drop(request: web.Request, _body: Any) -> web.Response | None:
            if request.method == "POST":
                here.server.drop_connections()
            return None

        here.server.answer = drop
        with pytest.raises(ApiAway, match="POST /api/v1/namespaces/ns/pods"):
            await here.client.create(PODS, {"metadata": {"name": "a"}}, "ns")
        assert [method for method, _, _ in here.server.requests] == ["POST"]


async def test_repeatable_method_whose_answer_is_lost_is_sent_once(certificates: Path) -> None:
    """PUT and DELETE over a connection that was used before: aiohttp would send them again."""
    async with serving(certificates) as here:

        def lose(request: web.Request, _body: object) -> web.Response | None:
            if request.method != "GET":
                here.server.drop_connections()
            return None

        here.server.answer = lose
        pod = {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1"}}
        await here.client.list(PODS)
        with pytest.raises(ApiAway):
            await here.client.update(PODS, pod, "ns")
        await here.client.list(PODS)
        with pytest.raises(ApiAway):
            await here.client.delete(PODS, "a", "ns")
        assert [method for method, _, _ in here.server.requests] == ["GET", "PUT", "GET", "DELETE"]


async def test_retry_after_is_honoured_for_429_and_503_only(certificates: Path) -> None:
    async with serving(certificates) as here:
        answers = [failure(429, "TooManyRequests", {"Retry-After": "0"}), failure(503, "x", {"Retry-After": "0"})]
        here.server.answer = lambda _request, _body: answers.pop(0) if answers else None
        assert (await here.client.create(PODS, {"metadata": {"name": "a"}}, "ns"))["metadata"] == {"name": "a"}
        answers[:] = [failure(500, "InternalError", {"Retry-After": "0"})]
        with pytest.raises(ApiError) as caught:
            await here.client.get(PODS, "a", "ns")
        assert (caught.value.code, caught.value.reason) == (500, "InternalError")


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"a":'])
async def test_an_answer_that_is_no_object(certificates: Path, text: str) -> None:
    async with serving(certificates) as here:
        here.server.answer = lambda _request, _body: web.Response(text=text)
        with pytest.raises(ApiAway, match="not a JSON object"):
            await here.client.get(PODS, "a", "ns")
        here.server.answer = lambda _request, _body: web.Response(text=text, status=404)
        with pytest.raises(ApiError) as caught:
            await here.client.get(PODS, "a", "ns")
        assert caught.value.code == 404
        assert "\n" not in str(caught.value)


async def test_what_is_sent(certificates: Path) -> None:
    async with serving(certificates) as here:
        await here.client.patch(PODS, "a", "ns", {"x": 1}, kind="strategic", subresource="status")
        await here.client.delete(PODS, "a", "ns", grace=0, uid="u")
        await here.client.create(PODS, {"metadata": {"name": "a"}}, "ns", subresource="binding")
        path = "/api/v1/namespaces/ns/pods/a"
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
        assert here.server.requests == [
            ("PATCH", f"{path}/status", {"x": 1}),
            ("DELETE", path, options),
            ("POST", f"{path}/binding", {"metadata": {"name": "a"}}),
        ]


async def test_text_of_many_chunks_is_read_up_to_its_limit(certificates: Path) -> None:
    async with serving(certificates) as here:
        here.server.answer = lambda request, _body: web.Response(body=b"0123456789" * 100_000)
        assert await here.client.text("/log", {}, 654_321) == "0123456789" * 65_432 + "0"
        assert len(await here.client.text("/log", {}, 1 << 20)) == 1_000_000


async def test_text_that_is_refused_raises_the_reason(certificates: Path) -> None:
    async with serving(certificates) as here:
        here.server.answer = lambda _request, _body: failure(404, "NotFound")
        with pytest.raises(ApiError, match="NotFound"):
            await here.client.text("/log", {}, 100)
        await here.server.stop()
        with pytest.raises(ApiAway):
            await here.client.text("/log", {}, 100)


def pod(name: str) -> Object:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}"}}


async def test_equal_events_are_counted_in_one(certificates: Path) -> None:
    async with serving(certificates) as here:
        recorder = EventRecorder(here.client, RecorderOptions(component="me", host="n1"))
        here.spawn(recorder.run())
        recorder.event(pod("a"), "Normal", "Started", "it runs")
        recorder.event(pod("a"), "Normal", "Started", "it runs")
        recorder.event(pod("b"), "Normal", "Started", "it runs")
        await until_true(lambda: len(here.server.requests) == 2)
        recorder.event(pod("a"), "Normal", "Started", "it runs")
        await until_true(lambda: len(here.server.requests) == 3)
        (_, _, first), (_, _, other), (method, path, patch) = here.server.requests
        assert (first["count"], other["count"], patch["count"]) == (2, 1, 3)
        assert (method, path.rpartition("/")[2]) == ("PATCH", first["metadata"]["name"])
        assert first["involvedObject"]["uid"] == "u-a"
        assert (first["source"], first["reason"]) == ({"component": "me", "host": "n1"}, "Started")


async def test_events_wait_while_the_server_is_away_and_stay_bounded(certificates: Path) -> None:
    async with serving(certificates, timeout=0.5) as here:
        await here.server.stop()
        recorder = EventRecorder(here.client, RecorderOptions(component="me"))
        here.spawn(recorder.run())
        for number in range(WAITING + 50):
            recorder.event(pod(f"p{number}"), "Normal", "Started", "it runs")
        assert recorder.dropped == 50
        await asyncio.sleep(0.1)
        await here.server.start()
        await until_true(lambda: len(here.server.requests) >= WAITING - 1)


async def test_an_event_whose_answer_is_lost_is_written_once(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protocols.kubeclient.events.PAUSE_S", 0.05)

    async with serving(certificates) as here:
        names: list[str] = []

        def answer(_request: web.Request, body: Any) -> web.Response | None:
            names.append(body["metadata"]["name"])
            if len(names) == 1:
                here.server.drop_connections()
                return None
            return failure(409, "AlreadyExists")

        here.server.answer = answer
        recorder = EventRecorder(here.client, RecorderOptions(component="me"))
        here.spawn(recorder.run())
        recorder.event(pod("a"), "Normal", "Started", "it runs")
        await until_true(lambda: len(names) == 2)
        assert names[0] == names[1]
        assert recorder.dropped == 0


async def test_files_that_are_no_certificates_are_named(certificates: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "scheduler.key"
    damaged.write_bytes(b"no key")
    ca, cert = certificates / "ca.crt", certificates / "scheduler.crt"
    for files in ((ca, cert), (damaged, cert), (ca, tmp_path / "none.crt")):
        client = ApiClient(ClientOptions(server="https://127.0.0.1:1", ca=files[0], cert=files[1], key=damaged))
        with pytest.raises(CredentialsUnusable, match=str(files[1])):
            await client.start()


async def test_token_file_is_read_again_and_a_bad_one_not_used(certificates: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    cert, key = certificates / "scheduler.crt", certificates / "scheduler.key"
    server = KubeServer(certificates)
    sent: list[str] = []
    server.answer = lambda request, _body: sent.append(request.headers.get("Authorization", ""))
    await server.start()
    options = ClientOptions(server=server.url, ca=certificates / "ca.crt", cert=cert, key=key, token_file=token)
    client = ApiClient(options)
    try:
        await client.start()
        for content in ("first\n", "second", "two words", "x" * 100_000):
            token.write_text(content)
            await client.list(PODS)
        assert sent == ["Bearer first", "Bearer second", "Bearer second", "Bearer second"]
    finally:
        await client.close()
        await server.stop()
    with pytest.raises(CredentialsUnusable, match="holds no token") as caught:
        await ApiClient(options).start()
    assert "xxx" not in str(caught.value)


@pytest.mark.parametrize(("changes", "trusted"), [
    ({}, True),
    ({"server_name": "kubernetes.default.svc"}, True),
    ({"server_name": "elsewhere.example"}, False),
    ({"ca": None}, False),
    ({"ca": None, "insecure": True}, True),
])  # fmt: skip
async def test_server_is_verified_by_the_ca_and_the_name(
    certificates: Path, changes: dict[str, Any], trusted: bool
) -> None:
    cert, key = certificates / "scheduler.crt", certificates / "scheduler.key"
    server = KubeServer(certificates)
    await server.start()
    given: dict[str, Any] = {
        "server": server.url,
        "ca": certificates / "ca.crt",
        "cert": cert,
        "key": key,
        "timeout": 1.0,
    }
    client = ApiClient(ClientOptions(**given | changes))
    try:
        await client.start()
        if trusted:
            assert (await client.list(PODS))["items"] == []
        else:
            with pytest.raises(ApiAway, match="certificate verify failed"):
                await client.list(PODS)
    finally:
        await client.close()
        await server.stop()


async def test_server_below_a_path_is_asked_there(certificates: Path) -> None:
    cert, key = certificates / "scheduler.crt", certificates / "scheduler.key"
    server = KubeServer(certificates)
    await server.start()
    client = ApiClient(
        ClientOptions(server=f"{server.url}/k8s/c-1", ca=certificates / "ca.crt", cert=cert, key=key, timeout=5.0)
    )
    try:
        await client.start()
        await client.list(PODS, label_selector="a in (b, c)")
        assert [path for _, path, _ in server.requests] == ["/k8s/c-1/api/v1/pods"]
    finally:
        await client.close()
        await server.stop()


async def test_name_that_is_none_stays_within_its_path(certificates: Path) -> None:
    async with serving(certificates) as here:
        await here.client.delete(PODS, "a b?c#d%2F", "ns")
        assert [path for _, path, _ in here.server.requests] == ["/api/v1/namespaces/ns/pods/a b?c#d%2F"]


REFUSED = ("404 NotFound", "403 Forbidden")


@pytest.mark.parametrize("refusal", REFUSED)
async def test_informer_of_an_optional_resource_refused_goes_on_and_follows_later(
    certificates: Path, refusal: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("protocols.kubeclient.informer.UNSERVED_S", 0.05)
    code, reason = refusal.split()
    async with world(certificates) as here:
        lists: list[str] = []

        def refuse(request: web.Request, _body: Object) -> web.Response:
            lists.append(request.path)
            return failure(int(code), reason)

        here.server.answer = refuse
        informer = Informer(here.client, PODS, InformerOptions(optional=True), here.seen)
        here.spawn(informer.run())
        async with asyncio.timeout(60):
            await informer.wait_known()
        await until_true(lambda: len(lists) > 3)
        told = [record.getMessage() for record in caplog.records if "not served" in record.getMessage()]
        assert not informer.synced
        assert told == [f"resource is not served, going on without it resource=pods error={reason}"]
        here.server.answer = lambda _request, _body: None
        await here.server.put("late")
        await informer.wait_synced(60)
        await until_true(lambda: here.seen.told == ["+late"])


async def test_informer_forbidden_without_an_option_waits(certificates: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(certificates) as here:
        here.server.answer = lambda _request, _body: failure(403, "Forbidden")
        informer = Informer(here.client, PODS, InformerOptions(), here.seen)
        here.spawn(informer.run())
        await until_true(lambda: any("list forbidden" in record.getMessage() for record in caplog.records))
        assert not informer.unserved.is_set()
        here.server.answer = lambda _request, _body: None
        await informer.wait_synced(60)


async def test_closed_client_is_away_and_faults_no_task(certificates: Path) -> None:
    async with world(certificates) as here:
        await here.server.stop()
        retried = asyncio.create_task(here.client.list(PODS))
        await asyncio.sleep(0)
        await here.client.close()
        for asked in (retried, here.client.get(PODS, "a", "default")):
            with pytest.raises(ApiAway):
                await asyncio.wait_for(asked, 10)
