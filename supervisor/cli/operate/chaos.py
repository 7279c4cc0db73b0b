"""`nodeplane chaos`: inject faults into a running plane."""

import argparse
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from protocols.messages import cri, devices
from protocols.process.files import read_input
from supervisor.base.errors import UsageError
from supervisor.base.progress import Progress, progress
from supervisor.chaos.script import parse
from supervisor.cli.flags import HEALTH, layout_from
from supervisor.client.connection import Asking, ask

DEVICE = "RESOURCE ID of a device plugin, or DRIVER/POOL/DEVICE of a DRA driver"
HEALTHS = "{" + ",".join(HEALTH) + "}"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("chaos", help="break something", allow_abbrev=False)
    faults = parser.add_subparsers(dest="fault", required=True, parser_class=type(parser))
    killing = faults.add_parser("kill", help="send a signal to an actor", allow_abbrev=False)
    killing.add_argument("actor")
    killing.add_argument("--signal", default="KILL", help="name or number (default KILL)")
    failing = faults.add_parser("device", help="override a device's health", allow_abbrev=False)
    failing.usage = f"nodeplane chaos device [-h] [--root DIR] (RESOURCE ID | DRIVER/POOL/DEVICE) {HEALTHS}"
    failing.add_argument("device_words", nargs="*", metavar="WORD", help=f"{DEVICE}, and its health: {HEALTHS}")
    lying = faults.add_parser("runtime", help="falsify the runtime's events", allow_abbrev=False)
    lying.add_argument(
        "fault_of_runtime", metavar="FAULT", choices=cri.RUNTIME_FAULTS, help=", ".join(cri.RUNTIME_FAULTS)
    )
    lying.add_argument("--count", type=int, default=0, help="drop-events: how many (default: all until clear)")
    scripted = faults.add_parser("script", help="play a script of faults and expectations", allow_abbrev=False)
    scripted.add_argument("file", type=Path, help="- = standard input")
    scripted.add_argument("--seed", type=int, default=0, help="of `any`: the same seed makes the same choices")
    lying.add_argument("--seconds", type=float, default=3600.0, help="clock-jump: by how much (default 3600)")
    parser.set_defaults(run=_chaos)


def _chaos(args: argparse.Namespace) -> int:
    faults = {"kill": _kill, "device": _device, "runtime": _runtime}

    if args.fault == "device":
        args.order = device_order(args.device_words)
    elif args.fault == "runtime":
        args.order = _runtime_order(args)

    async def question(asking: Asking) -> None:
        await faults[args.fault](asking, args)

    ask(layout_from(args), script(args) if args.fault == "script" else question)
    return 0


def script(args: argparse.Namespace) -> Callable[[Asking], Awaitable[None]]:
    """Parse a script, before the plane is asked anything, and return what plays it. Raises UsageError."""
    from supervisor.chaos import player, stage  # the API client is slow to load

    file: Path = args.file
    try:
        parsed = parse(file.name, read_input(file).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {getattr(error, 'strerror', '') or 'is no text'}") from None
    seed = args.seed or random.randrange(1, 10**6)

    async def question(asking: Asking) -> None:
        print(f"seed {seed}", flush=True)
        played = stage.ChaosStage(asking, file.parent, random.Random(seed))
        try:
            with progress(file.name, player.line_count(parsed.steps)) as shown:
                tally = ScriptTally(shown)
                await player.Player(parsed, played, tally.say, tally.begin, shown.say).play()
        finally:
            await played.close()

    return question


class ScriptTally:
    """Progress of a script: the line that was begun last, and how many are done."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._done = 0
        self._text = ""

    def begin(self, text: str) -> None:
        self._text = text
        self._shown.at(text, self._done)

    def say(self, line: str) -> None:
        self._done += 1
        self._shown.say(line)
        self._shown.at(self._text, self._done)


async def _kill(asking: Asking, args: argparse.Namespace) -> None:
    await asking.kill(args.actor, signal_number(args.signal))


async def _device(asking: Asking, args: argparse.Namespace) -> None:
    await asking.override_health(args.order)


def device_order(given: Sequence[str]) -> devices.ChaosDevice:
    """Return the request for `chaos device`. Raises UsageError."""
    *words, health = given or [""]
    if health not in HEALTH:
        what = f"{health!r} is no health" if health else "the health is missing"
        raise UsageError(f"{what}: chaos device DEVICE {HEALTHS}, where DEVICE is {DEVICE}")
    if not words:
        raise UsageError(f"the device is missing; name {DEVICE}, and then its health")
    if len(words) == 1 and words[0].count("/") < 2:
        raise UsageError(f"{words[0]} is no device; name {DEVICE}")
    if len(words) > 2:
        raise UsageError(f"{' '.join(words)} are several devices; name one")
    if len(words) == 2 and health == "unknown":
        raise UsageError("the health of a plugin's device is unknown only when its plugin is gone; stop the plugin")
    return devices.ChaosDevice(resource=words[0] if len(words) == 2 else "", id=words[-1], health=HEALTH[health])


async def _runtime(asking: Asking, args: argparse.Namespace) -> None:
    await asking.call(cri.OWNER, cri.CHAOS, args.order, cri.Empty)


def _runtime_order(args: argparse.Namespace) -> cri.ChaosRuntime:
    if args.count < 0:
        raise UsageError(f"--count {args.count}: a number of events is at least 0")
    if not abs(args.seconds) <= cri.MOST_SHIFT_S:
        raise UsageError(f"--seconds {args.seconds:g}: use at most {cri.MOST_SHIFT_S:g}, or as much back")
    return cri.ChaosRuntime(fault=args.fault_of_runtime, count=args.count, seconds=args.seconds)


def signal_number(text: str) -> int:
    """Parse `9`, `KILL` or `SIGKILL`. Raises UsageError."""
    if text.isascii() and text.isdigit() and len(text) < 3 and int(text) in signal.valid_signals():
        return int(text)
    name = text.upper()
    try:
        return int(signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except KeyError:
        raise UsageError(f"{text!r} is no signal; use a name such as KILL or STOP, or a number") from None
