"""The report as JSON."""

import shlex
from collections.abc import Sequence

import msgspec

from protocols.messages.calls import CallRecord
from supervisor.conform.exchange import Exchange, Shown
from supervisor.conform.report.text import counts
from supervisor.conform.verdict import FAIL, Listed, Result


class MessageBytes(msgspec.Struct, frozen=True):
    """A message that does not decode."""

    size: int
    """Bytes of the whole message."""
    hex: str
    """The first bytes."""


class ExchangeReport(CallRecord, frozen=True, kw_only=True):
    """One call or one message of a stream, decoded and as bytes."""

    request_bytes: MessageBytes
    reply_bytes: MessageBytes


class BehaviourReport(Listed, frozen=True):
    """The verdict on one behaviour, with its evidence."""

    verdict: str
    """pass, fail or not applicable."""
    reason: str
    """The finding, or the reason why the rule does not apply."""
    seconds: float
    exchanges: tuple[ExchangeReport, ...]
    omitted: int
    """Exchanges left out."""
    output: tuple[str, ...]
    """The last lines that the program printed meanwhile."""


class RunReport(msgspec.Struct, frozen=True):
    """The report of `nodeplane conform -o json`."""

    command: str
    verdict: str
    """fail if one behaviour failed, else pass."""
    counts: dict[str, int]
    """Behaviours by verdict."""
    seconds: float
    behaviours: tuple[BehaviourReport, ...]


def run_json(words: Sequence[str], results: Sequence[Result]) -> RunReport:
    """Return the report of a run; `words` is the command under test."""
    totals = counts(results)
    verdict = "fail" if totals[FAIL] else "pass"
    seconds = round(sum(result.seconds for result in results), 3)
    return RunReport(shlex.join(words), verdict, totals, seconds, tuple(map(_result, results)))


def _result(result: Result) -> BehaviourReport:
    exchanges = tuple(map(_exchange, result.exchanges))
    return BehaviourReport(**{**msgspec.structs.asdict(result), "exchanges": exchanges})


def _exchange(exchange: Exchange) -> ExchangeReport:
    record = msgspec.structs.asdict(exchange.record)
    return ExchangeReport(**record, request_bytes=_shown(exchange.request), reply_bytes=_shown(exchange.reply))


def _shown(shown: Shown) -> MessageBytes:
    return MessageBytes(shown.size, shown.first.hex())
