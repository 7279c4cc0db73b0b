"""Diagnosis of a device (its health, since when and by whom, and who holds it), and of a DRA driver."""

from collections.abc import Iterator

from protocols.kube.taints import HARD
from protocols.process.texts import listed
from supervisor.calls.text import record_lines
from supervisor.client.devices import DeviceRow
from supervisor.client.drivers import CONNECTED, SILENT, driver_state
from supervisor.why.model.text import ago, at, joined, plural, span_text
from supervisor.why.model.types import DeviceEvidence, DriverEvidence, Finding
from supervisor.why.others.plugins import NAMED, diagnose_plugin, odd_words

HEALTHY = "Healthy"


LAST_CALLS = 2


def diagnose_device(found: DeviceEvidence) -> Finding:
    """Return why a device is in its state."""
    return _of_plugin(found, found.row) if found.row else _of_driver(found)


def _of_plugin(found: DeviceEvidence, row: DeviceRow) -> Finding:
    plugin = found.plugin
    holder = f"pod {row.pod} holds it (container {joined(row.containers)})" if row.pod else "nobody holds it"
    reason = f"it is {row.health}{_since(found)}; {holder}"
    word = odd_words(plugin).get(row.device) if plugin else None
    if word is not None:
        reason = f"its plugin sent health {word!r} ({word.encode().hex(' ')}), not exactly `Healthy`; {reason}"
    evidence = []
    if plugin is not None:
        finding = diagnose_plugin(plugin)
        evidence = [f"plugin of {row.resource}: {finding.state}: {finding.reason}", *finding.evidence]
    return Finding(_state(row.health, bool(row.pod)), reason, tuple(evidence), _advice(row.health, row.pod))


def _of_driver(found: DeviceEvidence) -> Finding:
    health = found.health.health if found.health else "Unknown"
    holders = f"claim {joined(found.holders)} holds it" if found.holders else "no claim holds it"
    parts = [holders]
    if found.health is not None or (found.holders and found.driver is not None):
        parts.insert(0, f"it is {health}{_since(found)}")
    if found.elsewhere:
        parts.append(f"its node {found.elsewhere} runs elsewhere, its health and its driver are known there")
    taints = found.taints
    if taints:
        parts.append(f"it has taint {taints[0]}")
    if found.explanation is None:
        parts.insert(0, "no ResourceSlice publishes it")
    state = _state(health, bool(found.holders)) if found.health else ("held" if found.holders else "free")
    evidence = [*(f"taint {taint}" for taint in taints[1:]), *_driver(found.driver)]
    if found.explanation is not None:
        evidence.insert(0, f"published in ResourceSlice {found.explanation.slice} for node {found.explanation.node}")
    if found.explanation is None:
        state = "not published"
    elif state in ("free", "held") and any(taint.partition(" ")[0].endswith(HARD) for taint in taints):
        state = "tainted"
    return Finding(state, "; ".join(parts), tuple(evidence), (f"see `nodeplane devices --explain {found.name}`",))


def _driver(driver: DriverEvidence | None) -> Iterator[str]:
    if driver is not None:
        finding = diagnose_driver(driver)
        yield f"driver {driver.name}: {finding.state}: {finding.reason}"


def _since(found: DeviceEvidence) -> str:
    health = found.health
    since = f" since {ago(health.changed_ns / 1e9, found.now)}" if health and health.changed_ns else ""
    return f"{since}{f': {health.message}' if health and health.message else ''}"


def _state(health: str, held: bool) -> str:
    if health != HEALTHY:
        return health.lower()
    return "held" if held else "free"


def _advice(health: str, pod: str) -> tuple[str, ...]:
    if health == HEALTHY:
        return ()
    return (f"see `nodeplane why pod/{pod.partition('/')[2]}`",) if pod else ()


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
            reason += (
                f" for {listed(found.elsewhere, NAMED)}, which {'run' if found.elsewhere[1:] else 'runs'} elsewhere"
            )
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
