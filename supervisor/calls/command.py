"""`nodeplane calls [RESOURCE|DRIVER] [-f]`: print the calls between the node and its device plugins and DRA drivers."""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterable

from protocols.messages.calls import CallRecord
from protocols.process.texts import printable
from supervisor.base.errors import NotRunning, until_interrupted
from supervisor.base.terminal import BAD, GOOD, PENDING, json_text
from supervisor.calls.client import CallBatch, CallQuery, CallReader, read_calls
from supervisor.calls.peers import NoSuchPeer, check_peer
from supervisor.calls.repeats import RepeatFilter
from supervisor.calls.text import IN_PROGRESS, record_json, record_lines
from supervisor.cli.flags import layout_from
from supervisor.client.connection import Asking, ask

STATUS_STYLES = {"OK": GOOD, "": PENDING}
"""Every other status is BAD."""
SLOW_S = 1.0
"""A call in progress for longer is printed once before it ends."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "calls", help="calls to device plugins and DRA drivers, and their answers", allow_abbrev=False
    )
    parser.add_argument("peer", nargs="?", default="", metavar="RESOURCE|DRIVER", help="only calls of this one")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with calls as they end")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument(
        "--show-secrets", action="store_true", help="show the values of environment variables, hidden otherwise"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    query = CallQuery(args.peer, args.show_secrets)
    if args.follow:
        return until_interrupted(lambda: ask(layout_from(args), lambda asking: _follow(asking, query, args.output)))
    records = ask(layout_from(args), lambda asking: _read(asking, query))
    for record in records:
        _print(record, args.output)
    if not records and args.output == "text":
        print(f"no calls{f' of {printable(args.peer)}' if args.peer else ''} since the device manager started")
    return 0


async def _read(asking: Asking, query: CallQuery) -> list[CallRecord]:
    """Return the records. Raises NoSuchPeer if there are none and nothing has the name asked for."""
    records = await read_calls(asking.bus, query)
    if not records:
        await check_peer(asking.bus, query.peer)
    return records


async def _follow(asking: Asking, query: CallQuery, output: str) -> None:
    with contextlib.suppress(NotRunning):  # the follower waits for the device manager, too
        try:
            await check_peer(asking.bus, query.peer)
        except NoSuchPeer as error:
            print(printable(f"nodeplane: waiting for {query.peer}: {error}"), file=sys.stderr, flush=True)
    printer = FollowPrinter(output)
    try:
        async for batch in CallReader(asking.bus, query).follow():
            printer.show(batch)
    finally:
        printer.close()


class FollowPrinter:
    """Prints each record once, and calls that last for more than SLOW_S before they end, too.

    Equal messages of a stream are counted, see `RepeatFilter`.
    """

    def __init__(self, output: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._output = output
        self._clock = clock
        self._repeats = RepeatFilter()
        self._announced: set[tuple[str, str, int]] = set()

    def show(self, batch: CallBatch) -> None:
        now = self._clock()
        if batch.restarted:
            self._print(self._repeats.rest(now))
            print("# the device manager restarted: earlier records are lost", file=sys.stderr, flush=True)
        for record in batch.records:
            self._print(self._repeats.add(record, now))
        self._print(self._repeats.due(now))
        slow = {(call.peer, call.method, call.began_ns): call for call in batch.pending if call.seconds > SLOW_S}
        if self._output == "text":
            self._print(slow[key] for key in slow.keys() - self._announced)
        self._announced = set(slow)

    def close(self) -> None:
        """Print the counts that are still held back."""
        self._print(self._repeats.rest(self._clock()))

    def _print(self, records: Iterable[CallRecord]) -> None:
        for record in records:
            _print(record, self._output)


def _print(record: CallRecord, output: str) -> None:
    if output == "json":
        print(json_text(record_json(record)), flush=True)
        return
    lines = [printable(line) for line in record_lines(record)]
    if sys.stdout.isatty():
        _print_coloured(lines, record)
    else:
        print("\n".join(lines), flush=True)


def _print_coloured(lines: list[str], record: CallRecord) -> None:
    from rich.console import Console
    from rich.text import Text

    head = Text(lines[0], style="bold")
    head.highlight_words([record.status or IN_PROGRESS], STATUS_STYLES.get(record.status, BAD))
    console = Console(highlight=False)
    for text in (head, *map(Text, lines[1:])):
        console.print(text, soft_wrap=True)
