"""Table cells of pods: ready count, status and restarts."""

from protocols.kinds.served.columns import NONE, age_of
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text
from protocols.kube.pods import is_finished, sidecars_of

CONDITIONS = {
    phase: {"type": "Completed", "status": "True", "reason": phase, "message": message}
    for phase, message in (("Succeeded", "The pod has completed successfully."), ("Failed", "The pod failed."))
}
"""Conditions of the rows of finished pods, by which clients recognize them, as upstream's."""


def sidecars(pod: Object) -> set[str]:
    """Return the names of restartable init containers."""
    return {text(container, "name") for container in sidecars_of(pod)}


def ready(pod: Object) -> str:
    """Return READY: ready containers of all, sidecars included."""
    beside, (seen, word) = sidecars(pod), _initialization(pod)
    total = len(items(pod, "spec", "containers")) + len(beside)
    up = sum(1 for s in seen if text(s, "name") in beside and s.get("started") is True and s.get("ready") is True)
    if not word or _is_true(pod, "Initialized"):
        states = items(pod, "status", "containerStatuses")
        up += sum(1 for s in states if s.get("ready") is True and at(s, "state", "running") is not None)
    return f"{up}/{total}"


def status(pod: Object) -> str:
    """Return STATUS as kubectl shows it: the reason of a container that waits or ended, or the phase."""
    word = _initialization(pod)[1]
    if not word or _is_true(pod, "Initialized"):
        word = _container_word(pod, word or _initial_word(pod))
    if text(pod, "metadata", "deletionTimestamp"):
        if text(pod, "status", "reason") == "NodeLost":
            return "Unknown"
        if not is_finished(pod):
            return "Terminating"
    return word


def _initial_word(pod: Object) -> str:
    gated = any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated"
        for c in items(pod, "status", "conditions")
    )
    return "SchedulingGated" if gated else text(pod, "status", "reason") or text(pod, "status", "phase")


def _initialization(pod: Object) -> tuple[list[Object], str]:
    """Return the states of init containers up to the first unfinished one, and the word for that; "" for none."""
    beside, states = sidecars(pod), items(pod, "status", "initContainerStatuses")
    for index, state in enumerate(states):
        ended = at(state, "state", "terminated")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if text(state, "name") in beside and state.get("started") is True:
            continue
        return states[: index + 1], f"Init:{_unfinished_word(pod, index, state)}"
    return states, ""


def _unfinished_word(pod: Object, index: int, state: Object) -> str:
    ended, waiting = at(state, "state", "terminated"), text(state, "state", "waiting", "reason")
    if ended is not None:
        return text(ended, "reason") or _exit_word(ended)
    if waiting and waiting != "PodInitializing":
        return waiting
    return f"{index}/{len(items(pod, 'spec', 'initContainers'))}"


def _exit_word(ended: Object) -> str:
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _container_word(pod: Object, word: str) -> str:
    running, failed = False, ""
    for state in reversed(items(pod, "status", "containerStatuses")):
        waiting, ended = text(state, "state", "waiting", "reason"), at(state, "state", "terminated")
        if waiting:
            word = waiting
        elif ended is not None:
            word = text(ended, "reason") or _exit_word(ended)
            failed = word if ended.get("exitCode") else failed
        elif state.get("ready") is True and at(state, "state", "running") is not None:
            running = True
    if word != "Completed":
        return word
    if running and _is_true(pod, "Ready"):
        return "Running"
    return failed or ("NotReady" if running else word)


def _is_true(pod: Object, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in items(pod, "status", "conditions"))


def restarts(pod: Object) -> str:
    """Return RESTARTS: the sum, with the time since the last one. Those of init containers count while these run."""
    beside, (states, word) = sidecars(pod), _initialization(pod)
    if not word or _is_true(pod, "Initialized"):
        states = [s for s in states if text(s, "name") in beside] + items(pod, "status", "containerStatuses")
    total = sum(s["restartCount"] for s in states if isinstance(s.get("restartCount"), int))
    ends = [text(s, "lastState", "terminated", "finishedAt") for s in states]
    last = max((end for end in ends if end), default="")
    return f"{total} ({age_of(last)} ago)" if total and last else str(total)


def ip(pod: Object) -> str:
    """Return IP: the first of the pod."""
    first = next((text(item, "ip") for item in items(pod, "status", "podIPs")), "")
    return first or text(pod, "status", "podIP") or NONE


def gates(pod: Object) -> str:
    """Return READINESS GATES: met conditions of those that the spec names."""
    wanted = [text(gate, "conditionType") for gate in items(pod, "spec", "readinessGates")]
    met = {text(c, "type") for c in items(pod, "status", "conditions") if c.get("status") == "True"}
    return f"{sum(1 for gate in wanted if gate in met)}/{len(wanted)}" if wanted else NONE
