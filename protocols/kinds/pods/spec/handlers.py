"""Probes and lifecycle hooks. Messages equal upstream's."""

import re
from typing import Any

from protocols.kinds.check.causes import forbidden, invalid, required
from protocols.kinds.check.table import Causes, Check, Struct, at_least, each, one_of
from protocols.kinds.check.values import port, port_number, positive
from protocols.kube.meta import Object

HEADER = re.compile(r"[-A-Za-z0-9]+")
HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
SLEEP_TEXT = "must be non-negative and less than terminationGracePeriodSeconds ({})"


def _header(path: str, value: Object, causes: Causes) -> None:
    name = value.get("name") or ""
    if not HEADER.fullmatch(name):
        causes.append(invalid(path, name, HEADER_TEXT))


HANDLERS: dict[str, Check] = {
    "exec": Struct("command"),
    "httpGet": Struct(
        "path", port=port, scheme=one_of("HTTP", "HTTPS", empty=True), httpHeaders=each(_header, unindexed=True)
    ),
    "tcpSocket": Struct(port=port),
    "grpc": Struct(port=port_number),
}


def _handler(path: str, value: Object, grace: Any, causes: Causes) -> None:
    """Check that there is one handler, the first, and check that one."""
    first = True
    for kind, check in HANDLERS.items():
        part = value.get(kind)
        if part is None:
            continue
        if first:
            check(f"{path}.{kind}", part, causes)
        else:
            causes.append(forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))
        first = False
    if (sleep := value.get("sleep")) is not None:
        if not first:
            causes.append(forbidden(f"{path}.sleep", "may not specify more than 1 handler type"))
        elif isinstance(grace, int) and not 0 <= (sleep.get("seconds") or 0) <= grace:
            causes.append(invalid(f"{path}.sleep", sleep.get("seconds"), SLEEP_TEXT.format(grace)))
        first = False
    if first:
        causes.append(required(path, "must specify a handler type"))


_counts = at_least(0)
PROBE = Struct(
    initialDelaySeconds=_counts,
    timeoutSeconds=_counts,
    periodSeconds=_counts,
    successThreshold=_counts,
    failureThreshold=_counts,
    terminationGracePeriodSeconds=positive,
)


def _probe(path: str, value: Object, causes: Causes) -> None:
    _handler(path, value, None, causes)
    PROBE(path, value, causes)


def _once(path: str, value: Object, causes: Causes) -> None:
    """Check a probe that succeeds at once."""
    _probe(path, value, causes)
    if value.get("successThreshold") != 1:
        causes.append(invalid(f"{path}.successThreshold", value.get("successThreshold"), "must be 1"))


def _readiness(path: str, value: Object, causes: Causes) -> None:
    _probe(path, value, causes)
    if (grace := value.get("terminationGracePeriodSeconds")) is not None:
        text = "must not be set for readinessProbes"
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, text))


PROBES: dict[str, Check] = {"livenessProbe": _once, "startupProbe": _once, "readinessProbe": _readiness}
ONLY_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
"""Fields that init containers other than sidecars cannot have."""


def handler_causes(path: str, container: Object, grace: Any) -> Causes:
    """Validate hooks and probes of a container; `grace` is the grace period of its pod."""
    causes: Causes = []
    for name, check in PROBES.items():
        if (value := container.get(name)) is not None:
            check(f"{path}.{name}", value, causes)
    if lifecycle := container.get("lifecycle"):
        for hook in ("postStart", "preStop"):
            if (value := lifecycle.get(hook)) is not None:
                _handler(f"{path}.lifecycle.{hook}", value, grace, causes)
    return causes


def init_handler_causes(path: str, container: Object) -> Causes:
    """Forbid hooks and probes of an init container that is no sidecar."""
    text = "may not be set for init containers without restartPolicy=Always"
    return [forbidden(f"{path}.{name}", text) for name in ONLY_RUNNING if container.get(name) is not None]
