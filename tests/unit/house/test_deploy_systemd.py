"""The units in deploy/systemd: as systemd reads them, and beside what honcho makes of the Procfile."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.base.groups import GROUPS

REPO = Path(__file__).parents[3]
UNITS = REPO / "deploy" / "systemd"
BIN = Path(sys.executable).parent
CONFINED = ("nodeplane-control.service", "nodeplane-watcher.service", "nodeplane-adopt.service")
"""Units that run no containers."""
MOST_EXPOSED = 5.0
MOUNT_NAMESPACES = {
    *("PrivateDevices", "PrivateMounts", "PrivateTmp", "ProcSubset", "ProtectControlGroups", "ProtectHome"),
    *("ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "ProtectSystem"),
    *("ReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "BindPaths", "TemporaryFileSystem", "RootDirectory"),
}
"""Settings that give a unit a mount namespace of its own."""
INSTALLED = "/opt/nodeplane/bin"
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


def unit(path: Path) -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[method-assign, assignment]
    read.read_string(path.read_text())
    return read


@needs_systemd
def test_units_verify(tmp_path: Path) -> None:
    for path in (*UNITS.glob("*.service"), *UNITS.glob("*.target")):
        (tmp_path / path.name).write_text(path.read_text().replace(INSTALLED, str(BIN)))
    command = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    mine = [line for line in told.stderr.splitlines() if "nodeplane" in line]
    assert (told.returncode, mine) == (0, [])


@needs_systemd
@pytest.mark.parametrize("name", CONFINED)
def test_unit_without_containers_is_hardened(name: str) -> None:
    assert exposure(UNITS / name) <= MOST_EXPOSED


def exposure(path: Path) -> float:
    """Return systemd's rating of a unit, 0 to 10."""
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(path)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", told)
    assert found, told
    return float(found[1])


@needs_systemd
@pytest.mark.parametrize("name", ["nodeplane-node.service", "nodeplane.service"])
def test_node_on_another_runtime_is_hardened_without_a_mount_namespace(name: str, tmp_path: Path) -> None:
    """The runtime would not see the volumes that are mounted in one."""
    drop_in = (UNITS / "external-runtime.conf").read_text()
    (tmp_path / name).write_text(f"{(UNITS / name).read_text()}\n{drop_in}")
    assert exposure(tmp_path / name) <= MOST_EXPOSED
    settings = {line.partition("=")[0] for line in drop_in.splitlines() if not line.startswith("#")}
    assert not settings & MOUNT_NAMESPACES


def test_units_run_the_lines_that_honcho_exports(tmp_path: Path) -> None:
    command = [str(BIN / "honcho"), "export", "--app", "nodeplane", "systemd", str(tmp_path)]
    subprocess.run(command, cwd=REPO, check=True, capture_output=True, timeout=60)
    wanted = unit(UNITS / "nodeplane.target")["Unit"]["Wants"].split()
    assert wanted == [f"nodeplane-{group}.service" for group in GROUPS]
    for group in GROUPS:
        exported = unit(tmp_path / f"nodeplane-{group}-1.service")
        mine = unit(UNITS / f"nodeplane-{group}.service")
        assert exported["Service"]["ExecStart"] == f"/bin/sh -lc 'python -m supervisor {group}'"
        assert mine["Service"]["ExecStart"] == f"{INSTALLED}/python -m supervisor {group}"
        assert mine["Unit"]["PartOf"] == "nodeplane.target"
        assert mine["Unit"]["Conflicts"] == "nodeplane.service"
    assert len(list(tmp_path.glob("*.service"))) == len(GROUPS)


def test_units_end_as_their_supervisor_needs() -> None:
    """A supervisor ends within 25 s, feeds the watchdog each second, and leaves containers running."""
    for path in UNITS.glob("*.service"):
        service = unit(path)["Service"]
        assert service["Type"] == "notify"
        assert int(service["TimeoutStopSec"]) > 25, path.name
        assert int(service["WatchdogSec"]) >= 10, path.name
        assert service["KillMode"] == ("mixed" if path.name in CONFINED else "process"), path.name
