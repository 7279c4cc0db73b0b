"""nodeplane status: what runs, since when, and how far each replica is."""

import argparse

from protocols.messages.supervisor import ActorStatus, Beat, FollowedStream, PlaneStatus
from supervisor.cli.ask import Asking, ask
from supervisor.cli.flags import layout_from
from supervisor.cli.table import duration, print_json, table

HEADER = ("ACTOR", "GROUP", "PID", "STATE", "UPTIME", "RESTARTS", "SYNCED", "LAST REASON", "NOTE")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("status", help="what runs", allow_abbrev=False)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    plane = ask(layout_from(args), Asking.status)
    if args.output == "json":
        print_json(plane)
    else:
        print(render(plane))
    return 0


def render(plane: PlaneStatus) -> str:
    """Actors, then streams, then endpoints."""
    parts = [table(HEADER, [actor_row(actor) for actor in plane.actors])]
    streams = [row for actor in plane.actors if actor.beat for row in stream_rows(actor.beat)]
    if streams:
        parts.append(table(("ACTOR", "STREAM", "SEQ", "MARK", "SYNCED"), streams))
    parts.append("\n".join(f"{name:<11} {value}" for name, value in plane.endpoints.items()))
    return "\n\n".join(parts)


def actor_row(actor: ActorStatus) -> tuple[str, ...]:
    return (
        actor.instance,
        actor.group,
        str(actor.pid or "-"),
        actor.state,
        duration(actor.uptime_s),
        str(actor.restarts),
        synced(actor.beat),
        actor.last_reason or "-",
        actor.beat.note if actor.beat else "",
    )


def synced(beat: Beat | None) -> str:
    """`3/4`: how many of the streams it follows are in step."""
    if beat is None or not beat.follows:
        return "-"
    return f"{sum(stream.synced for stream in beat.follows)}/{len(beat.follows)}"


def stream_rows(beat: Beat) -> list[tuple[str, ...]]:
    owned = [(beat.instance, f"owns {s.stream}", str(s.seq), str(s.mark), "-") for s in beat.owns]
    return owned + [_followed(beat.instance, stream) for stream in beat.follows]


def _followed(instance: str, stream: FollowedStream) -> tuple[str, ...]:
    name = f"follows {stream.owner}/{stream.stream}"
    return instance, name, str(stream.seq), str(stream.mark), "yes" if stream.synced else "NO"
