"""The kubelet and the plugin end and start again."""

import asyncio
import os
import socket
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

from supervisor.conform.busy import OPEN_S, check_idle
from supervisor.conform.cdi import declared, names_of
from supervisor.conform.scripts import run
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable


@run
async def kubelet_restarts(stage: Stage) -> None:
    """Restart the kubelet without a pause, twice."""
    await stage.plugins()
    for _ in range(2):
        await stage.restart_kubelet()
        await stage.returns()


AWAY_S = 2.0


@run
async def kubelet_away(stage: Stage) -> None:
    """Stop the kubelet, and start it later."""
    await stage.plugins()
    await stage.restart_kubelet(away=AWAY_S)
    await stage.returns()


HEAD_START_S = 1.0


@run
async def kubelet_starts_later(stage: Stage) -> None:
    """Start the program, and then the kubelet."""
    await stage.plugins()
    await stage.start_alone(HEAD_START_S, "kubelet.sock")
    await stage.kubelet.start()
    await stage.serve_started()


@run
async def plugin_killed(stage: Stage) -> None:
    """SIGKILL, and start again."""
    await stage.plugins()
    await stage.restart_program()
    for plugin in await stage.serve_started():
        await plugin.allocate(plugin.healthy()[:1])


@run
async def answers_stay(stage: Stage) -> None:
    """Allocate, SIGTERM, start again, and look for the paths of the host and the CDI devices."""
    answers = [answer for plugin in await stage.plugins() for answer in await plugin.answers()]
    names = {name for answer in answers for name in names_of(answer)}
    paths = {mount.host_path for answer in answers for mount in answer.mounts}
    paths |= {node.host_path for answer in answers for node in answer.devices}
    there = await asyncio.to_thread(existing, paths, names, stage.cdi)
    if not there:
        raise NotApplicable("the answers have no paths of the host, and no CDI devices")
    await stage.program.terminate(stage.timeout)
    await check_stays(stage, there, "while the plugin is away")
    await stage.restart_program()
    await stage.serve_started()
    await check_stays(stage, there, "after a restart of the plugin")


async def check_stays(stage: Stage, there: Set[str], when: str) -> None:
    """Raise Failed if one of these is gone, or is declared twice."""
    if gone := there - await asyncio.to_thread(existing, there, there, stage.cdi):
        conflict = (await asyncio.to_thread(declared, stage.cdi)).conflict(min(gone))
        raise Failed(f"{min(gone)}, which a container has, is gone {when}" + (f": {conflict}" if conflict else ""))


def existing(paths: Set[str], names: Set[str], folders: Sequence[Path]) -> set[str]:
    """Return the paths of the host that exist, and the CDI devices that a runtime has."""
    return {path for path in paths if os.path.exists(path)} | (declared(folders).names & names)


SOCKET, CHECKPOINT = "conform-of-another-vendor.sock", "kubelet_internal_checkpoint"


@run
async def others_stay(stage: Stage) -> None:
    """Start the program beside them, and end it."""
    await stage.plugins()
    with files_of_others(stage.kubelet.plugins) as others:
        await stage.restart_program()
        await stage.serve_started()
        _look(others, "start")
        await stage.program.terminate(stage.timeout)
        stage.soil()
        _look(others, "end")


@contextmanager
def files_of_others(directory: Path) -> Iterator[list[Path]]:
    """Make a socket that nobody serves, and a checkpoint unless there is one."""
    created = [directory / name for name in (SOCKET, CHECKPOINT) if not (directory / name).exists()]
    for path in created:
        if path.name == SOCKET:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        else:
            path.write_text("{}")
    try:
        yield [directory / SOCKET, directory / CHECKPOINT]
    finally:
        for path in created:
            path.unlink(missing_ok=True)


def _look(others: list[Path], when: str) -> None:
    if gone := [path.name for path in others if not path.exists()]:
        raise Failed(f"device-plugins/{gone[0]}, which is not the plugin's, was removed at its {when}")


SETTLE_S = 0.5


@run
async def idle(stage: Stage) -> None:
    """Open lists, hang up, and watch its threads."""
    for plugin in await stage.plugins():
        another = plugin.another()
        try:
            await another.first_list()
            await asyncio.sleep(OPEN_S)
        except Failed as error:
            raise NotApplicable(f"it needs a second ListAndWatch: {error}") from None
        finally:
            await another.close()
    await asyncio.sleep(SETTLE_S)
    if not stage.program.runs:
        raise NotApplicable(f"when a ListAndWatch ended, {stage.program.end}; list-again is about that")
    await check_idle(stage.program, "after a ListAndWatch had ended")


@run
async def waits_idle(stage: Stage) -> None:
    """Stop the kubelet, and watch the threads of the plugin."""
    await stage.plugins()
    await stage.kubelet.stop()
    await check_idle(stage.program, "without a kubelet")
    stage.check_runs()
    await stage.kubelet.start()
    await stage.returns()
