"""nodeplane chaos: break something on purpose."""

import argparse
import signal

from protocols.messages import cri, devices
from protocols.messages.supervisor import KILL, Empty, KillActor
from supervisor.cli.ask import Asking, ask
from supervisor.cli.flags import layout_from
from supervisor.errors import Usage

HEALTH = {"unhealthy": "unhealthy", "healthy": "healthy", "clear": ""}
"""Word on the command line -> word of the ChaosDevice request."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("chaos", help="break something", allow_abbrev=False)
    faults = parser.add_subparsers(dest="fault", required=True, parser_class=type(parser))
    killing = faults.add_parser("kill", help="send a signal to an actor", allow_abbrev=False)
    killing.add_argument("actor")
    killing.add_argument("--signal", default="KILL", help="name or number (default KILL)")
    failing = faults.add_parser("device", help="override a device's health", allow_abbrev=False)
    failing.add_argument("resource")
    failing.add_argument("id")
    failing.add_argument("health", choices=tuple(HEALTH))
    lying = faults.add_parser("runtime", help="falsify what is heard of the runtime's events", allow_abbrev=False)
    lying.add_argument(
        "fault_of_runtime", metavar="FAULT", choices=cri.RUNTIME_FAULTS, help=", ".join(cri.RUNTIME_FAULTS)
    )
    lying.add_argument("--count", type=int, default=0, help="drop-events: how many (default: all until clear)")
    lying.add_argument("--seconds", type=float, default=3600.0, help="clock-jump: by how much (default 3600)")


def run(args: argparse.Namespace) -> int:
    async def question(asking: Asking) -> None:
        await {"kill": kill, "device": device, "runtime": runtime}[args.fault](asking, args)

    ask(layout_from(args), question)
    return 0


async def kill(asking: Asking, args: argparse.Namespace) -> None:
    request = KillActor(instance=args.actor, signal=signal_number(args.signal))
    await asking.call(await asking.owner_of(args.actor), KILL, request, Empty)


async def device(asking: Asking, args: argparse.Namespace) -> None:
    request = devices.ChaosDevice(resource=args.resource, id=args.id, health=HEALTH[args.health])
    await asking.call(devices.OWNER, devices.CHAOS_DEVICE, request, devices.Empty)


async def runtime(asking: Asking, args: argparse.Namespace) -> None:
    if args.count < 0:
        raise Usage(f"--count {args.count}: a number of events is at least 0")
    request = cri.ChaosRuntime(fault=args.fault_of_runtime, count=args.count, seconds=args.seconds)
    await asking.call(cri.OWNER, cri.CHAOS, request, cri.Empty)


def signal_number(text: str) -> int:
    """`9`, `KILL` or `SIGKILL`; raises Usage for what is no signal."""
    if text.isdigit() and int(text) in signal.valid_signals():
        return int(text)
    name = text.upper()
    try:
        return int(signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except KeyError:
        raise Usage(f"{text!r} is no signal; use a name such as KILL or STOP, or a number") from None
