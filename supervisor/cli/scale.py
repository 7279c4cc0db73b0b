"""nodeplane scale: run more or fewer API processes."""

import argparse

from protocols.messages.supervisor import SCALE, Empty, ScaleActor
from supervisor.cli.ask import Asking, ask
from supervisor.cli.flags import layout_from
from supervisor.errors import Usage
from supervisor.groups import GROUPS, WATCHER, check_watchers

SCALE_S = 20.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("scale", help="API processes", allow_abbrev=False)
    parser.add_argument("actor", choices=(WATCHER,))
    parser.add_argument("count", type=int)


def run(args: argparse.Namespace) -> int:
    check_watchers(args.count)

    async def question(asking: Asking) -> None:
        name = watcher_supervisor(asking.names())
        await asking.call(name, SCALE, ScaleActor(actor=args.actor, count=args.count), Empty, timeout=SCALE_S)

    ask(layout_from(args), question)
    return 0


def watcher_supervisor(names: list[str]) -> str:
    """The one that runs API processes; raises Usage if none or several do."""
    others = {f"supervisor-{group}" for group in GROUPS if group != WATCHER}
    mine = [name for name in names if name not in others]
    if len(mine) > 1:
        raise Usage("honcho runs several watcher lines; scale with `honcho start -c watcher=N`")
    if not mine:
        raise Usage("no watcher group runs below this root; start it with `python -m supervisor watcher`")
    return mine[0]
