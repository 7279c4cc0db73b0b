"""Stands in for the runtime: notes the order to stop containers in ROOT/order."""

from protocols.actor import Context, run_actor
from protocols.bus import Call
from protocols.messages import runtime as messages


class Runtime:
    def __init__(self, context: Context) -> None:
        self.context = context

    async def start(self) -> None:
        self.context.bus.serve(messages.STOP_CONTAINERS, messages.StopContainers, self.stop_containers)
        self.context.ready()

    async def stop(self) -> None:
        self.note("runtime")

    async def stop_containers(self, request: messages.StopContainers, call: Call) -> messages.Empty:
        self.note("containers")
        return messages.Empty()

    def note(self, word: str) -> None:
        with (self.context.layout.root / "order").open("a") as file:
            file.write(f"{word}\n")


def main(argv: list[str] | None = None) -> None:
    run_actor("runtime", Runtime, argv)
