"""Every kind of task, ended by an unknown exception: the log line, the count, and how its owner recovers.

Kinds with a test beside their owner's are not repeated here; the last test says which have none.
"""

import ast
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from actors.apiserver.authorization.rbac import feed
from actors.apiserver.http.telemetry import audit
from actors.apiserver.watch import begin
from actors.apiserver.writes.admission.quota import QuotaAdmission
from actors.controllers.lifecycle.pod_gc import PodGarbageCollector
from actors.controllers.nodes.controller import NodeController
from actors.devices.admission.admission import Admissions
from actors.devices.dra.claim_checkpoint import ClaimWriter
from actors.devices.dra.claim_preparer import ClaimPreparer
from actors.devices.dra.driver_instance import DriverInstance
from actors.devices.dra.driver_registry import HealthMonitor
from actors.devices.plugins.connections import PluginConnections
from actors.devices.watcher.sockets import Operation
from actors.devices.watcher.watcher import PluginWatcher
from actors.frontdoor.serving.server import StandardServices
from actors.podworker.clients.api import SharedReads
from actors.podworker.endpoint.metrics_pages import MetricsPages
from actors.podworker.pods.containers.killer import Killer
from actors.podworker.pods.volumes import volumes
from actors.runtime.backends import process_backend
from actors.runtime.streaming.port_forward import Forwarding, _Pair
from protocols.bus.service import BusService
from protocols.dra.attacher import Attacher
from protocols.etcd.transport.connection_channel import ConnectionChannel
from protocols.http2.server import GrpcServer, GrpcServerOptions, Method, _Connection
from protocols.http2.server_session import Request
from protocols.lifecycle.pods.types import PodSpec
from protocols.process.tasks import FAILURES, Tasks, cancel, shared
from protocols.serving.listener import Listener, Slot
from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.dra.driver_kubelet import DriverKubelet
from supervisor.conform.manifest.pod_program import PodProgram
from supervisor.conform.program_stage import Running
from supervisor.console.web import server as console
from supervisor.report import http
from tests.support.breaks import Breaks
from tests.support.product import ROOT, product_modules
from tests.support.waiting import until_async

Patch = pytest.MonkeyPatch
Scenario = Callable[[Patch], Awaitable[None]]
SCENARIOS: dict[str, list[Scenario]] = {}


def kind(name: str) -> Callable[[Scenario], Scenario]:
    """Register a scenario that ends a task of this kind by a bug and sees its owner recover."""

    def register(scenario: Scenario) -> Scenario:
        SCENARIOS.setdefault(name, []).append(scenario)
        return scenario

    return register


def made(owner: Any, **attributes: Any) -> Any:
    """Return an object of which only these attributes exist."""
    obj = owner.__new__(owner)
    for name, value in attributes.items():
        setattr(obj, name, value)
    return obj


async def raises(work: Awaitable[Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(work, 60)


async def restarts(breaks: Breaks) -> None:
    await until_async("restarted", lambda: breaks.calls == 2)


# conform


@kind("finds sockets")
async def sockets_are_found_again(patch: Patch) -> None:
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as directory:
        kubelet, breaks = DriverKubelet(Path(directory), Mock(), 1.0, Mock(), ()), Breaks()
        patch.setattr(kubelet._sockets, "_scan", breaks)
        await kubelet.start()
        await restarts(breaks)
        await kubelet.stop()


@kind("follows its pod")
async def pod_is_read_again(patch: Patch) -> None:
    reads = Breaks({})
    pods = Mock(
        create=AsyncMock(return_value={"metadata": {"namespace": "n", "name": "p"}, "spec": {"containers": []}}),
        read=reads,
    )
    pods.delete = AsyncMock()
    program = PodProgram(pods, {"spec": {"containers": []}}, "p")
    patch.setattr(program, "_is_up", lambda: True)
    patch.setattr(pods, "pids", AsyncMock(return_value=[]))
    await program.start()
    await restarts(reads)
    await program.kill()


@kind("asks the agent")
async def agent_is_asked_again(patch: Patch) -> None:
    breaks = Breaks("")
    patch.setattr("supervisor.conform.agent.agent_stage.output_of", breaks)
    patch.setattr(Running, "start_program", AsyncMock())
    stage = made(AgentStage, shows_with="x", launcher=Mock(), timeout=1.0, _tasks=Tasks())
    await stage.start_program()
    await restarts(breaks)
    await stage._tasks.close()


# podworker


@kind("volumes")
async def files_are_written_at_the_next_refresh(patch: Patch) -> None:
    patch.setattr(volumes, "VERIFY_S", 0.0)
    breaks, spec = Breaks(), Mock(uid="uid-1", raw={"spec": {"volumes": [{"name": "v", "configMap": {}}]}})
    made_ = volumes.Volumes(Mock(), lambda: spec)
    patch.setattr(made_, "_refresh", breaks)
    patch.setattr(made_, "_written", lambda: [{}])
    patch.setattr(made_, "_shown_by", lambda spec: ())
    made_.refresh(Mock())
    await until_async("ended", lambda: not len(made_._tasks))
    made_.refresh(Mock())
    await restarts(breaks)
    made_.close()


@kind("container stop")
async def container_is_stopped_by_the_next_sync(patch: Patch) -> None:
    ended, breaks = asyncio.Event(), Breaks()
    killer = Killer(Mock(), lambda id_, good: ended.set())
    patch.setattr(killer, "_call", breaks)
    stop = Mock(id="c1", fast=True, after=())
    spec = Mock(spec=PodSpec, uid="uid-1")
    killer.stop(spec, stop, 1)
    await asyncio.wait_for(ended.wait(), 60)
    killer.stop(spec, stop, 1)
    await restarts(breaks)
    killer.cancel()


@kind("read")
async def reader_gets_the_error_and_the_next_one_reads(patch: Patch) -> None:
    reads, load = SharedReads(), Breaks({})
    await raises(reads.read(("Secret", "ns", "s"), load))
    assert await reads.read(("Secret", "ns", "s"), load) == {}


@kind("metrics page")
async def page_of_the_node_is_made_again(patch: Patch) -> None:
    pages = made(MetricsPages, _task=None, _page=Breaks("page"))
    await raises(pages._shared_page())
    assert await pages._shared_page() == "page"


# devices


@kind("plugin registration")
async def plugin_is_registered_later(patch: Patch) -> None:
    state = Mock()
    watcher = made(
        PluginWatcher, _tasks=Tasks(), _slots={False: asyncio.Semaphore(1)}, _state=state, _register=Breaks()
    )
    step = SimpleNamespace(operation=Operation.REGISTER, path=Path("/p"), retried=False)
    watcher._begin(step, Mock())
    await until_async("a result that is tried again", lambda: state.finished.called)
    assert state.finished.call_args.args[:2] == (step, False)


@kind("plugin stream")
async def plugin_counts_as_disconnected(patch: Patch) -> None:
    connection = Mock(resource="example.com/gpu")
    connection.plugin.lists = Mock(side_effect=ZeroDivisionError("a bug"))
    connection.plugin.close = AsyncMock()
    connections = made(PluginConnections, _options=Mock(), _record_end=Mock(), _on_stream_end=Mock())
    await connections._follow(connection)
    assert connections._on_stream_end.called
    assert connection.plugin.close.called


@kind("driver connection")
async def connection_of_a_driver_is_followed_again(patch: Patch) -> None:
    breaks = Breaks()
    patch.setattr(DriverInstance, "_watch", breaks)
    instance = DriverInstance(Mock(driver="d.example.com", endpoint="/none", health=""))
    await restarts(breaks)
    await instance.close()


@kind("driver health")
async def health_of_a_driver_is_followed_again(patch: Patch) -> None:
    breaks, instance = Breaks(), Mock()
    monitor = HealthMonitor(Mock(reopen=0.01))
    patch.setattr(monitor, "_run", breaks)
    monitor.follow(instance)
    await restarts(breaks)
    await monitor.unfollow(instance)


@kind("claim checkpoint")
async def claims_are_written_by_the_next_call(patch: Patch) -> None:
    writer = ClaimWriter(Mock())
    patch.setattr(writer, "_write_up_to", Breaks(True))
    await raises(writer.write())
    await writer.write()


@kind("claim preparation")
async def claims_are_prepared_by_the_next_call(patch: Patch) -> None:
    preparer, requested = ClaimPreparer(Mock()), Mock(uid="uid-1", renew=True)
    patch.setattr(preparer, "_prepare", Breaks(True))
    patch.setattr(preparer, "_prepared_claims", lambda requested: {})
    await raises(preparer.prepare(requested))
    assert await preparer.prepare(requested) == {}


@kind("admission")
async def pod_is_admitted_by_the_next_call(patch: Patch) -> None:
    options = Mock()
    options.ledger.pods.get.return_value = None
    breaks = Breaks("admitted")
    admissions: Any = Admissions(options)
    patch.setattr(admissions, "_admit", breaks)
    await raises(admissions.admit(Mock(uid="uid-1")))
    assert await admissions.admit(Mock(uid="uid-1")) == "admitted"


# runtime


@kind("port forward")
async def client_of_a_port_forward_learns_of_its_end(patch: Patch) -> None:
    socket = Mock(send_bytes=AsyncMock())
    forwarding = Forwarding(socket, frozenset)
    patch.setattr(forwarding, "_connection", Breaks())
    pair = _Pair(port=80)
    pair.data, pair.error = 1, 3
    forwarding._tasks.start(forwarding._forward(pair), "port forward")
    await until_async("ended", lambda: not len(forwarding._tasks))
    [sent] = [call.args[0] for call in socket.send_bytes.call_args_list]
    assert sent == forwarding._spdy.reset(1) + forwarding._spdy.reset(3)


@kind("clean-up")
async def runtime_goes_on_after_a_clean_up(patch: Patch) -> None:
    backend = made(process_backend.ProcessBackend, _clean_ups=Tasks(), _state=Mock(), _clean_up=Breaks())
    patch.setattr(process_backend, "trace", lambda path: "")
    for container in ("c1", "c2"):
        backend._on_lost(Mock(id=container), Mock())
        await until_async("counted", lambda: FAILURES["clean-up"] == 1)
    assert len(backend._clean_ups) == 1
    backend._clean_ups.cancel()


@kind("runtime call")
async def client_of_a_broken_call_is_hung_up_on(patch: Patch) -> None:
    """Only the function that words errors can break one; the client then repeats what it needs."""
    options = GrpcServerOptions({"/s/M": Method(Breaks(b"answer"))}, Mock(side_effect=ZeroDivisionError("a bug")), 100)
    connection, transport = _Connection(GrpcServer(options)), Mock()
    connection.connection_made(transport)
    connection._on_request(Request(1, "/s/M", b"", None))
    await until_async("hung up on", lambda: transport.abort.called)
    assert not connection._calls


# API server


@kind("future watches")
async def watches_of_the_future_are_checked_again(patch: Patch) -> None:
    breaks, watches = Breaks(), begin.FutureWatches(Mock())
    patch.setattr(watches, "_run", breaks)
    hub = Mock()
    hub.replica.mark = 1
    watches.add(hub, Mock(start=2))
    await restarts(breaks)
    watches.close()


@kind("audit")
async def lines_are_written_with_the_next_one(patch: Patch) -> None:
    log = made(audit.AuditLog, _tasks=Tasks(), _flushing=None)
    patch.setattr(log, "_flush_soon", breaks := Breaks())
    log._flush_later()
    await until_async("ended", lambda: not len(log._tasks))
    log._flush_later()
    await restarts(breaks)
    log._tasks.cancel()


@kind("role")
async def long_role_keeps_its_former_rules_until_it_changes(patch: Patch) -> None:
    parsed = iter([ZeroDivisionError("a bug"), None])

    def read(obj: Any) -> Any:
        if (error := next(parsed)) is not None:
            raise error
        return "rules"

    patch.setattr(feed, "read_role", read)
    follower, policy = made(feed.PolicyFeed, _tasks=Tasks(), _reading={}), Mock()
    for _ in range(2):
        follower._read(policy, "ClusterRole", Mock(key="r"))
        await until_async("ended", lambda: not len(follower._tasks))
    policy.put_role.assert_called_once_with("ClusterRole", "r", "rules")


@kind("quota")
async def write_that_waits_for_its_charge_gets_the_error(patch: Patch) -> None:
    """The worker is counted here only if it fails outside of a charge."""
    quotas = made(QuotaAdmission, _tasks=Tasks(), _workers={}, _waiting={}, _forget_seen=Breaks())
    patch.setattr(quotas, "_settle", Breaks())
    target = Mock(namespace="ns")
    target.resource.full_name = "pods"
    quotas._forget_seen = Mock(side_effect=ZeroDivisionError("a bug"))
    await raises(quotas.charge(target, {}))
    await until_async("others start a worker of their own", lambda: not quotas._workers)


# controllers, front door


@kind("node lease")
async def leases_of_other_nodes_are_checked(patch: Patch) -> None:
    nodes: Any = {"n1": {"metadata": {}}}
    client = Mock(patch=Breaks())
    controller = made(NodeController, nodes=nodes, _options=Mock(), _log=Mock(), _client=client, _api_failed=False)
    patch.setattr("actors.controllers.nodes.controller.unknown_patch", lambda node: {"status": {}})
    await controller._report_lost("n1")


@kind("pod collection")
async def pods_are_collected_later(patch: Patch) -> None:
    collector = made(PodGarbageCollector, _client=Mock(delete=Breaks()))
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
    assert not await collector._remove(pod, None, "it ends")


@kind("health status")
async def front_door_goes_on_without_a_health_status(patch: Patch) -> None:
    services = StandardServices(["a"], str)
    services._health = Mock(set=Breaks())
    patch.setattr("actors.frontdoor.serving.server._health_status", lambda serving: serving)
    services.set_serving("a", False)
    await until_async("ended", lambda: not len(services._tasks))
    services.set_serving("a", True)
    await restarts(services._health.set)
    services._tasks.cancel()


# protocols, supervisor, simulator


@kind("bus call")
async def other_calls_of_the_bus_are_answered(patch: Patch) -> None:
    service, breaks = BusService(4, Mock(), Mock(), Mock()), Breaks(True)
    for _ in range(2):
        service._owner.start(breaks(), "bus call")
    await until_async("ended", lambda: not len(service._owner))
    assert breaks.calls == 2
    await service.close()


@kind("handshake")
async def connection_whose_handshake_breaks_leaves_its_slot(patch: Patch) -> None:
    left = Mock()
    listener = made(Listener, _tasks=Tasks(), _options=Mock(tls=None), _handshakes=0)
    accepted, slot = Mock(setblocking=Mock(side_effect=ZeroDivisionError("a bug"))), Slot(left, Mock(), 0.0)
    listener._tasks.start(listener._handshake(accepted, slot), "handshake")
    await until_async("ended", lambda: not len(listener._tasks))
    assert left.leave.called
    assert accepted.close.called


@kind("store connection")
async def store_is_dialed_again(patch: Patch) -> None:
    channel, breaks = ConnectionChannel("store", Mock()), Breaks(True)
    patch.setattr(channel, "_try", breaks)
    assert not await channel.stands(60.0)
    assert not await channel.stands(60.0)
    assert breaks.calls == 2


@kind("metrics page")
async def page_of_the_plane_is_made_again(patch: Patch) -> None:
    served = made(http.MetricsHttp, _page=Breaks("page"), _page_task=None)
    await raises(served._shared_page())
    assert await served._shared_page() == "page"


@kind("metrics port")
async def port_is_tried_again(patch: Patch) -> None:
    breaks = Breaks()
    served = made(http.MetricsHttp, _listen=AsyncMock(return_value=False), _take_over=breaks)
    await served.start()
    await restarts(breaks)
    await cancel(served._task)


@kind("console end")
async def console_that_does_not_end_is_reported(patch: Patch) -> None:
    process = Mock(stop=Breaks())
    drawing: Any = asyncio.get_running_loop().create_future()
    patch.setattr(console, "cancel", AsyncMock())
    await raises(shared(console._end(process, drawing), "console end"))


@kind("informer")
async def simulated_driver_follows_its_claims_again(patch: Patch) -> None:
    breaks = Breaks()
    attacher = made(Attacher, _informer=Mock(run=breaks), _queue=Mock(run=asyncio.Event().wait))
    running = asyncio.get_running_loop().create_task(attacher.run())
    await restarts(breaks)
    await cancel(running)


@pytest.mark.parametrize(("name", "scenario"), [(name, each) for name, found in SCENARIOS.items() for each in found])
async def test_owner_recovers_from_a_task_that_a_bug_ended(
    name: str, scenario: Scenario, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    FAILURES.clear()
    await scenario(monkeypatch)
    await until_async("counted", lambda: FAILURES[name] == 1)
    assert f"task {name}" in caplog.text
    assert "failed: ZeroDivisionError: a bug" in caplog.text


STARTS = {"start": 1, "restarted": 1, "shared": 1, "failed": 0, "broke": 0}
"""Functions of protocols/process/tasks.py, and the scheduler's own, with the place of the kind."""


def kinds_of(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
            at = STARTS.get(name, 99)
            given = node.args[at] if len(node.args) > at else None
            if isinstance(given, ast.Constant) and isinstance(given.value, str) and len(node.args) > 1:
                found.add(given.value)
    return found


def test_every_kind_of_task_has_a_test() -> None:
    code = [path.read_text() for path in product_modules()]
    kinds = set().union(*(kinds_of(ast.parse(text)) for text in code if "process.tasks" in text or "tasks." in text))
    tests = [path.read_text() for path in (ROOT / "tests/unit").rglob("*.py")]
    tested = "".join(text for text in tests if "FAILURES" in text)
    assert len(kinds) > 40
    assert sorted(each for each in kinds if f'"{each}"' not in tested) == []
