"""Query parameters: list, watch and write options, numbers and durations. Checked as upstream checks them."""

import functools
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from actors.apiserver.api.errors import BadRequest, invalid_options
from protocols.kinds.check.causes import Cause, forbidden, invalid, too_long, unsupported
from protocols.kube.times import DURATION, duration_ns

INT64_MAX = 2**63 - 1
MOST_DIGITS = 19
"""Digits of a number that can fit into 64 bits; longer ones are not parsed."""
LONGEST_DURATION = 64
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)
_SIGNED, _UNSIGNED = re.compile(r"[+-]?\d+", re.ASCII), re.compile(r"\d+", re.ASCII)


def integer(text: str) -> int:
    """Parse a 64-bit integer. Raises BadRequest with Go's text, which clients know."""
    if not _SIGNED.fullmatch(text):
        raise BadRequest(f"strconv.ParseInt: parsing {_quoted(text)}: invalid syntax")
    digits = text.lstrip("+-0") or "0"  # Python reads no number of thousands of zeros
    value = int(digits) if len(digits) <= MOST_DIGITS else INT64_MAX + 2
    value = -value if text.startswith("-") else value
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise BadRequest(f"strconv.ParseInt: parsing {_quoted(text)}: value out of range")
    return value


def resource_version(text: str) -> int | None:
    """Parse a resourceVersion parameter; None if it is empty. Raises BadRequest."""
    if not text:
        return None
    fault, digits = "" if _UNSIGNED.fullmatch(text) else "invalid syntax", text.lstrip("0") or "0"
    if not fault and (len(digits) > MOST_DIGITS or int(digits) > INT64_MAX):
        fault = "value out of range"
    if fault:
        value = f"{_quoted(text)}: strconv.ParseUint: parsing {_quoted(text)}: {fault}"
        raise BadRequest(f"invalid resource version: resourceVersion: Invalid value: {value}")
    return int(digits)


def request_seconds(query: Mapping[str, str], most: float) -> float:
    """Return the timeout that a client requests, at most `most` seconds. Raises BadRequest."""
    text = query.get("timeout", "")
    if not text:
        return most
    if len(text) > LONGEST_DURATION or not DURATION.fullmatch(text):
        fault = "missing unit in" if _NUMBER.fullmatch(text) else "invalid"
        raise BadRequest(f"invalid timeout specified in the request URL - time: {fault} duration {_quoted(text)}")
    seconds = duration_ns(text) / 1e9
    return seconds if 0 < seconds < most else most


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
MANAGER_LIMIT = 128
LONG_AGENT = 512
"""Characters of a user agent; the options of longer ones are not cached."""


class ListOptions(msgspec.Struct, frozen=True):
    """Options of a LIST or WATCH. `version` is None if the client gave none."""

    labels: str = ""
    fields: str = ""
    watch: bool = False
    bookmarks: bool = False
    version: int | None = None
    match: str = ""
    timeout: int = 0
    """timeoutSeconds; 0 leaves it to the server, a negative number ends a watch at once."""
    limit: int = 0
    resume: str = ""
    """The continue token."""
    initial_events: bool | None = None


class WriteOptions(msgspec.Struct, frozen=True):
    """Query parameters of a write; `force` is None where it was not given."""

    dry_run: bool = False
    manager: str = ""
    """The requested fieldManager; empty if there is none."""
    agent: str = ""
    """The default field manager: the user agent up to the first slash."""
    validation: str = "Warn"
    force: bool | None = None
    reserved_claims: tuple[str, ...] = ()
    """Claims that must be reserved for the pod of a binding, see writes/path/binding.py. Not upstream's."""
    deletion: Mapping[str, Any] = {}
    """Further options of a deletion, for policies and webhooks."""


def list_options(query: Mapping[str, str]) -> ListOptions:
    """Parse list and watch options. Raises BadRequest for malformed values, Invalid for contradictory ones."""
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        watch=flag(query, "watch") or False,
        bookmarks=flag(query, "allowWatchBookmarks") or False,
        version=resource_version(query.get("resourceVersion", "")),
        match=query.get("resourceVersionMatch", ""),
        timeout=_number(query, "timeoutSeconds"),
        limit=max(0, _number(query, "limit")),
        resume=query.get("continue", ""),
        initial_events=flag(query, "sendInitialEvents"),
    )
    causes = _watch_causes(options) if options.watch else _list_causes(options)
    if causes:
        raise invalid_options("ListOptions", *causes)
    if not options.watch and options.version and options.resume:
        raise BadRequest("specifying resource version is not allowed when using continue")
    return options


def write_options(
    query: Mapping[str, str], dry_runs: list[str], user_agent: str, kind: str = "CreateOptions"
) -> WriteOptions:
    """Parse options of create, update and patch. `dry_runs` are all values of dryRun. Raises Invalid."""
    if not query and not dry_runs and len(user_agent) < LONG_AGENT:
        return _default_write_options(user_agent)
    causes = [unsupported("dryRun", value, ("All",)) for value in dry_runs if value != "All"]
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        causes.append(unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    manager = query.get("fieldManager", "")
    causes += _manager_causes(manager)
    if causes:
        raise invalid_options(kind, *causes)
    return WriteOptions(
        dry_run=bool(dry_runs),
        manager=manager,
        agent=_agent(user_agent),
        validation=validation,
        force=flag(query, "force"),
        reserved_claims=tuple(filter(None, query.get("reservedClaims", "").split(","))),
    )


@functools.lru_cache(maxsize=256)
def _default_write_options(user_agent: str) -> WriteOptions:
    """Return the options of a write without query parameters."""
    return WriteOptions(agent=_agent(user_agent))


def _manager_causes(manager: str) -> list[Cause]:
    if len(manager.encode()) > MANAGER_LIMIT:
        return [too_long("fieldManager", MANAGER_LIMIT)]
    for at, character in enumerate(manager):
        if not character.isprintable():
            text = f"invalid character U+{ord(character):04X} (at position {at})"
            return [invalid("fieldManager", manager, text)]
    return []


def _agent(user_agent: str) -> str:
    """Return the default field manager of a user agent, without unprintable characters."""
    name = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return name.encode()[:MANAGER_LIMIT].decode(errors="ignore")


def flag(query: Mapping[str, str], name: str) -> bool | None:
    """Parse a boolean parameter; None if it is absent. Without a value it is true, as upstream reads it."""
    value = query.get(name)
    return None if value is None else value.lower() not in ("false", "0")


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name)
    return 0 if text is None else integer(text)


def _list_causes(options: ListOptions) -> list[Cause]:
    causes = []
    if options.initial_events is not None:
        causes.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if options.match:
        causes += _match_causes(options)
    return causes


def _match_causes(options: ListOptions) -> list[Cause]:
    field = "resourceVersionMatch"
    causes = []
    if options.version is None:
        causes.append(forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if options.resume:
        causes.append(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    if options.match not in (EXACT, NOT_OLDER_THAN):
        causes.append(unsupported(field, options.match, (EXACT, NOT_OLDER_THAN, "")))
    if options.match == EXACT and options.version == 0:
        causes.append(forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    return causes


def _watch_causes(options: ListOptions) -> list[Cause]:
    field = "resourceVersionMatch"
    causes = []
    if options.initial_events is not None and options.match != NOT_OLDER_THAN:
        causes.append(forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if not options.match:
        return causes
    if options.initial_events is None:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden(field, text))
    if options.match != NOT_OLDER_THAN:
        causes.append(unsupported(field, options.match, (NOT_OLDER_THAN,)))
    if options.resume:
        causes.append(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    return causes
