"""The commands by name, each with the module that adds its parser; only the module of the one that runs is imported."""

from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple

from supervisor.cli.flags import Parser, add_root_everywhere

SIMULATOR, FLEET = "actors.simulator.actor", "actors.fleet.actor"


class Command(NamedTuple):
    """A subcommand. Its module adds the parser, whose default `run` is the function to call.

    An actor that is a command imports nothing of this package: its `run` is passed the layout of the plane.
    `module` is a module of this package, or a whole path.
    """

    module: str
    help: str

    @property
    def path(self) -> str:
        """The module in full; those of this package go by their names in it."""
        return self.module if self.module.startswith(("supervisor.", "actors.")) else f"supervisor.cli.{self.module}"

    @property
    def is_actor(self) -> bool:
        return self.module.startswith("actors.")


COMMANDS = {
    "up": Command("operate.start", "start the plane; --detach to leave it running"),
    "down": Command("operate.orders", "stop the plane and its containers"),
    "status": Command("inspect.status", "every actor: state, process, restarts, note; what is wrong first"),
    "console": Command("supervisor.console.command", "look at the plane while it runs"),
    "top": Command("inspect.top", "CPU and memory of every actor"),
    "logs": Command("inspect.status", "show an actor's log"),
    "tap": Command("inspect.tap", "follow a stream of the bus"),
    "trace": Command("supervisor.trace.command", "one pod's life through all processes, as a waterfall"),
    "why": Command("supervisor.why.command", "why a pod, device, claim, node or plugin is in its state"),
    "watch": Command("inspect.watch", "follow the pod-resources watch"),
    "devices": Command("inspect.devices", "list devices and who has them"),
    "calls": Command("supervisor.calls.command", "calls to device plugins and DRA drivers, and their answers"),
    "capture": Command("supervisor.capture.command", "write a plugin's or driver's calls as a script that plays them"),
    "adopt": Command("operate.start", "serve the pod resources watch of the kubelet of this machine"),
    "cpus": Command("inspect.devices", "list exclusive CPUs and memory and who has them"),
    "image": Command("operate.image", "import, list and remove images of the embedded runtime"),
    "chaos": Command("operate.chaos", "kill an actor, make a device fail, play a script of faults"),
    "scale": Command("operate.orders", "change the number of API processes, or of nodes"),
    "node-config": Command("operate.node_config", "write the file by which a node on another machine joins"),
    "kubeconfig": Command("operate.kubeconfig", "write the file with which kube-scheduler, kubelet, ... use the API"),
    "restart": Command("operate.orders", "restart one actor in an orderly way"),
    "plugin": Command(SIMULATOR, "run a device plugin"),
    "dra-driver": Command(SIMULATOR, "run a DRA driver"),
    "fleet": Command(FLEET, "simulate thousands of nodes whose devices live"),
    "bench": Command("bench", "measure this machine"),
    "size": Command("supervisor.size.command", "what a load needs: processes, cores, memory, network, disk"),
    "test": Command("supervisor.testing.command", "run a command beside a plane of its own"),
    "new": Command("operate.begin", "begin a device plugin, DRA driver or agent: a project that works"),
    "protos": Command("operate.begin", "write the .proto files of the APIs that they speak"),
    "conform": Command("operate.conform", "say what is wrong with a device plugin, DRA driver or agent"),
    "check": Command("supervisor.machine.check", "say what this machine gives a plane, and what will not work"),
    "completion": Command("completion", "print a shell's completion script: bash, zsh or fish"),
    "schema": Command("inspect.schema", "print the JSON schema of what a command prints with -o json"),
    "version": Command("supervisor.machine.version", "print the version and what it is made of"),
}


def parser_of(modules: Iterable[ModuleType]) -> Parser:
    """Return a parser with the subcommands of these modules; --root may stand before or after each of them."""
    parser = Parser(prog="nodeplane", allow_abbrev=False)
    subparsers = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    for module in modules:
        module.add_parser(subparsers)
    add_root_everywhere(parser)
    return parser


def command_of(words: Iterable[str]) -> str:
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
