"""Alive, and never ready: what it waits for changes once."""

import asyncio

from protocols.actor import Context, run_actor


class Waiting:
    def __init__(self, context: Context) -> None:
        self.context = context

    async def start(self) -> None:
        for note in ("no kubelet at /nowhere", "kubelet at /nowhere does not answer"):
            self.context.note(note)
            await asyncio.sleep(1.5)
        await asyncio.Event().wait()

    async def stop(self) -> None:
        pass


def main(argv: list[str] | None = None) -> None:
    run_actor("waiting", Waiting, argv)
