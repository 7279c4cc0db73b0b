"""Files and devices of answers to Allocate exist while the plugin is away, and after its restart."""

import asyncio
import os
from collections.abc import Sequence, Set
from pathlib import Path

from supervisor.conform.cdi import declared, names_of
from supervisor.conform.sources import CDI, DOCS, MANAGER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "restarts"
RULE = (
    "The kubelet retains the answer to Allocate and uses it at each start of the container, also while the plugin is"
    " away, as during its update; it does not ask again."
)
SOURCE = f"{MANAGER}; {DOCS}; {CDI}"
ADVICE = (
    "Leave the files and directories of allocated devices, CDI files included, when the plugin ends and starts, and"
    " write a CDI file under the same name each time."
)


async def run(stage: Stage) -> None:
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
