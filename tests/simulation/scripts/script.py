"""A process that plays a crash script, line by line, as `nodeplane chaos script` does."""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocols.bus import Bus, BusOptions
from protocols.errors import NodeplaneError
from protocols.kinds.table import NAMESPACES, PODS, Resource
from protocols.lifecycle.pods.hollow import DURATION, EXIT_CODE, HOLLOW
from protocols.process.layout import Layout
from supervisor.chaos import stage as stage_module
from supervisor.chaos.player import Player
from supervisor.chaos.script import parse
from supervisor.chaos.stage import DEFAULT, ChaosStage
from supervisor.client import connection
from supervisor.client.connection import Asking
from tests.simulation.world.actors import SUPERVISOR
from tests.simulation.world.patching import substitute
from tests.simulation.world.process import Process

if TYPE_CHECKING:
    from tests.simulation.model import Main
    from tests.simulation.world.world import World

SCRIPTS = tuple(sorted((Path(__file__).parents[2] / "crash" / "scripts").glob("*.txt")))
RESOURCE = "example.com/gpu"
PRELUDE = """
expect device example.com/gpu gpu-0 free
apply first
expect pod first ready
apply resident
expect pod resident ready
delete pod first
expect pod first gone
"""
"""As the fixture of tests/crash/test_scripts.py does: gpu-0 and gpu-1 are for the script."""
Documents = Callable[[Path], list[tuple[Resource, dict[str, Any]]]]
SLEEP = re.compile(r"sleep ([0-9.]+)$")


class Played:
    """What became of a script."""

    def __init__(self, world: "World", file: Path, layout: Layout) -> None:
        self._world, self._file, self._layout = world, file, layout
        self.done = False
        self.failure = ""
        self.line = ""
        """The one that was begun last."""
        substitute(connection.running, lambda layout: {SUPERVISOR: 1})
        substitute(stage_module.documents, partial(_hollow_documents, stage_module.documents))

    def main(self) -> "Main":
        async def main(process: Process) -> None:
            bus = Bus(BusOptions(name="", run_dir=self._layout.run))
            await bus.start()
            asking, dice = Asking(bus, self._layout), self._world.random("script")
            stage = ChaosStage(asking, self._file.parent, dice)
            try:
                await _served(stage)
                for name, text in (("prelude", PRELUDE), (self._file.name, self._file.read_text())):
                    await Player(parse(name, text), stage, self._say, self._begin).play()
                self.done = True
            except NodeplaneError as error:
                self.failure = str(error)
            await asyncio.Event().wait()

        return main

    def _begin(self, line: str) -> None:
        self.line = line
        self._world.happened("script", line)

    def _say(self, line: str) -> None:
        self._world.happened("script", line)


async def _served(stage: ChaosStage) -> None:
    """Wait until the namespace that pods are created in is there."""
    while True:
        with suppress(NodeplaneError):
            await (await stage.api()).get(NAMESPACES, DEFAULT)
            return
        await asyncio.sleep(0.1)


def _hollow_documents(documents: Documents, path: Path) -> list[tuple[Resource, dict[str, Any]]]:
    """Return what a manifest has, its pods without real processes."""
    if path.name in ("first", "resident"):
        return [(PODS, hollow({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": path.name}, "spec": _pair()}))]
    return [(resource, hollow(obj) if resource is PODS else obj) for resource, obj in documents(path)]


def _pair() -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "any", "resources": {"limits": {RESOURCE: 2}}}],
    }


def hollow(pod: dict[str, Any]) -> dict[str, Any]:
    """Let a pod's containers be hollow ones; they end when `sleep SECONDS`, the end of their command, would."""
    notes = {HOLLOW: "true", EXIT_CODE: "0"}
    for container in pod["spec"]["containers"]:
        container["image"] = f"hollow/{container['image']}"
        found = SLEEP.search(" ".join(container.pop("command", ())))
        if found and float(found[1]) < 1000:
            notes[DURATION] = f"{float(found[1]) * 1000:.0f}ms"
    metadata = {**pod["metadata"], "annotations": notes}
    return {**pod, "metadata": metadata}
