"""The query string, read once and checked: list and watch options, write options."""

from collections.abc import Mapping
from dataclasses import dataclass

from actors.apiserver.causes import Cause, forbidden, invalid, invalid_options, unsupported
from actors.apiserver.errors import BadRequest

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class ListOptions:
    """One LIST or WATCH, as asked. `version` None = the client named none."""

    labels: str = ""
    fields: str = ""
    watch: bool = False
    bookmarks: bool = False
    version: int | None = None
    match: str = ""
    timeout: int = 0
    """timeoutSeconds; 0 = the server chooses."""
    limit: int = 0
    resume: str = ""
    """The continue token."""
    initial_events: bool | None = None


@dataclass(frozen=True)
class WriteOptions:
    dry_run: bool = False
    manager: str = ""
    """The fieldManager asked for; empty = none was."""
    agent: str = ""
    """Stands in for it where one may be missing: the user agent up to the first slash."""
    validation: str = "Warn"
    force: bool | None = None


def list_options(query: Mapping[str, str]) -> ListOptions:
    """Raises BadRequest for what cannot be read and Invalid for what cannot be meant."""
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        watch=flag(query, "watch") or False,
        bookmarks=flag(query, "allowWatchBookmarks") or False,
        version=resource_version(query.get("resourceVersion", "")),
        match=query.get("resourceVersionMatch", ""),
        timeout=_number(query, "timeoutSeconds"),
        limit=_number(query, "limit"),
        resume=query.get("continue", ""),
        initial_events=flag(query, "sendInitialEvents"),
    )
    causes = _watch_causes(options) if options.watch else _list_causes(options)
    if causes:
        raise invalid_options("ListOptions", *causes)
    if not options.watch and options.version and options.resume:
        raise BadRequest("specifying resource version is not allowed when using continue")
    return options


def write_options(query: Mapping[str, str], dry_runs: list[str], user_agent: str) -> WriteOptions:
    """Options of create, update, patch; `dry_runs` are all values of dryRun."""
    causes = [unsupported("dryRun", value, ("All",)) for value in dry_runs if value != "All"]
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        causes.append(unsupported("fieldValidation", validation, ("Ignore", "Warn", "Strict")))
    manager = query.get("fieldManager", "")
    if len(manager) > 128 or not manager.isprintable():
        causes.append(invalid("fieldManager", manager, "must be at most 128 printable characters"))
    if causes:
        raise invalid_options("PatchOptions", *causes)
    return WriteOptions(
        dry_run=bool(dry_runs),
        manager=manager,
        agent=user_agent.partition("/")[0][:128],
        validation=validation,
        force=flag(query, "force"),
    )


def resource_version(text: str) -> int | None:
    """A resourceVersion parameter; empty = None. Raises BadRequest."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > INT64_MAX:
        raise BadRequest(f'invalid resourceVersion "{text}": must be a decimal number')
    return int(text)


def flag(query: Mapping[str, str], name: str) -> bool | None:
    """A boolean parameter, None when absent. Present without value means true, as upstream reads it."""
    value = query.get(name)
    return None if value is None else value.lower() not in ("false", "0")


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or int(digits) > INT64_MAX:
        raise BadRequest(f'invalid {name} "{text}": must be an integer')
    return max(0, int(text))


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
        causes.append(unsupported(field, options.match, (EXACT, NOT_OLDER_THAN)))
    if options.match == EXACT and options.version == 0:
        causes.append(forbidden(field, 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'))
    return causes


def _watch_causes(options: ListOptions) -> list[Cause]:
    field = "resourceVersionMatch"
    if options.initial_events is None:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [forbidden(field, text)] if options.match else []
    if not options.match:
        return [forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")]
    if options.match != NOT_OLDER_THAN:
        return [unsupported(field, options.match, (NOT_OLDER_THAN,))]
    if options.resume:
        return [forbidden(field, "resourceVersionMatch is forbidden when continue is provided")]
    return []
