"""The allocation written to a claim's status once its devices are chosen. Pure."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from protocols.dra.allocator.claims import Claim, Request, is_referenced
from protocols.dra.allocator.shares import spelled
from protocols.dra.allocator.types import Pick
from protocols.dra.types import DeviceClass, Extras
from protocols.kube.meta import Object


def allocation(
    claim: Claim, picks: Iterable[Pick], classes: Mapping[str, DeviceClass], node: str, stamp: str = ""
) -> Object:
    """Return the AllocationResult of a claim; empty parts are left out.

    The API rejects more than 64 entries of configuration: a device must not run without some of them.
    """
    picks = tuple(picks)
    config = [*_class_config(claim, picks, classes), *_claim_config(claim, picks)]
    devices = {"results": [_result(pick) for pick in picks], **({"config": config} if config else {})}
    selector = node_selector(picks, node)
    return {
        "devices": devices,
        **({"nodeSelector": selector} if selector else {}),
        **({"allocationTimestamp": stamp} if stamp else {}),
    }


def _result(pick: Pick) -> Object:
    """Return one result. Tolerations are copied, since eviction reads them from the allocation."""
    driver, pool, device = pick.device.id
    return {
        "request": pick.request,
        "driver": driver,
        "pool": pool,
        "device": device,
        **({"adminAccess": True} if pick.admin else {}),
        **({"tolerations": [dict(toleration) for toleration in pick.tolerations]} if pick.tolerations else {}),
        **_binding(pick.device.spec.extras),
        **(_share(pick) if pick.share is not None else {}),
    }


def _binding(extras: Extras) -> Object:
    conditions = {"bindingConditions": extras.binding_conditions, "bindingFailureConditions": extras.binding_failures}
    return {name: list(names) for name, names in conditions.items() if names}


def _share(pick: Pick) -> Object:
    """Return a fresh shareID and the consumption. A share with admin access consumes nothing."""
    share = {} if pick.admin else pick.share or {}
    consumed = {spelled(pick.device.spec, name): str(amount) for name, amount in share.items()}
    return {"shareID": str(uuid.uuid4()), **({"consumedCapacity": consumed} if consumed else {})}


def _class_config(claim: Claim, picks: tuple[Pick, ...], classes: Mapping[str, DeviceClass]) -> Iterable[Object]:
    """Yield the config of each class once, with all chosen requests of that class."""
    users: dict[str, list[str]] = {}
    for request in claim.requests:
        for subrequest in request.subrequests:
            if any(pick.request == subrequest.name for pick in picks):
                users.setdefault(subrequest.class_name, []).append(subrequest.name)
    for name, requests in users.items():
        for entry in classes[name].config:
            yield {**entry, "source": "FromClass", "requests": list(requests)}


def _claim_config(claim: Claim, picks: tuple[Pick, ...]) -> Iterable[Object]:
    """Yield each config that names no request, or a chosen one."""
    chosen = {pick.request for pick in picks}
    for entry in claim.config:
        requests = tuple(entry.get("requests") or ())
        if any(is_referenced(requests, subrequest) for subrequest in chosen):
            yield {**entry, "source": "FromClaim", "requests": list(requests)}


def node_selector(picks: Iterable[Pick], node: str) -> Object | None:
    """Return the nodes that reach all devices: this node alone if one of the devices is local to it."""
    demands: dict[str, list[Any]] = {}
    for pick in picks:
        reach = pick.device.reach
        if reach.node or pick.device.spec.extras.binds_to_node:
            by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
        for part, entries in ((reach.selector or {}).get("nodeSelectorTerms") or [{}])[0].items():
            known = demands.setdefault(part, [])
            known.extend(entry for entry in entries or () if entry not in known)
    return {"nodeSelectorTerms": [demands]} if demands else None


def first_available_score(requests: Iterable[Request], picks: Iterable[Pick]) -> int:
    """Return the score of the chosen subrequests: 8 for a first alternative down to 1 for an eighth, summed up."""
    chosen = {pick.request for pick in picks}
    places = (
        next((at for at, subrequest in enumerate(request.subrequests) if subrequest.name in chosen), None)
        for request in requests
        if request.prioritized
    )
    return sum(8 - at for at in places if at is not None)
