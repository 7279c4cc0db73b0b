"""Query parameters of the node's paths. Pure; every fault is a RequestInvalid that names the parameter."""

import time
from collections.abc import Mapping

import msgspec

from actors.podworker.streaming.errors import RequestInvalid
from actors.podworker.streaming.log_lines import stamp_ns
from actors.podworker.streaming.types import LogOptions

TRUE, FALSE = ("true", "1", "t"), ("false", "0", "f", "")
STREAMS = {"": "", "All": "", "Stdout": "stdout", "Stderr": "stderr"}


class ExecOptions(msgspec.Struct, frozen=True):
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


def log_options(query: Mapping[str, str]) -> LogOptions:
    stream = query.get("stream", "")
    if stream not in STREAMS:
        raise RequestInvalid(f"stream is {stream!r}; use All, Stdout or Stderr")
    return LogOptions(
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail=_number(query, "tailLines"),
        limit=_number(query, "limitBytes"),
        since_ns=_since(query),
        stream=STREAMS[stream],
    )


def exec_options(query: Mapping[str, str], command: list[str]) -> ExecOptions:
    """`stdin`, `stdout`, `stderr` are called `input`, `output`, `error` on the node, as kubelet does."""
    options = ExecOptions(
        command=tuple(command),
        stdin=_flag(query, "input"),
        stdout=_flag(query, "output"),
        stderr=_flag(query, "error"),
        tty=_flag(query, "tty"),
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise RequestInvalid("you must specify at least 1 of stdin, stdout, stderr")
    return msgspec.structs.replace(options, stderr=options.stderr and not options.tty)


def _flag(query: Mapping[str, str], name: str) -> bool:
    value = query.get(name, "").lower()
    if value not in TRUE + FALSE:
        raise RequestInvalid(f"{name} is {value!r}; use true or false")
    return value in TRUE


def _number(query: Mapping[str, str], name: str) -> int:
    value = query.get(name, "")
    if value and not (value.isascii() and value.isdigit() and len(value) < 19):
        raise RequestInvalid(f"{name} is {value!r}; use a number that is not negative")
    return int(value) if value else -1


def _since(query: Mapping[str, str]) -> int:
    seconds, moment = _number(query, "sinceSeconds"), query.get("sinceTime", "")
    if not moment:
        return time.time_ns() - seconds * 1_000_000_000 if seconds >= 0 else 0
    at = stamp_ns(moment.encode())
    if at is None:
        raise RequestInvalid(f"sinceTime is {moment!r}; write it as 2026-01-31T12:00:00Z")
    return at
