"""The report as JSON."""

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from supervisor.conform.exchange import Exchange, Shown
from supervisor.conform.report.text import counts
from supervisor.conform.verdict import FAIL, Result


def run_json(words: Sequence[str], results: Sequence[Result]) -> dict[str, Any]:
    found = counts(results)
    return {
        "command": shlex.join(words),
        "verdict": "fail" if found[FAIL] else "pass",
        "counts": found,
        "seconds": round(sum(result.seconds for result in results), 3),
        "behaviours": [_result(result) for result in results],
    }


def _result(result: Result) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(result, exchanges=()))
    return {**fields, "exchanges": [_exchange(each) for each in result.exchanges]}


def _exchange(exchange: Exchange) -> dict[str, Any]:
    record = msgspec.to_builtins(exchange.record)
    return {**record, "request_bytes": _shown(exchange.request), "reply_bytes": _shown(exchange.reply)}


def _shown(shown: Shown) -> dict[str, Any]:
    """`hex` is that of the first bytes, `size` the number of all."""
    return {"size": shown.size, "hex": shown.first.hex()}
