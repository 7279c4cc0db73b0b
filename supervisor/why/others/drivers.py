"""Diagnosis of a DRA driver."""

from collections.abc import Iterator

from supervisor.calls.text import record_lines
from supervisor.client.drivers import CONNECTED, SILENT, driver_state
from supervisor.why.model.text import at, joined, plural, span_text
from supervisor.why.model.types import DriverEvidence, Finding

LAST_CALLS = 2


def diagnose_driver(found: DriverEvidence) -> Finding:
    """Return why a driver is in its state; one that never registered has no row."""
    pending = next((call for call in found.calls if not call.status), None)
    if pending is not None:
        reason = f"{pending.method} for {pending.subject} has not been answered for {span_text(pending.seconds)}"
        return Finding("busy", reason, tuple(record_lines(pending)))
    published = f"; it has published {plural(found.slices, 'ResourceSlice')}"
    if found.row is None:
        since = f" since {at(found.socket_since)}, when the device manager started" if found.socket_since else ""
        reason = f"no driver of this name has registered{since}{published if found.slices else ''}"
        advice = "start it: it registers by a socket in plugins_registry/"
        if found.elsewhere:
            reason += f" for {joined(found.elsewhere)}, which {'run' if found.elsewhere[1:] else 'runs'} elsewhere"
            advice = "ask there, with the --root of that node"
        return Finding("not registered", reason, tuple(_last_calls(found)), (advice,))
    state, driver = driver_state(found.row.driver), found.row.driver
    if state == CONNECTED:
        health = driver.health or "no health service"
        reason = f"it serves {driver.version} and {health} for {plural(found.row.claims, 'claim')}{published}"
        return Finding("serves", reason, tuple(_failed_calls(found)))
    if state == SILENT:
        reason = f"it is registered at {joined(driver.endpoints)} and does not answer"
        return Finding("silent", reason, tuple(_last_calls(found)), ("see the log of the driver",))
    reason = f"its registration socket is gone; {plural(found.row.claims, 'claim')} on this node need it{published}"
    return Finding("gone", reason, tuple(_last_calls(found)), ("start it again",))


def _last_calls(found: DriverEvidence) -> Iterator[str]:
    for call in found.calls[-LAST_CALLS:]:
        yield from record_lines(call)


def _failed_calls(found: DriverEvidence) -> Iterator[str]:
    for call in [call for call in found.calls if call.status not in ("OK", "")][-LAST_CALLS:]:
        yield from record_lines(call)
