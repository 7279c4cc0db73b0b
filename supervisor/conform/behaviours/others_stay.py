"""Files of others in the kubelet's directory stay as they are."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from supervisor.conform.sources import DOCS, MANAGER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = (
    "device-plugins/ has the sockets of all plugins of the node and the kubelet's checkpoint of what is allocated; a"
    " plugin owns its socket alone."
)
SOURCE = f"{DOCS}; {MANAGER}"
ADVICE = "Remove the file of your own socket by its name, instead of all that is in the directory."
SOCKET, CHECKPOINT = "conform-of-another-vendor.sock", "kubelet_internal_checkpoint"


async def run(stage: Stage) -> None:
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
    made = [directory / name for name in (SOCKET, CHECKPOINT) if not (directory / name).exists()]
    for path in made:
        if path.name == SOCKET:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        else:
            path.write_text("{}")
    try:
        yield [directory / SOCKET, directory / CHECKPOINT]
    finally:
        for path in made:
            path.unlink(missing_ok=True)


def _look(others: list[Path], when: str) -> None:
    if gone := [path.name for path in others if not path.exists()]:
        raise Failed(f"device-plugins/{gone[0]}, which is not the plugin's, was removed at its {when}")
