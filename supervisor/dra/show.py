"""Tables of DRA devices: a line for each value, with its source."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from protocols.dra.tracker.faults import PatchFaultReport
from protocols.process.texts import printable
from supervisor.base.terminal import Table, table
from supervisor.dra.explain import DRIVER, ExplainedKey, Explanation

More = Callable[[ExplainedKey], Sequence[str]]
PUBLISHED = ("DEVICE", "NODE", "KIND", "NAME", "VALUE")
PATCHED = (*PUBLISHED, "FROM", "PUBLISHED")


def published_table(found: Iterable[Explanation]) -> Table:
    """Return a table with a row for each value, as the drivers publish it."""
    return Table(PUBLISHED, list(_rows(found, lambda entry: ())))


def patched_table(found: Iterable[Explanation]) -> Table:
    """Return devices with their patches; the column PUBLISHED is empty where the value is the driver's."""
    return Table(PATCHED, list(_rows(found, _origin)))


def _origin(entry: ExplainedKey) -> Sequence[str]:
    return entry.source, "" if entry.source == DRIVER else entry.published or "-"


def _rows(found: Iterable[Explanation], more: More) -> Iterator[Sequence[str]]:
    for explanation in found:
        place = (explanation.device, explanation.node or "-")
        for entry in explanation.entries:
            yield (*place, entry.kind, entry.name, entry.value or "(removed)", *more(entry))
            place = ("", "")
        if not explanation.entries:
            yield (*place, "-", "-", "-", *(("", "") if more is _origin else ()))


def explained(each: Explanation) -> str:
    """Return all values of one device, and the verdict on each patch."""
    lines = [printable(f"{each.device}  (slice {each.slice}, node {each.node or '-'})")]
    rows = [
        (entry.kind, entry.name, entry.value or "(removed)", entry.source, entry.published or "-", _others(entry))
        for entry in each.entries
    ]
    if rows:
        lines += _indented(table(("KIND", "NAME", "VALUE", "FROM", "PUBLISHED", "OVERRULED"), rows))
    verdicts = [
        (verdict.patch, str(verdict.priority), "applies" if verdict.applies else "does not apply", verdict.why)
        for verdict in each.patches
    ]
    if verdicts:
        lines += ["", *_indented(table(("PATCH", "PRIORITY", "", "WHY"), verdicts))]
    if each.turned_off:
        lines += ["", *(f"  {text}" for text in each.turned_off)]
    return "\n".join(lines)


def _others(entry: ExplainedKey) -> str:
    return ", ".join(entry.overruled) or "-"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def fault_lines(reports: Iterable[PatchFaultReport]) -> list[str]:
    """Return a line for each fault of a patch."""
    return [f"patch {report.patch}: {report.reason}: {report.message}" for report in reports]
