"""`nodeplane tap OWNER STREAM`: print a stream of the bus as lines of JSON, read without the types of its messages."""

import argparse
import asyncio
import contextlib
from typing import Any

import msgpack
import msgspec

from protocols.bus import Event, Op, StreamSink, Unavailable
from protocols.kube.jsons import read_json
from protocols.messages.supervisor import PlaneStatus
from supervisor.base.errors import SupervisorError, UsageError, until_interrupted
from supervisor.base.terminal import json_text
from supervisor.cli.flags import layout_from
from supervisor.client.connection import TIMEOUT_S, Asking, ask


class Tap(StreamSink[bytes]):
    """Prints a line per key of a snapshot, per event, and per loss of the stream.

    A position without an event is not worth a line: idle owners send one with every tick.
    """

    def __init__(self) -> None:
        self.failed = asyncio.get_running_loop().create_future()
        """Has the error once a line cannot be printed."""

    def _print(self, line: dict[str, Any]) -> None:
        if self.failed.done():
            return
        try:
            print(json_text(msgspec.json.encode(line)), flush=True)
        except OSError as error:
            self.failed.set_exception(error)

    def on_snapshot(self, items: list[tuple[str, bytes]], mark: int) -> None:
        self._print({"op": "snapshot", "items": len(items), "mark": mark})
        for key, body in items:
            self._print({"op": "item", "key": key, "value": untyped(body)})

    def on_event(self, event: Event[bytes]) -> None:
        value = untyped(event.value) if event.value else None
        self._print(
            {"op": Op(event.op).name.lower(), "seq": event.seq, "mark": event.mark, "key": event.key, "value": value}
        )

    def on_synced(self, synced: bool) -> None:
        self._print({"op": "synced" if synced else "stale"})


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("tap", help="follow a stream of the bus", allow_abbrev=False)
    parser.add_argument("owner", help="actor that owns the stream, such as devices")
    parser.add_argument("stream", help="such as allocations; `nodeplane status --streams` lists them")
    parser.add_argument("--once", action="store_true", help="print what the stream holds now, then end")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    async def question(asking: Asking) -> None:
        check_stream(await asking.status(), args.owner, args.stream)
        await tap(asking, args.owner, args.stream, args.once)

    return until_interrupted(lambda: ask(layout_from(args), question))


async def tap(asking: Asking, owner: str, stream: str, once: bool = False) -> None:
    """Print a stream: what it holds now with `once`, else until cancelled. Raises SupervisorError, OSError."""
    sink = Tap()
    following = asking.bus.follow(owner=owner, stream=stream, sink=sink, type=bytes)
    try:
        await following.wait_synced(TIMEOUT_S)
    except Unavailable as error:
        raise SupervisorError(f"{error}; `nodeplane status --streams` lists them") from None
    if not once or sink.failed.done():
        await sink.failed


def check_stream(plane: PlaneStatus, owner: str, stream: str) -> None:
    """Raise UsageError for an owner or a stream that the plane does not have, as far as heartbeats name them."""
    owned = {actor.instance: [own.stream for own in actor.beat.owns] if actor.beat else [] for actor in plane.actors}
    if owner not in owned:
        known = ", ".join(name for name, streams in owned.items() if streams)
        raise UsageError(f"no actor is called {owner!r}; streams have: {known}")
    if owned[owner] and stream not in owned[owner]:
        raise UsageError(f"{owner} has no stream {stream!r}; it has: {', '.join(owned[owner])}")


def untyped(body: bytes) -> Any:
    """Decode a body. Bytes that are neither msgpack nor a JSON object stay bytes, which are shown as base64."""
    try:
        return _readable(msgpack.unpackb(body))
    except (ValueError, msgpack.UnpackException):
        return _readable(body)


def _readable(value: Any) -> Any:
    """Streams of API objects carry JSON inside msgpack."""
    if isinstance(value, dict):
        return {key: _readable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, bytes) and value.startswith(b"{"):
        with contextlib.suppress(ValueError):
            return read_json(value)
    return value
