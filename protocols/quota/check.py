"""The decision of admission: what a write charges to the quotas of its namespace, or why it is rejected. Pure."""

from collections.abc import Iterable

import msgspec

from protocols.errors import NodeplaneError
from protocols.kube.meta import Object, name_of
from protocols.quota.amounts import Amounts, exceeded, increase, listed, masked, parsed, shown, texts, total
from protocols.quota.evaluators import Evaluator


class QuotaExceeded(NodeplaneError, http=403, grpc="PERMISSION_DENIED"):
    """Raised with the reason why a quota rejects a write, in upstream's words."""


class Charge(msgspec.Struct, frozen=True):
    """A write that quotas count. `old` is the stored object of an update."""

    evaluator: Evaluator
    obj: Object
    old: Object | None = None

    def deltas(self, quotas: Iterable[Object]) -> dict[str, Amounts]:
        """Return what the write adds to each quota by its name. Raises QuotaExceeded if it may never be counted."""
        evaluator = self.evaluator
        applying = [quota for quota in quotas if evaluator.applies(quota, self.obj)]
        for quota in applying:
            _check_constraints(quota, evaluator, self.obj)
        if not applying:
            return {}
        usage = evaluator.usage(self.obj)
        if negative := [name for name, amount in usage.items() if amount.nanos < 0]:
            raise QuotaExceeded(f"quota usage is negative for resource(s): {listed(negative)}")
        grown = usage if self.old is None else increase(usage, evaluator.usage(self.old))
        by_quota = {}
        for quota in applying:
            counted = self.old is not None and evaluator.applies(quota, self.old)
            added = {name: amount for name, amount in (grown if counted else usage).items() if amount.nanos}
            if added:
                by_quota[name_of(quota)] = added
        return by_quota


def _check_constraints(quota: Object, evaluator: Evaluator, obj: Object) -> None:
    status = quota.get("status") or {}
    names = [name for name in status.get("hard") or {} if evaluator.covers(name)]
    if evaluator.missing is not None and (fault := evaluator.missing(obj, names)):
        raise QuotaExceeded(f"failed quota: {name_of(quota)}: {fault}")
    if any(name not in (status.get("used") or {}) for name in names):
        raise QuotaExceeded(f"status unknown for quota: {name_of(quota)}, resources: {listed(names)}")


def charged(quota: Object, delta: Amounts) -> Object:
    """Return the quota after a write that adds `delta`. Raises QuotaExceeded."""
    status = quota.get("status") or {}
    hard, used = parsed(status.get("hard")), parsed(status.get("used"))
    requested = masked(delta, hard.keys())
    new = total(used, requested)
    if over := exceeded(masked(new, requested.keys()), hard):
        parts = (name_of(quota), shown(masked(requested, over)), shown(masked(used, over)), shown(masked(hard, over)))
        raise QuotaExceeded("exceeded quota: {}, requested: {}, used: {}, limited: {}".format(*parts))
    return quota if new == used else {**quota, "status": {**status, "used": texts(new)}}
