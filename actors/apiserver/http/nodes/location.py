"""Locate the node endpoint of a pod's log or of a connection to the pod. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace
from multidict import MultiMapping

from actors.apiserver.api.errors import NEVER_AGAIN, BadRequest, ServiceUnavailable, invalid_object
from actors.apiserver.api.request.query import flag, integer
from actors.apiserver.api.request.target import not_found
from protocols.kinds.check.causes import Cause, forbidden, invalid, unsupported
from protocols.kinds.core.nodes import NODES
from protocols.kube.meta import CONTAINER_LISTS, Object
from protocols.kube.objects import at, items, text
from protocols.kube.pods import is_finished, phase_of

REACHABLE = ("InternalDNS", "InternalIP")
"""Address types, best first."""
LOG_NUMBERS = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}
"""Minimum of each parameter."""
LOG_STREAMS = ("All", "Stderr", "Stdout")
STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""The node's name of each query parameter."""

Query = MultiMapping[str]


class NodeUnavailable(ServiceUnavailable):
    """Raised for a node that cannot be called, or does not answer as it must; `fault` does not name it."""

    def __init__(self, node: str, fault: str, retry_after: int = 1) -> None:
        super().__init__(f'node "{node}" {fault}', retry_after)
        self.node, self.fault = node, fault


class Location(msgspec.Struct, frozen=True):
    """An endpoint of a node; its certificate must name `name`."""

    name: str
    host: str
    port: int
    path: str
    query: tuple[tuple[str, str], ...]
    features: tuple[str, ...] = ()
    """Features that the node declares."""
    insecure: bool = False
    """Any certificate will do, as the client says."""


def log_location(pod: Object, node: Object | None, query: Query) -> Location | None:
    """Return None while the pod has no node: its log is empty. Raises BadRequest, NotFound, NodeUnavailable."""
    container = container_of(pod, query.get("container", ""))
    if not text(pod, "spec", "nodeName"):
        return None
    passed = [(key, "true") for key in ("follow", "previous", "timestamps") if flag(query, key)]
    wanted = ("tailLines", "limitBytes", "sinceSeconds", "sinceTime", "stream")
    passed += [(key, query[key]) for key in wanted if query.get(key)]
    insecure = bool(flag(query, "insecureSkipTLSVerifyBackend"))
    return replace(_located(pod, node, "containerLogs", container, tuple(passed)), insecure=insecure)


def stream_location(kind: str, pod: Object, node: Object | None, query: Query) -> Location:
    """Return the location of exec, attach or portForward. Raises BadRequest, NotFound, NodeUnavailable."""
    container = container_of(pod, query.get("container", "")) if kind != "portForward" else ""
    name = text(pod, "metadata", "name")
    if not text(pod, "spec", "nodeName"):
        raise BadRequest(f"pod {name} does not have a host assigned")
    if kind != "portForward" and is_finished(pod):
        raise BadRequest(f"cannot exec into a container in a completed pod; current phase is {phase_of(pod)}")
    passed = [(STREAMS[key], "1") for key in STREAMS if flag(query, key)]
    passed += [("command", part) for part in query.getall("command", [])]
    passed += [("port", part) for part in query.getall("ports", [])]
    if kind == "exec" and not query.getall("command", []):
        raise BadRequest("you must specify a command for the container")
    if kind != "portForward" and not any(key in ("input", "output", "error") for key, _ in passed):
        raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
    return _located(pod, node, kind, container, tuple(passed))


def container_of(pod: Object, wanted: str) -> str:
    """Return the container of a request: the only one if it names none. Raises BadRequest."""
    name = text(pod, "metadata", "name")
    names = {kind: [text(c, "name") for c in items(pod, "spec", kind)] for kind in CONTAINER_LISTS}
    if wanted:
        if not any(wanted in group for group in names.values()):
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    main = names["containers"]
    if len(main) == 1:
        return main[0]
    message = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
    if names["initContainers"]:
        message += f" or one of the init containers: [{' '.join(names['initContainers'])}]"
    raise BadRequest(message)


def check_log_options(query: Mapping[str, str]) -> None:
    """Raise Invalid, BadRequest for options of a log; they are checked before the pod is looked up."""
    causes: list[Cause] = []
    for key, least in LOG_NUMBERS.items():
        value = integer(query[key]) if query.get(key) else least
        if value < least:
            words = "must be greater than 0" if least else "must be greater than or equal to 0"
            causes.append(invalid(key, value, words))
    if query.get("sinceSeconds") and query.get("sinceTime"):
        causes.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    stream = query.get("stream") or LOG_STREAMS[0]
    if stream not in LOG_STREAMS:
        causes.append(unsupported("stream", stream, LOG_STREAMS))
    elif stream != LOG_STREAMS[0] and query.get("tailLines"):
        causes.append(forbidden("[]", "`tailLines` and specific `stream` cannot be specified together"))
    if causes:
        raise invalid_object("PodLogOptions", "", "", causes)


def _located(
    pod: Object, node: Object | None, kind: str, container: str, query: tuple[tuple[str, str], ...]
) -> Location:
    name = text(pod, "spec", "nodeName")
    host, port = address(name, node)
    parts = [kind, text(pod, "metadata", "namespace"), text(pod, "metadata", "name"), container]
    path = "/" + "/".join(filter(None, parts))
    return Location(name, host, port, path, query, _declared_features(node))


def _declared_features(node: Object | None) -> tuple[str, ...]:
    features = at(node, "status", "declaredFeatures") if node is not None else None
    return tuple(feature for feature in features if isinstance(feature, str)) if isinstance(features, list) else ()


def address(name: str, node: Object | None) -> tuple[str, int]:
    """Return the host and port of a node. Raises NotFound, NodeUnavailable."""
    if node is None:
        raise not_found(NODES, name)
    port = at(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port")
    known = {text(item, "type"): text(item, "address") for item in reversed(items(node, "status", "addresses"))}
    host = next((known[kind] for kind in REACHABLE if known.get(kind)), "")
    if not host or not isinstance(port, int) or not 0 < port < 65536:
        raise NodeUnavailable(name, "serves no logs and no connections", NEVER_AGAIN)
    return host, port
