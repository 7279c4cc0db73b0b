"""Wait for a pod, and say why it is not as far."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

TIMEOUT_S = 30.0
FIRST_S, EVERY_S = 0.004, 0.03
"""Pause before the second look, and the longest one: most of what a test waits for takes milliseconds."""
T = TypeVar("T")


class NotReached(AssertionError):
    """Raised when something did not happen in time; the message says what was seen last."""


def until(text: str, holds: Callable[[], T], timeout: float = TIMEOUT_S, last: Callable[[], str] = lambda: "") -> T:
    """Return the first true value of `holds`. Raises NotReached with `text` and what `last` returns."""
    deadline, pause = time.monotonic() + timeout, FIRST_S
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise NotReached(f"{text}: not in {timeout:g} s. {last()}".rstrip())
        time.sleep(pause)
        pause = min(2 * pause, EVERY_S)
    return found


class PodWait:
    """`read` returns the pod, {} if there is none; `events` the lines of its events."""

    def __init__(self, name: str, read: Callable[[], dict[str, Any]], events: Callable[[], Iterable[str]]) -> None:
        self._name, self._read, self._events = name, read, events

    def running(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """Wait for phase Running with every container started; return the pod."""
        return self.until(_started, "runs", timeout)

    def ready(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        return self.until(lambda pod: condition(pod, "Ready") == "True", "is Ready", timeout)

    def succeeded(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        return self.until(lambda pod: _phase(pod) == "Succeeded", "succeeded", timeout)

    def failed(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        return self.until(lambda pod: _phase(pod) == "Failed", "failed", timeout)

    def gone(self, timeout: float = TIMEOUT_S) -> None:
        until(f"pod {self._name} is gone", lambda: not self._read(), timeout, self._seen)

    def until(
        self, holds: Callable[[dict[str, Any]], object], text: str = "is as wanted", timeout: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """Wait until `holds` is true of the pod; return the pod."""

        def found() -> dict[str, Any]:
            pod = self._read()
            return pod if pod and holds(pod) else {}

        return until(f"pod {self._name} {text}", found, timeout, self._seen)

    def _seen(self) -> str:
        pod = self._read()
        if not pod:
            return "There is no such pod."
        return "\n".join((f"It is {describe(pod)}", *self._events()))


def describe(pod: Mapping[str, Any]) -> str:
    """Return phase, reason and the states of containers in one line."""
    status = pod.get("status", {})
    states = [
        f"{each['name']} {kind} {detail.get('reason', '')} {detail.get('message', '')}".rstrip()
        for each in status.get("containerStatuses", ())
        for kind, detail in each.get("state", {}).items()
    ]
    conditions = [
        f"{each['type']}={each['status']} {each.get('message', '')}".rstrip()
        for each in status.get("conditions", ())
        if each["status"] != "True"
    ]
    first = " ".join(filter(None, (_phase(pod), status.get("reason", ""), status.get("message", ""))))
    return "; ".join((first, *states, *conditions))


def condition(pod: Mapping[str, Any], name: str) -> str:
    found = pod.get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in found if each["type"] == name), "")


def _phase(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def _started(pod: Mapping[str, Any]) -> bool:
    states = [each.get("state", {}) for each in pod.get("status", {}).get("containerStatuses", ())]
    return _phase(pod) == "Running" and bool(states) and all("running" in state for state in states)
