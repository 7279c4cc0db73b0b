"""Each kind of task that was ended by an unknown exception: it is logged and counted, and its owner goes on."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from actors.devices.dra.claim_preparer import OrphanCleaner, OrphanCleanerOptions
from actors.devices.dra.types import DraLimits
from actors.devices.model.errors import PluginFailed
from actors.devices.plugins.plugin import DeviceListStream
from actors.frontdoor.serving.listener import ClientConnection
from actors.pleg.shell.relister import Relister
from actors.podworker.pods.probes import prober
from actors.store.server.private_endpoint import PrivateEndpoint
from actors.store.server.private_endpoint import ServedConnection as StoreConnection
from protocols.process.tasks import FAILURES, Tasks
from supervisor.plane.supervisor import Supervisor
from supervisor.report.metrics import own_text
from tests.support.breaks import Breaks
from tests.support.waiting import until_async


@pytest.fixture(autouse=True)
def no_failures() -> None:
    FAILURES.clear()


async def test_probe_is_restarted(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    breaks = Breaks()
    monkeypatch.setattr(prober.Prober, "_run", breaks)
    options = Mock(probes=(Mock(kind="readiness"),), known=frozenset())
    options.spec.return_value = Mock(uid="uid-1")
    options.container.name = "main"
    monkeypatch.setattr(prober, "initial_state", Mock())
    monkeypatch.setattr(prober, "verdict_of", Mock())
    made = prober.Prober(options)
    await until_async("restarted", lambda: breaks.calls == 2)
    made.close()
    assert FAILURES == {"probe": 1}
    assert "task probe readiness uid-1/main failed: ZeroDivisionError: a bug" in caplog.text


async def test_housekeeping_of_the_supervisor_is_restarted(caplog: pytest.LogCaptureFixture) -> None:
    breaks = Breaks()
    made = Mock(spec=Supervisor)
    for name in ("_bus", "_metrics", "_link", "_tree", "_console", "_settings", "_options"):
        setattr(made, name, Mock())
    made._bus.start, made._metrics.start, made._link.start = AsyncMock(), AsyncMock(), AsyncMock()
    made._stopping, made._every_second, made._announce = asyncio.Event(), breaks, Breaks()
    made._rotate_logs = rotating = Breaks()
    made._shut_down = AsyncMock()
    running = asyncio.create_task(Supervisor.run(made))
    await until_async("restarted", lambda: breaks.calls == rotating.calls == 2)
    made._stopping.set()
    await running
    assert FAILURES == {"housekeeping": 1, "log rotation": 1, "announcement": 1}
    assert "task housekeeping failed: ZeroDivisionError: a bug" in caplog.text
    text = own_text(Mock(children={}), 0.0)
    assert 'nodeplane_task_failures_total{task="housekeeping"} 1' in text


async def test_reader_of_a_plugin_ends_its_stream(caplog: pytest.LogCaptureFixture) -> None:
    channel = Mock()
    channel.unary_stream.return_value.return_value.__aiter__ = Mock(side_effect=ZeroDivisionError("a bug"))
    with pytest.raises(PluginFailed, match="ListAndWatch ended: ZeroDivisionError: a bug"):
        await asyncio.wait_for(anext(DeviceListStream(channel).read()), 60)
    assert FAILURES == {"plugin lists": 1}
    assert "task plugin lists failed" in caplog.text


async def test_orphaned_claims_are_unprepared_after_a_bug() -> None:
    breaks = Breaks()
    cleaner = OrphanCleaner(OrphanCleanerOptions(lambda: {"uid-1"}, breaks, DraLimits(fresh=0.0), Mock()))
    cleaner.reconcile(set())
    await until_async("again", lambda: breaks.calls == 2)
    cleaner.close()
    assert FAILURES == {"claims of a deleted pod": 1}


async def test_client_that_cannot_be_joined_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected: list[str] = []
    made = ClientConnection.__new__(ClientConnection)
    made._tasks, made._preface_timer = Tasks(made._broken), None
    monkeypatch.setattr(made, "_join", Breaks())
    monkeypatch.setattr(made, "reject", rejected.append)
    made._on_preface()
    await until_async("rejected", lambda: rejected == ["broken"])
    assert FAILURES == {"client connection": 1}


async def test_inspection_of_a_pod_that_breaks_leads_to_a_relist(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = Relister(Mock())
    monkeypatch.setattr(made, "_inspect_one", Breaks())
    made.inspect("uid-1")
    await until_async("relist", made._due.is_set)
    assert FAILURES == {"inspection": 1}
    assert "task inspection uid-1 failed: ZeroDivisionError: a bug" in caplog.text


async def test_store_connection_whose_watch_breaks_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    async def watch(requests: Any, writer: Any) -> None:
        raise ZeroDivisionError("a bug")

    connection = StoreConnection(PrivateEndpoint(Path("/none"), {}, Mock()), {}, watch)
    transport = Mock()
    connection.connection_made(transport)
    connection._take_request(1, b"")
    await until_async("ended", lambda: transport.abort.called)
    assert FAILURES == {"store call": 1}
    assert "task store call failed: ZeroDivisionError: a bug" in caplog.text
