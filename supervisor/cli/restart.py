"""nodeplane restart: end one actor in an orderly way and start it again; also brings back one that failed."""

import argparse

from protocols.messages.supervisor import RESTART, ActorName, Empty
from supervisor.cli.ask import Asking, ask
from supervisor.cli.flags import layout_from


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("restart", help="restart one actor", allow_abbrev=False)
    parser.add_argument("actor")


def run(args: argparse.Namespace) -> int:
    async def question(asking: Asking) -> None:
        await asking.call(await asking.owner_of(args.actor), RESTART, ActorName(args.actor), Empty)

    ask(layout_from(args), question)
    return 0
