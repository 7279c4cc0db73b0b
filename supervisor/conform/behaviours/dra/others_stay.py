"""Files of other drivers stay as they are."""

from pathlib import Path

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import CDI, PLUGIN_WATCHER
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = "plugins_registry/ and the directories of CDI files are all drivers'; each owns the files that it has made."
SOURCE = f"{PLUGIN_WATCHER}; {CDI}"
ADVICE = "Remove your own files by their names, such as those that begin with the driver's, not all of a directory."
TEXT = """\
{"cdiVersion": "0.5.0", "kind": "another.example/device",
 "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}]}
"""


async def run(stage: DriverStage) -> None:
    """Start the program beside them, and end it."""
    driver = (await stage.drivers())[0]
    others = [stage.kubelet.registry / "another.example-reg.sock", driver.cdi[0] / "another.example.json"]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXT)
    try:
        await stage.again(driver)
        _look(others, "start")
        await stage.program.terminate(stage.timeout)
        stage.soil()
        _look(others, "end")
    finally:
        for path in others:
            path.unlink(missing_ok=True)


def _look(others: list[Path], when: str) -> None:
    if gone := [path for path in others if not path.exists()]:
        raise Failed(f"{gone[0].parent.name}/{gone[0].name}, which is not the driver's, was removed at its {when}")
