"""Ready at once; notes its orderly end in ROOT/order."""

from protocols.actor import Context, run_actor


class Good:
    def __init__(self, context: Context) -> None:
        self.context = context

    async def start(self) -> None:
        self.context.log.warning("look at me")
        self.context.ready("fine")

    async def stop(self) -> None:
        with (self.context.layout.root / "order").open("a") as file:
            file.write(f"{self.context.instance}\n")


def main(argv: list[str] | None = None) -> None:
    run_actor("good", Good, argv)
