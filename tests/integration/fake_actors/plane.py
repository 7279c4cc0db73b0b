"""Start a plane of fakes: `ROOT [--detach] [--nohup] [--ready=S] [--group=G] NAME[:MODULE][!]...`; `!` = critical."""

import argparse
import signal
import sys

import msgspec

from protocols.errors import NodeplaneError
from supervisor.base.groups import ChildSpec, SupervisionLimits
from supervisor.cli.flags import plane_options
from supervisor.plane.start import start
from supervisor.startup.prepared import Prepared

LIMITS = SupervisionLimits(beat_s=2.5, busy_s=6.0, abort_s=1.5, backoff_s=0.02, start_failures=3)


def spec(word: str) -> ChildSpec:
    name, _, module = word.rstrip("!").partition(":")
    critical = word.endswith("!")
    actor = name.split("-")[0]
    code = f"{__package__}.{module or 'good'}"
    return ChildSpec(instance=name, actor=actor, group="node", module=code, critical=critical)


def main(argv: list[str]) -> int:
    root, *words = argv
    detach = "--detach" in words
    if "--nohup" in words:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    group = next((word.removeprefix("--group=") for word in words if word.startswith("--group=")), "")
    ready_s = next((float(word.removeprefix("--ready=")) for word in words if word.startswith("--ready=")), 0.0)
    specs = tuple(spec(word) for word in words if not word.startswith("--"))

    def adapt(prepared: Prepared) -> Prepared:
        return msgspec.structs.replace(prepared, specs=specs)

    limits = msgspec.structs.replace(LIMITS, slow_start_s=0.2) if ready_s else LIMITS
    options = plane_options(argparse.Namespace(root=root, port=0, metrics_port=0))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as the command has it
    try:
        return start(options, group=group, detach=detach, ready_s=ready_s, limits=limits, adapt=adapt)
    except NodeplaneError as error:
        print(f"nodeplane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
