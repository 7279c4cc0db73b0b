"""Rights to parts of a ResourceClaim's status, beside the one to `resourceclaims/status` (KEP-4817).

- `allocation` and `reservedFor` require `resourceclaims/binding` in the whole cluster.
- `devices` require `resourceclaims/driver` for the name of each driver whose entries change: with the verb prefix
  `associated-node:` for service accounts whose token is bound to the only node of the allocation, else with
  `arbitrary-node:`. Entries of devices that the same write deallocates belong to the allocation.
"""

from collections.abc import Iterator
from typing import Any

from actors.apiserver.api.errors import invalid_object
from actors.apiserver.api.request.target import Attributes, Target
from actors.apiserver.api.request.user import User, service_account_of
from actors.apiserver.authorization.authorizer import Authorizer, denied
from actors.apiserver.writes.admission.rule import Rule, Step
from actors.apiserver.writes.change import UPDATE, Change
from protocols.dra.binding import allocated_key
from protocols.kinds.check.causes import Cause, forbidden
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults
from protocols.kube.objects import items

GATE = "DRAResourceClaimGranularStatusAuthorization"
GROUP, PLURAL = "resource.k8s.io", "resourceclaims"
BINDING, DRIVER = "binding", "driver"
ASSOCIATED, ARBITRARY = "associated-node:", "arbitrary-node:"
NODE_NAME = "authentication.kubernetes.io/node-name"


class ClaimRights(Rule):
    step, covers = Step.CHECK_AUTHOR, {f"{PLURAL}.{GROUP}/status": (UPDATE,)}

    def concerns(self, change: Change) -> bool:
        return self.given.claim_rights

    def apply(self, change: Change) -> None:
        target, row = change.target, change.target.resource
        causes = claim_status_causes(self.given.authorizer, change.author, target, change.sent, change.old or {})
        if causes:
            raise invalid_object(row.kind, row.group, target.name, causes)


def claim_status_causes(authorizer: Authorizer, user: User, target: Target, new: Object, old: Object) -> list[Cause]:
    """Return a cause for each right that this change of a claim's status requires and the user lacks."""
    status, before = new.get("status") or {}, old.get("status") or {}
    return [
        *_binding_causes(authorizer, user, target, status, before),
        *_driver_causes(authorizer, user, target, status, before),
    ]


def _binding_causes(
    authorizer: Authorizer, user: User, target: Target, status: Object, before: Object
) -> Iterator[Cause]:
    if all((status.get(part) or None) == (before.get(part) or None) for part in ("allocation", "reservedFor")):
        return
    wanted = Attributes(target.verb, "", GROUP, PLURAL, BINDING)
    if not authorizer.allows(user, wanted):
        text = f'resource="resourceclaims/binding", verb="{target.verb}" permission: {denied(user, wanted)}'
        yield forbidden("status", f"changing status.allocation or status.reservedFor requires {text}")


def _driver_causes(
    authorizer: Authorizer, user: User, target: Target, status: Object, before: Object
) -> Iterator[Cause]:
    prefixes = (ASSOCIATED, ARBITRARY) if runs_on(user, allocated_node(status)) else (ARBITRARY,)
    verbs = [prefix + target.verb for prefix in prefixes]
    for driver in changed_drivers(status, before):
        wanted = [Attributes(verb, "", GROUP, PLURAL, DRIVER, target.namespace, driver) for verb in verbs]
        if not any(authorizer.allows(user, each) for each in wanted):
            text = f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission: {denied(user, wanted[0])}'
            yield forbidden("status.devices", f"changing status.devices requires {text}")


def changed_drivers(status: Object, before: Object) -> list[str]:
    """Return the drivers of entries in `devices` that are added, changed or removed, sorted."""
    found, known = _entries(status), _entries(before)
    gone = _allocated(before) - _allocated(status)
    changed = {key for key in found.keys() | known.keys() if found.get(key) != known.get(key)}
    return sorted({str(key[0]) for key in changed if not (key in gone and key not in found)})


def _entries(status: Object) -> dict[tuple[Any, ...], Object]:
    return {allocated_key(each): each for each in items(status, "devices")}


def _allocated(status: Object) -> set[tuple[Any, ...]]:
    return {allocated_key(each) for each in items(status, "allocation", "devices", "results")}


def allocated_node(status: Object) -> str:
    """Return the only node that the allocation selects by its name, or ""."""
    terms = items(status, "allocation", "nodeSelector", "nodeSelectorTerms")
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields = terms[0].get("matchFields") or []
    if len(fields) != 1 or (fields[0].get("key"), fields[0].get("operator")) != ("metadata.name", "In"):
        return ""
    values = fields[0].get("values") or []
    return str(values[0]) if len(values) == 1 else ""


def runs_on(user: User, node: str) -> bool:
    """Return True for a service account whose credential is bound to the node."""
    names = dict(user.extra).get(NODE_NAME, ())
    return names == (node,) and not subdomain_faults(node) and service_account_of(user.name) is not None
