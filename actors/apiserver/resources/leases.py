"""Leases. A PUT may create one, and must name the resourceVersion that it replaces."""

from actors.apiserver.api.causes import Cause, invalid
from actors.apiserver.api.objects import Obj, at
from actors.apiserver.api.resource import Column, Resource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME, cell


class LeaseStrategy(Strategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        duration = at(obj, "spec", "leaseDurationSeconds")
        transitions = at(obj, "spec", "leaseTransitions")
        causes = []
        if duration is not None and (not _is_int(duration) or duration <= 0):
            causes.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and (not _is_int(transitions) or transitions < 0):
            causes.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return causes


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


LEASES = Resource(
    group="coordination.k8s.io",
    version="v1",
    plural="leases",
    singular="lease",
    kind="Lease",
    namespaced=True,
    strategy=LeaseStrategy(),
    columns=(NAME, Column("Holder", cell("spec", "holderIdentity")), AGE),
    create_on_update=True,
    versioned_update=True,
)
