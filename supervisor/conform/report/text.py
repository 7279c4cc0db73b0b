"""A line for each behaviour as it ends, and a paragraph for each that failed."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from protocols.process.texts import printable
from supervisor.calls.text import record_lines
from supervisor.conform.exchange import MAX_BYTES, Exchange
from supervisor.conform.scripts import Behaviour
from supervisor.conform.verdict import FAIL, NOT_APPLICABLE, PASS, Result

WIDTH = 118
LINE_BYTES = 32
SHOWN = 6
"""Exchanges shown of a failure; the other reports have all that are retained."""


class Printer:
    """Prints results as they come."""

    def __init__(self) -> None:
        self._width = 0
        self._last: Result | None = None
        self._folded = 0

    def begin(self, behaviours: Sequence[Behaviour]) -> None:
        self._width = max(len(behaviour.name) for behaviour in behaviours)
        print(f"{'BEHAVIOUR':<{self._width}}  {'VERDICT':<14}  {'TIME':>6}  WHY", flush=True)

    def result(self, result: Result) -> None:
        """Print a result; those that do not apply for the reason of the last one are only counted."""
        if self._last and result.verdict == NOT_APPLICABLE and result.reason == self._last.reason:
            self._folded += 1
            return
        self.end()
        self._last = result
        line = f"{result.name:<{self._width}}  {result.verdict:<14}  {result.seconds:5.1f}s  {result.reason}"
        print(printable(line.rstrip()), flush=True)
        if result.verdict == FAIL:
            print("\n".join(map(printable, failure_lines(result))), flush=True)

    def end(self) -> None:
        """Print the number of those that were only counted."""
        if self._folded:
            print(f"{'':<{self._width}}  {f'({self._folded} more)':<14}  {'':>6}  for the same reason", flush=True)
        self._folded = 0


def failure_lines(result: Result) -> Iterator[str]:
    """Yield rule, source, advice, the last exchanges and what the program printed."""
    for word, text in (("rule", result.rule), ("source", result.source), ("to do", result.advice)):
        yield from textwrap.wrap(text, WIDTH, initial_indent=f"    {word:<9} ", subsequent_indent=" " * 14)
    left_out = len(result.exchanges) - SHOWN
    if left_out > 0:
        yield f"    ({left_out} earlier calls are left out)"
    for exchange in result.exchanges[-SHOWN:]:
        yield from exchange_lines(exchange, LINE_BYTES)
    for line in result.output[-5:]:
        yield f"    {'printed':<9} {line}"


def exchange_lines(exchange: Exchange, most: int = MAX_BYTES) -> Iterator[str]:
    """Yield a call as `nodeplane calls` shows it, and its bytes."""
    for line in record_lines(exchange.record):
        yield f"    {line}"
    for word, shown in (("request", exchange.request), ("reply", exchange.reply)):
        if shown.size:
            yield f"{'':18}{f'{word}, {shown.size} bytes':<20} {shown.text(most)}"


def counts(results: Sequence[Result]) -> dict[str, int]:
    """Return the number of behaviours by verdict, also where it is 0."""
    totals = Counter(result.verdict for result in results)
    return {verdict: totals[verdict] for verdict in (PASS, FAIL, NOT_APPLICABLE)}


def counts_line(results: Sequence[Result]) -> str:
    """Return the summary in one line."""
    seconds = sum(result.seconds for result in results)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts(results).items()) + f", in {seconds:.1f} s"
