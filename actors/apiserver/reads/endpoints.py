"""Find the ready endpoints of a service in its EndpointSlices."""

from collections.abc import Callable, Iterable, Iterator

from protocols.kube.meta import SERVICE_NAME_LABEL, Object
from protocols.kube.objects import at, items, number, text

Slices = Callable[[str], Iterable[Object]]
"""Return the EndpointSlices of a namespace."""


def ready_endpoints(slices: Iterable[Object], service: str, port: str) -> Iterator[tuple[str, int, str]]:
    """Yield address, port and pod of each ready endpoint that has the named port; the pod is empty if it is none."""
    for each in slices:
        if at(each, "metadata", "labels", SERVICE_NAME_LABEL) != service:
            continue
        named = (number(at(declared, "port")) for declared in items(each, "ports") if text(declared, "name") == port)
        if not (target_port := next(named, 0)):
            continue
        for endpoint in items(each, "endpoints"):
            if at(endpoint, "conditions", "ready") is not False:
                pod = text(endpoint, "targetRef", "name") if text(endpoint, "targetRef", "kind") == "Pod" else ""
                yield from ((str(address), target_port, pod) for address in (endpoint.get("addresses") or ())[:1])
