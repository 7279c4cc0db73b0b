"""Containers whose plane has ended without them: a supervisor with the runtime alone takes them over, to be stopped.

Run as `python -m supervisor.plane.orphaned ROOT`; it reports on standard output when the runtime is ready.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from protocols.errors import SettingsInvalid
from protocols.messages.supervisor import ROOT_NAME
from protocols.process.layout import Layout, layout
from protocols.process.settings import Settings, load_settings, save_settings
from supervisor.base.errors import SupervisorError, guard
from supervisor.base.groups import NODE, RUNTIME, SupervisionLimits, child
from supervisor.forkserver.client import environment
from supervisor.plane.start import Begin, run_prepared
from supervisor.report.console import READY
from supervisor.root import leftovers, logs
from supervisor.root.lock import SupervisorLocks
from supervisor.startup.prepared import Prepared, SettingsLock

READY_S = 60.0
"""Seconds without progress after which the runtime is given up."""


def orphaned(root: Path) -> dict[Path, int]:
    """Return the roots with containers that run without a plane: this one, and those of its further nodes."""
    return {path: count for path in _roots(root) if (count := leftovers.orphaned_containers(path))}


def unmount(root: Path) -> None:
    """Unmount volumes of a dead plane without containers; those of another runtime run on and use theirs."""
    for path in _roots(root):
        with suppress(SettingsInvalid):  # nothing was started there
            if load_settings(layout(str(path)).settings).runtime_embedded:
                leftovers.unmount_below(path)


def _roots(root: Path) -> list[Path]:
    return [root, *sorted(root.glob("nodes/*"))]


def take_over(where: Layout) -> None:
    """Start a supervisor with the runtime alone below this layout. Raises SupervisorError if it does not get ready."""
    log = logs.path_of(where.logs, "supervisor")
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as errors:
        command = [sys.executable, "-P", "-m", __name__, str(where.root)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment(), start_new_session=True
        )
    with process.stdout as report:  # type: ignore[union-attr]  # a pipe
        if READY not in report.readlines():  # after lines about what a slow start waits for
            raise SupervisorError(f"containers below {where.root} still run: the runtime did not start; see {log}")


def _main() -> int:
    begin = Begin(time.monotonic(), SupervisionLimits(), lambda prepared: prepared, READY_S)
    return run_prepared(_prepared(layout(sys.argv[1])), begin, sys.stdout.fileno())


def _prepared(where: Layout) -> Prepared:
    with SettingsLock(where.run):
        held = SupervisorLocks(where.run, ROOT_NAME)
        settings = _settings_here(where)
    leftovers.wait_released(where.run, [RUNTIME])
    leftovers.clean(where.run)
    return Prepared(ROOT_NAME, "", settings, (child(RUNTIME, NODE),), held, None, where.settings)


def _settings_here(where: Layout) -> Settings:
    """Return the settings of the plane that ended; if its root was moved since, write them for the new place first."""
    settings = load_settings(where.settings)
    if settings.root == str(where.root):
        return settings
    kubelet = settings.kubelet_dir if settings.layout.kubelet != layout(settings.root).kubelet else str(where.kubelet)
    endpoint = f"unix://{where.runtime_socket}"
    here = msgspec.structs.replace(settings, root=str(where.root), kubelet_dir=kubelet, runtime_endpoint=endpoint)
    save_settings(where.settings, here)
    return here


if __name__ == "__main__":
    sys.exit(guard(_main))
