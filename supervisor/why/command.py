"""`nodeplane why KIND/NAME`: why a pod, device, claim, node or plugin is in the state it is in."""

import argparse
import asyncio

import msgspec

from protocols.kube.errors import ApiAway, ApiError
from protocols.process.layout import Layout
from protocols.recording.frames import RecordingInvalid
from protocols.recording.reader import Recording
from supervisor.base.errors import NotRunning, SupervisorError, UsageError
from supervisor.base.recordings import opened, time_in
from supervisor.base.terminal import print_json, show
from supervisor.cli.flags import layout_from
from supervisor.why.gather.live import connected
from supervisor.why.gather.replay import ReplaySources
from supervisor.why.gather.sources import TargetUnknown
from supervisor.why.model.text import lines
from supervisor.why.model.types import Diagnosis
from supervisor.why.targets import KINDS, WhyTarget, target_of

HELP = "the reason, in words, for the state of a pod, device, claim, node or plugin"
EPILOG = "The conclusion is drawn from the API's objects and events, the trace, and the calls of plugins and drivers."


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("why", help=HELP, description=HELP, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("target", metavar="KIND/NAME", help=f"KIND is {', '.join(KINDS)}; a NAME alone is a pod")
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="after a KIND without a name")
    parser.add_argument("-n", "--namespace", default="default", help="of a pod or claim (default: default)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    help = "an access to the API: of an adopted kubelet's cluster, or as another user (default ROOT/kubeconfig)"
    parser.add_argument("--kubeconfig", metavar="FILE", default="", help=help)
    parser.add_argument("--replay", metavar="FILE", default="", help="of a recording instead (up --record)")
    parser.add_argument("--at", metavar="TIME", default="", help="with --replay: HH:MM:SS, RFC 3339, +SECONDS; its end")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return its exit code. Raises UsageError."""
    target = target_of(f"{args.target}/{args.name}" if args.name else args.target, args.namespace)
    if args.at and not args.replay:
        raise UsageError("--at is a time of a recording; give --replay FILE, too")
    if args.replay:
        recording = opened(args.replay)
        diagnosis = asyncio.run(diagnose_recorded(recording, time_in(recording, args.at), target))
    else:
        diagnosis = asyncio.run(diagnose(layout_from(args), target, args.kubeconfig))
    if args.output == "json":
        print_json(diagnosis)
    else:
        show("\n".join(line.replace("\n", "\\n") for line in lines(diagnosis)))
    return 0


async def diagnose(where: Layout, target: WhyTarget, kubeconfig: str = "") -> Diagnosis:
    """Gather the evidence about a target and draw the conclusion. Raises NotRunning, SupervisorError, UsageError."""
    try:
        async with connected(where, kubeconfig) as sources:
            return await KINDS[target.kind](sources, target)
    except ApiError as error:
        mend = "; --kubeconfig FILE asks as another user" if error.code == 403 else ""
        raise SupervisorError(f"the API rejects the request: {error}{mend}") from None
    except ApiAway as error:
        raise NotRunning(f"the API does not answer: {error}; see `nodeplane status`") from None


async def diagnose_recorded(recording: Recording, at_ms: int, target: WhyTarget) -> Diagnosis:
    """Draw the conclusion that `diagnose` would have drawn at this time, without commands for a plane that is gone.

    Raises SupervisorError, UsageError.
    """
    try:
        found = await KINDS[target.kind](ReplaySources(recording, at_ms), target)
        advice = tuple(line for line in found.advice if not line.lstrip("`").startswith("kubectl "))
        return msgspec.structs.replace(found, advice=advice)
    except TargetUnknown as error:
        raise UsageError(f"{error.what}it may be in the recording at another time (--at)") from None
    except ApiError as error:
        raise SupervisorError(f"the recording has no such object: {error}") from None
    except RecordingInvalid as error:
        raise SupervisorError(str(error)) from None
