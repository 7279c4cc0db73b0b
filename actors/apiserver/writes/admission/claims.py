"""Rights to parts of a ResourceClaim's status, beside the one to `resourceclaims/status` (KEP-4817).

- `allocation` and `reservedFor` require `resourceclaims/binding` in the whole cluster.
- `devices` require `resourceclaims/driver` for the name of each driver whose entries change: with the verb prefix
  `associated-node:` for service accounts whose token is bound to the only node of the allocation, else with
  `arbitrary-node:`. Entries of devices that the same write deallocates belong to the allocation.
"""

from collections.abc import Iterator
from typing import Any

from actors.apiserver.api.errors import invalid_object
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import NODE_NAME, User, service_account_of
from actors.apiserver.authorization.authorizer import denied
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


class ClaimRights(Rule):
    """Check the rights to parts of a claim's status; off with its feature gate."""

    step, covers = Step.CHECK_AUTHOR, {f"{PLURAL}.{GROUP}/status": (UPDATE,)}

    def concerns(self, change: Change) -> bool:
        return self.given.claim_rights

    def apply(self, change: Change) -> None:
        """Raise Invalid with a cause for each right that the change requires and its author lacks."""
        row = change.target.resource
        status, before = (claim.get("status") or {} for claim in (change.sent, change.old or {}))
        causes = [*self._binding_causes(change, status, before), *self._driver_causes(change, status, before)]
        if causes:
            raise invalid_object(row.kind, row.group, change.target.name, causes)

    def _binding_causes(self, change: Change, status: Object, before: Object) -> Iterator[Cause]:
        if all((status.get(part) or None) == (before.get(part) or None) for part in ("allocation", "reservedFor")):
            return
        user, verb = change.author, change.target.verb
        wanted = Attributes(verb, "", GROUP, PLURAL, BINDING)
        if not self.given.authorizer.allows(user, wanted):
            text = f'resource="resourceclaims/binding", verb="{verb}" permission: {denied(user, wanted)}'
            yield forbidden("status", f"changing status.allocation or status.reservedFor requires {text}")

    def _driver_causes(self, change: Change, status: Object, before: Object) -> Iterator[Cause]:
        user, space, rights = change.author, change.target.namespace, self.given.authorizer
        prefixes = (ASSOCIATED, ARBITRARY) if runs_on(user, allocated_node(status)) else (ARBITRARY,)
        verbs = [prefix + change.target.verb for prefix in prefixes]
        for driver in changed_drivers(status, before):
            wanted = [Attributes(verb, "", GROUP, PLURAL, DRIVER, space, driver) for verb in verbs]
            if not any(rights.allows(user, attributes) for attributes in wanted):
                listed, why = " ".join(verbs), denied(user, wanted[0])
                text = f'resource="resourceclaims/driver", verb="[{listed}]" permission: {why}'
                yield forbidden("status.devices", f"changing status.devices requires {text}")


def changed_drivers(status: Object, before: Object) -> list[str]:
    """Return the drivers of entries in `devices` that are added, changed or removed, sorted."""
    entries, known = _entries(status), _entries(before)
    gone = _allocated(before) - _allocated(status)
    changed = {key for key in entries.keys() | known.keys() if entries.get(key) != known.get(key)}
    return sorted({str(key[0]) for key in changed if not (key in gone and key not in entries)})


def _entries(status: Object) -> dict[tuple[Any, ...], Object]:
    return {allocated_key(device): device for device in items(status, "devices")}


def _allocated(status: Object) -> set[tuple[Any, ...]]:
    return {allocated_key(result) for result in items(status, "allocation", "devices", "results")}


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
