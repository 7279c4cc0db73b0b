"""The `nodeplane` command: import the module of the subcommand only, and print errors as one line."""

import importlib
import sys
from typing import NamedTuple

from supervisor.base.errors import check_packages, guard
from supervisor.cli.flags import Parser, add_root, layout_from

SIMULATOR = "actors.simulator.actor"


class Command(NamedTuple):
    """A subcommand. Its module adds the parser, whose default `run` is the function to call.

    An actor that is a command imports nothing of this package: its `run` is passed the layout of the plane.
    """

    module: str
    help: str

    @property
    def path(self) -> str:
        return self.module if self.is_actor else f"supervisor.cli.{self.module}"

    @property
    def is_actor(self) -> bool:
        return self.module.startswith("actors.")


COMMANDS = {
    "up": Command("start", "start the plane; --detach to leave it running"),
    "down": Command("orders", "stop the plane and its containers"),
    "status": Command("status", "every actor: process, state, restarts, stream positions"),
    "top": Command("status", "CPU and memory of every actor"),
    "logs": Command("status", "show an actor's log"),
    "tap": Command("tap", "follow a stream of the bus"),
    "watch": Command("watch", "follow the pod-resources watch"),
    "devices": Command("devices", "list devices and who has them"),
    "adopt": Command("start", "serve the pod resources watch of the kubelet of this machine"),
    "cpus": Command("devices", "list exclusive CPUs and memory and who has them"),
    "image": Command("image", "import, list and remove images of the embedded runtime"),
    "chaos": Command("chaos", "kill an actor, make a device fail, play a script of faults"),
    "scale": Command("orders", "change the number of API processes, or of nodes"),
    "node-config": Command("node_config", "write the file by which a node on another machine joins"),
    "kubeconfig": Command("kubeconfig", "write the file with which kube-scheduler, kubelet, ... use the API"),
    "restart": Command("orders", "restart one actor in an orderly way"),
    "plugin": Command(SIMULATOR, "run a device plugin"),
    "dra-driver": Command(SIMULATOR, "run a DRA driver"),
    "bench": Command("bench", "measure this machine"),
    "version": Command("bench", "print the version"),
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; return the exit code: 0 success, 1 failure, 2 usage."""
    words = sys.argv[1:] if argv is None else argv
    return guard(lambda: _run(words))


def _run(words: list[str]) -> int:
    check_packages()
    name = _command(words)
    if name == "--version":
        name, words = "version", ["version"]
    if name not in COMMANDS:
        return _no_command(name)
    command = COMMANDS[name]
    module = importlib.import_module(command.path)
    parser = Parser(prog="nodeplane", allow_abbrev=False)
    add_root(parser)
    subparsers = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    module.add_parser(subparsers)
    _add_root_to(subparsers.choices.get(name))
    args = parser.parse_args(words)
    return int(module.run(args, layout_from(args)) if command.is_actor else args.run(args))


def _add_root_to(parser: Parser | None) -> None:
    """Allow --root also after the subcommand."""
    if parser and "--root" not in parser._option_string_actions:
        add_root(parser)


def _command(words: list[str]) -> str:
    """Return the first word that is neither a flag nor the value of --root."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word == "--root":
            skip = True
        elif not word.startswith("--root="):
            return word
    return ""


def _no_command(name: str) -> int:
    if name in ("-h", "--help", "help"):
        print(_overview())
        return 0
    known = f"no command is called {name!r}" if name else "a command is needed"
    print(f"nodeplane: {known}; see nodeplane --help", file=sys.stderr)
    return 2


def _overview() -> str:
    rows = [f"  {name:<12}{command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        ["usage: nodeplane [--root DIR] COMMAND ...", "", *rows, "", "nodeplane COMMAND --help lists its flags."]
    )


if __name__ == "__main__":
    sys.exit(main())
