"""Paths that an answer to Allocate mounts into containers exist after a restart of the plugin."""

import os
from collections.abc import Set

from supervisor.conform.sources import DOCS, MANAGER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "restarts"
RULE = "The kubelet retains the answer to Allocate and uses it at each start of the container; it does not ask again."
SOURCE = f"{MANAGER}; {DOCS}"
ADVICE = "Leave the files and directories of allocated devices when the plugin ends and starts, or make them anew."


async def run(stage: Stage) -> None:
    """Allocate, SIGTERM, start again, and look for the paths of the host."""
    answers = [answer for plugin in await stage.plugins() for answer in await plugin.answers()]
    paths = {mount.host_path for answer in answers for mount in answer.mounts}
    paths |= {node.host_path for answer in answers for node in answer.devices}
    if not (there := existing(paths)):
        raise NotApplicable("the answers have no paths of the host")
    await stage.program.terminate(stage.timeout)
    await stage.restart_program()
    await stage.serve_started()
    if gone := there - existing(there):
        raise Failed(f"{min(gone)}, which a container has, is gone after a restart of the plugin")


def existing(paths: Set[str]) -> set[str]:
    return {path for path in paths if os.path.exists(path)}
