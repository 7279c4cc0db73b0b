"""Diagnosis of a device plugin: it serves, is silent, is gone, did not come back, or reports odd words of health."""

from collections.abc import Callable, Iterator
from typing import Any

from protocols.messages.calls import CallRecord
from protocols.messages.devices import HEALTHY, PLUGIN_GONE, PLUGIN_SERVES, PLUGIN_SILENT, UNHEALTHY, PluginView
from supervisor.calls.text import record_lines
from supervisor.why.model.text import ago, at, joined, plural, span_text
from supervisor.why.model.types import Finding, PluginEvidence

LIST, REGISTER = "ListAndWatch", "Register"
SERVES = "serves"
"""State of a plugin in which nothing is wrong."""
WORDS = (HEALTHY, UNHEALTHY)
LAST_CALLS = 3
NAMED = 5
"""Devices named in a sentence."""
RESTART_S = 5.0
"""kubelet.sock is created at most so long after the device manager ended."""


def diagnose_plugin(found: PluginEvidence) -> Finding:
    """Return why a plugin is in its state: the finding of the first rule that applies."""
    return next(finding for rule in RULES if (finding := rule(found)) is not None)


def plugin_sentence(found: PluginEvidence) -> str:
    """Return the reason alone, for a pod that needs the resource."""
    finding = diagnose_plugin(found)
    return f"plugin of {found.resource}: {finding.state}: {finding.reason}"


def never(found: PluginEvidence) -> Finding | None:
    """Explain a resource of which no plugin is known, neither now nor before a restart."""
    if found.plugins or found.calls or found.known:
        return None
    reason = f"no plugin has registered {found.resource}"
    since = f" since kubelet.sock was created at {ago(found.socket_since, found.now)}" if found.socket_since else ""
    return Finding(
        "not registered", reason + since, advice=("start the plugin, or see its log: it registers at kubelet.sock",)
    )


def rejected(found: PluginEvidence) -> Finding | None:
    """Explain a plugin whose last Register was answered with an error while nothing serves."""
    last = next((call for call in reversed(found.calls) if call.method == REGISTER), None)
    if found.connected or last is None or last.status in ("OK", ""):
        return None
    reason = f"Register at {_moment(last)} was answered with {last.status}: {last.error}"
    return Finding(
        "rejected", reason, tuple(_last_calls(found)), ("correct the request of Register and register again",)
    )


def odd_health(found: PluginEvidence) -> Finding | None:
    """Explain a plugin that reports health in words which the protocol does not have."""
    words = odd_words(found)
    if not found.connected or not words:
        return None
    device, word = next(iter(words.items()))
    reason = (
        f"it sent health {word!r} ({word.encode().hex(' ')}) for device {device}, which is not exactly `Healthy`:"
        f" {plural(len(words), 'device')} not allocatable"
    )
    advice = "send the constants of the protocol, `Healthy` and `Unhealthy`, letter by letter"
    return Finding("odd health", reason, tuple(_last_calls(found)), (advice,))


def _serves(found: PluginEvidence) -> Finding | None:
    view = _view(found, PLUGIN_SERVES)
    if view is None:
        return None
    reason = (
        f"{view.socket} has served since {ago(view.since_ns / 1e9, found.now)}:"
        f" {found.healthy} of {plural(found.capacity, 'device')} healthy"
    )
    if found.capacity == 0:
        return Finding("lists no device", f"{reason}; its list is empty", tuple(_last_calls(found)))
    if pending := next((call for call in found.calls if not call.status and not call.incoming), None):
        reason += f"; {pending.method} for {pending.subject} has not been answered for {span_text(pending.seconds)}"
        return Finding("busy", reason, tuple(record_lines(pending)))
    reason += _last_failure(found)
    sick = [f"device {row.device} is {row.health}{_message(row.message)}" for row in found.unhealthy[:NAMED]]
    state = "serves unhealthy devices" if sick else SERVES
    return Finding(state, reason, (*sick, *_last_calls(found)))


def _last_failure(found: PluginEvidence) -> str:
    """Return how the last call of a method ended, if it failed or the node did not accept its answer."""
    last = {call.method: call for call in found.calls if not call.incoming and call.status}
    for call in last.values():
        if call.status != "OK":
            return f"; its last {call.method} ({call.subject}) failed: {call.status}: {call.error}"
        if call.outcome.endswith("rejected"):
            return f"; the node rejected its last answer to {call.method} ({call.subject}): {call.outcome}"
    return ""


def _silent(found: PluginEvidence) -> Finding | None:
    view = _view(found, PLUGIN_SILENT)
    if view is None:
        return None
    reason = (
        f"{view.socket} registered at {ago(view.since_ns / 1e9, found.now)} and has not sent a first list of devices"
    )
    return Finding("silent", reason, tuple(_last_calls(found)), ("send the list as soon as ListAndWatch is called",))


def not_back(found: PluginEvidence) -> Finding | None:
    """Explain a plugin that has not registered with the new socket since the device manager restarted."""
    if found.connected or found.plugins or not found.known:
        return None
    began = found.manager_since or found.socket_since
    why = f" ({found.manager_restart})" if found.manager_restart else ""
    reason = f"it served before the device manager restarted at {ago(began, found.now)}{why}"
    if found.socket_since:
        reason += f"; kubelet.sock is new since {at(found.socket_since)}, no Register since"
    advice = "a plugin must watch kubelet.sock and register again when it is created"
    return Finding("did not come back", reason, tuple(_last_calls(found)), (advice,))


def _gone(found: PluginEvidence) -> Finding | None:
    view = _view(found, PLUGIN_GONE)
    if view is None:
        return None
    ended = view.since_ns / 1e9
    reason = f"{view.socket} served until {ago(ended, found.now)}: {view.why or 'its stream ended'}; no Register since"
    if found.socket_since > ended - RESTART_S and found.socket_since:
        reason += f", although kubelet.sock is new since {at(found.socket_since)}"
    advice = "start it again; a plugin that runs must register again when kubelet.sock is created"
    return Finding("gone", reason, tuple(_last_calls(found)), (advice,))


def _other(found: PluginEvidence) -> Finding:
    states = joined(f"{view.socket} {view.state}" for view in found.plugins) or "no connection"
    return Finding("unknown", states, tuple(_last_calls(found)))


Rule = Callable[[PluginEvidence], Finding | None]
RULES: tuple[Rule, ...] = (odd_health, _serves, _silent, rejected, never, _gone, not_back, _other)
"""Tried in order; the last one always matches."""


def _view(found: PluginEvidence, state: str) -> PluginView | None:
    return next((view for view in found.plugins if view.state == state), None)


def odd_words(found: PluginEvidence) -> dict[str, str]:
    """Return the devices whose last reported health is no word of the protocol, as the lists' records show them."""
    words: dict[str, str] = {}
    for call in found.calls:
        if call.method == REGISTER and call.status == "OK":  # after a rejected one the plugin before it serves on
            words.clear()
        if call.method == LIST:
            for device in _changes(call):
                words[str(device.get("ID"))] = str(device.get("health") or "")
            for device in call.reply.get("removed") or ():
                words.pop(str(device.get("ID")), None)
    return {device: word for device, word in words.items() if word not in WORDS}


def _changes(call: CallRecord) -> list[dict[str, Any]]:
    return [*(call.reply.get("added") or ()), *(call.reply.get("changed") or ())]


def _last_calls(found: PluginEvidence) -> Iterator[str]:
    for call in found.calls[-LAST_CALLS:]:
        yield from record_lines(call)


def _moment(call: CallRecord) -> str:
    return at(call.began_ns / 1e9)


def _message(text: str) -> str:
    return f": {text}" if text else ""
