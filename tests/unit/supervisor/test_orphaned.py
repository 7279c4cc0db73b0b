"""A supervisor that takes over containers is ready when its report says so, however long it took."""

import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from protocols.process.layout import layout
from protocols.process.proc import boot_id
from protocols.process.settings import load_settings, save_settings
from supervisor.base.errors import SupervisorError
from supervisor.base.options import PlaneOptions
from supervisor.base.settings import settings_of
from supervisor.plane import orphaned, start
from supervisor.report.console import FAILED, READY, WAITING


@pytest.mark.parametrize(
    ("report", "taken"),
    [
        (READY + b"text", True),
        (WAITING + b"still waiting; runtime\n" + READY + b"text", True),
        (WAITING + b"still waiting; runtime\n" + FAILED + b"reason", False),
        (b"", False),
    ],
)
def test_report_of_a_slow_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: bytes, taken: bool) -> None:
    where = layout(str(tmp_path))
    where.logs.mkdir(parents=True)
    process = SimpleNamespace(stdout=io.BytesIO(report))
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: process)
    if taken:
        return orphaned.take_over(where)
    with pytest.raises(SupervisorError, match="the runtime did not start"):
        orphaned.take_over(where)
    return None


def test_container_of_an_earlier_start_of_the_machine_is_no_orphan(tmp_path: Path) -> None:
    """Its shim's pid is another process now, and `nodeplane down` started a runtime to stop it."""
    boot = boot_id()
    for number, of in enumerate((boot, "earlier")):
        shim = tmp_path / "runtime" / "shims" / str(number)
        shim.mkdir(parents=True)
        (shim / "started.json").write_text(json.dumps({"shim": os.getpid(), "boot": of}))
    assert orphaned.orphaned(tmp_path) == {tmp_path: 1}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_root_that_was_moved_is_taken_over_where_it_is(tmp_path: Path, elsewhere: bool) -> None:
    old, here = layout(str(tmp_path / "old")), layout(str(tmp_path / "new"))
    options = PlaneOptions(root=str(old.root), kubelet_dir="/k" if elsewhere else "")
    here.run.mkdir(parents=True)
    save_settings(here.settings, settings_of(options, port=1))
    orphaned._prepared(here).release()
    settings = load_settings(here.settings)
    assert settings.layout == layout(str(here.root), options.kubelet_dir)
    assert settings.runtime_endpoint == f"unix://{here.runtime_socket}"


def test_runtime_that_never_gets_ready_ends_the_take_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[start.Begin]()
    monkeypatch.setattr(sys, "argv", ["orphaned", str(tmp_path)])
    monkeypatch.setattr(orphaned, "_prepared", lambda where: None)
    monkeypatch.setattr(orphaned, "run_prepared", lambda prepared, begin, report_to: begun.append(begin))
    orphaned._main()
    assert begun[0].ready_s > 0, "without a limit `nodeplane down` waits for ever"
