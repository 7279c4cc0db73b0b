"""From options to a running supervisor.

Light to import: the forkserver starts before anything heavy is loaded.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from protocols.errors import NodeplaneError
from protocols.process.proc import STARTED, TICKS, stat_number
from supervisor.base.errors import exit_code, explain
from supervisor.base.groups import SupervisionLimits
from supervisor.base.options import PlaneOptions
from supervisor.forkserver.client import ForkClient, fork
from supervisor.pki.certificates import wanted
from supervisor.pki.issuing import Issuing, issue_missing
from supervisor.report.console import Console, detach_plane, wait_until_started
from supervisor.root import logs
from supervisor.startup.prepare import prepare, supervisor_name
from supervisor.startup.prepared import Parent, Prepared

Adapt = Callable[[Prepared], Prepared]


def start(
    options: PlaneOptions,
    *,
    group: str = "",
    slot: int = 0,
    detach: bool = False,
    ready_s: float = 0.0,
    limits: SupervisionLimits | None = None,
    adapt: Adapt | None = None,
) -> int:
    """Run a plane, or one group of it, to its end and return the exit code.

    With `detach`, return when it is ready or has failed; one in which no further actor gets ready for `ready_s` ends.
    `adapt` changes what was prepared: tests use other children.
    """
    adapt = adapt or (lambda prepared: prepared)
    begin = Begin(time.monotonic() - process_age_s(), limits or SupervisionLimits(), adapt, ready_s if detach else 0.0)
    prepared = prepare(options, group, slot)  # before the fork: errors reach the caller's terminal
    if not detach:
        return run_prepared(prepared, begin, -1)
    plane, pipe = detach_plane(options)
    if plane:
        prepared.hand_over()
        return wait_until_started(pipe, plane)
    try:
        prepared.lock.take_over()
        return run_prepared(prepared, begin, pipe)
    except (NodeplaneError, OSError) as error:
        Console(supervisor_name(group, slot), pipe).failed(explain(error))
        return exit_code(error)


class Begin(NamedTuple):
    """Parts of a start: time of the command, limits, and a change of what was prepared."""

    started_at: float
    limits: SupervisionLimits
    adapt: Adapt
    ready_s: float = 0.0


def run_prepared(
    prepared: Prepared, begin: Begin, report_to: int, parent: Parent | None = None, known: ForkClient | None = None
) -> int:
    """Run a prepared plane to its end. `known` is a forkserver that runs already."""
    prepared = begin.adapt(prepared)
    layout = prepared.settings.layout
    forkserver = known or _fork(prepared, layout.logs)
    issuing = None if prepared.settings.adopt or prepared.settings.joined else _issue(prepared)

    from supervisor.plane import supervisor  # asyncio and the bus load while the forkserver imports

    options = supervisor.SupervisorOptions(
        prepared=prepared,
        console=Console(prepared.name, report_to),
        started_at=begin.started_at,
        limits=begin.limits,
        ready_s=begin.ready_s,
        parent=parent,
        containers_on_term=under_honcho(os.environ),
    )
    return supervisor.run(options, forkserver, issuing)


def _issue(prepared: Prepared) -> Issuing | None:
    settings = prepared.settings
    return issue_missing(settings.layout.pki, wanted(settings.node_name, settings.api_names))


def process_age_s() -> float:
    """Return the seconds since the process started: the time to Ready includes the interpreter's start."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - stat_number(os.getpid(), STARTED) / TICKS)


def under_honcho(environment: Mapping[str, str]) -> bool:
    """Return True under `honcho start`, whose Ctrl-C arrives as SIGTERM.

    Units of `honcho export` have systemd's INVOCATION_ID: a service restart keeps containers.
    """
    return "HONCHO_PROCESS_NAME" in environment and "INVOCATION_ID" not in environment


def _fork(prepared: Prepared, log_dir: Path) -> ForkClient:
    modules = [spec.module for spec in prepared.specs]
    return fork(modules, logs.path_of(log_dir, "forkserver"), prepared.settings.layout.root)
