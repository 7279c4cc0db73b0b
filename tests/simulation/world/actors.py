"""Mains of processes made by the project's own actor shell."""

import logging

from protocols.actor import shell
from protocols.actor.context import Arguments
from protocols.process.settings import Settings
from tests.simulation.model import Main
from tests.simulation.world.process import Process

SUPERVISOR = "supervisor"


def actor(instance: str, factory: shell.Factory, settings: Settings) -> Main:
    """Return the main of an actor: `protocols.actor.shell.live`, with bus, heartbeats, faults and signals."""

    async def main(process: Process) -> int:
        arguments = Arguments(settings=str(settings.layout.settings), instance=instance, supervisor=SUPERVISOR)
        return await shell.live(arguments, settings, factory, logging.getLogger(instance))

    return main
