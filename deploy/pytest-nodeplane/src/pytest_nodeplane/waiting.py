"""Wait for a pod, and say why it is not as far."""

import time
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeVar

TIMEOUT_S = 30.0
FIRST_S, EVERY_S = 0.004, 0.03
"""Pause before the second look, and the longest one: most of what a test waits for takes milliseconds."""
T = TypeVar("T")


class NotReached(AssertionError):
    """Raised when something did not happen in time, or cannot happen any more. The first line says why."""


def until(
    text: str,
    holds: Callable[[], T],
    timeout: float = TIMEOUT_S,
    last: Callable[[], str] = lambda: "",
    over: Callable[[], str] = lambda: "",
) -> T:
    """Return the first true value of `holds`.

    A LookupError means that a field is not there yet. Raises NotReached with `text` and what `last` returns, at the
    deadline or as soon as `over` returns the reason why it cannot happen any more.
    """
    deadline, pause = time.monotonic() + timeout, FIRST_S
    while True:
        value, missing = _tried(holds)
        if value:
            return value
        reason = over()
        if reason or time.monotonic() > deadline:
            end = f"cannot happen any more: {reason}" if reason else f"not in {timeout:g} s"
            raise NotReached(f"{text}: {'. '.join(filter(None, (end, missing, last())))}")
        time.sleep(pause)
        pause = min(2 * pause, EVERY_S)


def _tried(holds: Callable[[], T]) -> tuple[T | None, str]:
    """Return what holds, or the field that is missing as a sentence."""
    try:
        return holds(), ""
    except LookupError as error:
        kind = "no field" if isinstance(error, KeyError) else "too few items:"
        return None, f"What was read has {kind} {error}"


class PodWait:
    """`read` returns the pod, {} if there is none; `events` lines of its events; `why` its state with the reason."""

    def __init__(
        self,
        name: str,
        read: Callable[[], dict[str, Any]],
        events: Callable[[], Iterable[str]],
        why: Callable[[], str] = lambda: "",
    ) -> None:
        self._name, self._read, self._events, self._why = name, read, events, why

    def running(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """Wait for phase Running with every container started; return the pod."""
        return self._until(_started, "runs", timeout, final=("Failed", "Succeeded"))

    def ready(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        return self._until(_ready, "is Ready", timeout, final=("Failed", "Succeeded"))

    def succeeded(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        return self._until(lambda pod: _phase(pod) == "Succeeded", "succeeded", timeout, final=("Failed",))

    def failed(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        return self._until(lambda pod: _phase(pod) == "Failed", "failed", timeout, final=("Succeeded",))

    def gone(self, timeout: float = TIMEOUT_S) -> None:
        until(f"pod {self._name} is gone", lambda: not self._read(), timeout, self._seen)

    def until(
        self, holds: Callable[[dict[str, Any]], object], text: str = "is as wanted", timeout: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """Wait until `holds` is true of the pod; return the pod."""
        return self._until(holds, text, timeout)

    def _until(
        self, holds: Callable[[dict[str, Any]], object], text: str, timeout: float, final: Container[str] = ()
    ) -> dict[str, Any]:
        """`final`: phases which a pod does not leave, and after which `holds` cannot be true."""

        def found() -> dict[str, Any]:
            pod = self._read()
            return pod if pod and holds(pod) else {}

        def over() -> str:
            pod = self._read() if final else {}
            ending = pod.get("metadata", {}).get("deletionTimestamp")  # then another pod may get the name
            return f"it has {_phase(pod).lower()} for good" if _phase(pod) in final and not ending else ""

        return until(f"pod {self._name} {text}", found, timeout, self._seen, over)

    def _seen(self) -> str:
        pod = self._read()
        if not pod:
            return "There is no such pod"
        return "\n".join(filter(None, (self._why(), f"It is {describe(pod)}", *self._events())))


def describe(pod: Mapping[str, Any]) -> str:
    """Return phase, reason and the states of containers in one line."""
    status = pod.get("status", {})
    states = [
        f"{shown['name']} {kind} {detail.get('reason', '')} {detail.get('message', '')}".rstrip()
        for shown in status.get("containerStatuses", ())
        for kind, detail in shown.get("state", {}).items()
    ]
    conditions = [
        f"{shown['type']}={shown['status']} {shown.get('message', '')}".rstrip()
        for shown in status.get("conditions", ())
        if shown["status"] != "True"
    ]
    first = " ".join(filter(None, (_phase(pod), status.get("reason", ""), status.get("message", ""))))
    return "; ".join((first, *states, *conditions))


def condition(pod: Mapping[str, Any], name: str) -> str:
    conditions = pod.get("status", {}).get("conditions", ())
    return next((str(shown["status"]) for shown in conditions if shown["type"] == name), "")


def _phase(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def _ready(pod: Mapping[str, Any]) -> bool:
    return condition(pod, "Ready") == "True"


def _started(pod: Mapping[str, Any]) -> bool:
    states = [status.get("state", {}) for status in pod.get("status", {}).get("containerStatuses", ())]
    return _phase(pod) == "Running" and bool(states) and all("running" in state for state in states)
