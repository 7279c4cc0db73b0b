"""Text and JSON of call records. Pure. Texts of plugins are escaped where they are printed."""

import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from protocols.messages.calls import CallRecord

INDENT = " " * 14
IN_PROGRESS = "in progress"


def record_lines(record: CallRecord) -> list[str]:
    """Return a head line, a line for each message, and the outcome."""
    lines = [_head(record)]
    lines += [f"{INDENT}{word:<9} {compact(message, omitted)}" for word, message, omitted in _messages(record)]
    if record.error:
        lines.append(f"{INDENT}{'error':<9} {record.error}")
    if record.outcome:
        lines.append(f"{INDENT}{'outcome':<9} {record.outcome}")
    return lines


def _head(record: CallRecord) -> str:
    direction = "<-" if record.incoming else "->"
    parts = [_clock(record.began_ns), record.peer or record.socket, direction, record.method, record.subject]
    if record.number == 0 or not record.status:
        parts.append(f"{IN_PROGRESS} for {record.seconds:.1f} s{_deadline(record)}")
    else:
        parts += [record.status, _duration(record)]
    if record.times > 1:
        parts.append(f"({record.times} times)")
    return "  ".join(part for part in parts if part)


def _duration(record: CallRecord) -> str:
    return f"{1000 * record.seconds:.1f} ms{_deadline(record)}" if record.seconds else ""


def _deadline(record: CallRecord) -> str:
    return f" of {record.deadline:.3g} s" if record.deadline else ""


def _messages(record: CallRecord) -> list[tuple[str, dict[str, Any], dict[str, int]]]:
    words = ("sent", "answered")
    if record.incoming:  # a call to the node, or a message of a stream
        words = ("received", "answered" if record.seconds else "received")
    messages = []
    for word, name in zip(words, ("request", "reply"), strict=True):
        message: dict[str, Any] = getattr(record, name)
        if message:
            prefix = f"{name}."
            omitted = {key.removeprefix(prefix): n for key, n in record.omitted.items() if key.startswith(prefix)}
            messages.append((word, message, omitted))
    return messages


class CallLine(CallRecord, frozen=True, kw_only=True):
    """A line of `nodeplane calls -o json`."""

    time: str
    """Begin of the call as of RFC 3339."""


def record_json(record: CallRecord) -> bytes:
    """Return the record as a CallLine, whose time comes first."""
    began = datetime.fromtimestamp(record.began_ns / 1e9, UTC).astimezone().isoformat(timespec="milliseconds")
    return msgspec.json.encode({"time": began, **msgspec.to_builtins(record)})


def _clock(time_ns: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_ns // 10**9)) + f".{time_ns // 10**6 % 1000:03d}"


def compact(value: Any, omitted: dict[str, int], path: str = "") -> str:
    """Return a value on one line: `envs={A=1} mounts=[{host_path=/x}]`, with `+N` for what was left out."""
    if isinstance(value, dict):
        inner = " ".join(f"{name}={_nested(item, omitted, _join(path, name))}" for name, item in value.items())
        return f"{inner}{_more(omitted, path)}"
    if isinstance(value, list):
        inner = ", ".join(_nested(item, omitted, _join(path, str(at))) for at, item in enumerate(value))
        return f"{inner}{_more(omitted, path)}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text}{_more(omitted, path)}"


def _nested(value: Any, omitted: dict[str, int], path: str) -> str:
    text = compact(value, omitted, path)
    if isinstance(value, dict):
        return f"{{{text}}}"
    return f"[{text}]" if isinstance(value, list) else text


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _more(omitted: dict[str, int], path: str) -> str:
    return f" +{omitted[path]} more" if path in omitted else ""
