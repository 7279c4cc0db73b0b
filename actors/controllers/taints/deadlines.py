"""Which taints a device in use has, and since when its users must go. Pure.

Drivers' taints and patches' count while the device is published; a rule counts by name, also for a device that is gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from protocols.dra.allocator import Catalog
from protocols.dra.pods import allocation_of, owned_by, reserved_for, results_of
from protocols.dra.tolerations import Toleration, seconds_borne
from protocols.dra.types import NO_EXECUTE, DeviceId, Filter, Rule, Taint
from protocols.kube.errors import TimeInvalid
from protocols.kube.meta import Object, uid_of
from protocols.kube.times import parse_time


class Deadline(NamedTuple):
    """When a pod has to go, and for whose sake."""

    at: float
    """Seconds since the epoch."""
    rules: frozenset[str]
    """Names of all rules that drive it off, at whatever time."""


def device_ids(claim: Object) -> list[tuple[DeviceId, tuple[Toleration, ...]]]:
    """Devices of its allocation, each with the tolerations it was given with."""
    return [
        (DeviceId(str(each.get("driver")), str(each.get("pool")), str(each.get("device"))), tolerations(each))
        for each in results_of(claim)
    ]


def tolerations(result: Mapping[str, object]) -> tuple[Toleration, ...]:
    found = result.get("tolerations")
    return tuple(each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()


def selects(rule: Rule, device: DeviceId) -> bool:
    return rule.selector is not None and named(rule.selector, device)


def named(selector: Filter, device: DeviceId) -> bool:
    """A selector that names nothing means every device."""
    wanted = (selector.driver, selector.pool, selector.device)
    return all(want is None or want == have for want, have in zip(wanted, device, strict=True))


class Causes:
    def __init__(self, catalog: Catalog, rules: Mapping[str, Rule]) -> None:
        """`catalog`: slices as patched, without what rules add to them."""
        self._catalog, self._rules = catalog, rules

    def deadline(self, pod: Object, claims: Iterable[tuple[Object, bool]], now: float) -> Deadline | None:
        """The earliest of all its claims' devices; None = it may stay. With each claim: whether it was made for the
        pod, and so must be its own."""
        found = [each for claim, made in claims if _uses(pod, claim, made) for each in self._of_claim(claim, now)]
        if not found:
            return None
        return Deadline(min(at for at, _ in found), frozenset(rule for _, rule in found if rule))

    def _of_claim(self, claim: Object, now: float) -> Iterator[tuple[float, str]]:
        for device, tolerated in device_ids(claim):
            for taint, rule in self._taints(device):
                borne = seconds_borne(taint, tolerated)
                if borne is not None:
                    yield _since(taint, now) + borne, rule

    def _taints(self, device: DeviceId) -> Iterator[tuple[Taint, str]]:
        """Each with the rule that gave it; empty for a driver's or a patch's."""
        offer = self._catalog.offer(device)
        for taint in offer.device.taints if offer else ():
            yield taint, ""
        for rule in self._rules.values():
            if selects(rule, device):
                yield rule.taint, rule.name

    def published(self, rule: Rule) -> int:
        """Devices that a rule selects."""
        return sum(selects(rule, offer.id) for offer in self._catalog.offers())

    def if_executed(self, rule: Rule, claim: Object) -> bool:
        """Whether a rule without effect would drive the claim's users off if it had one."""
        taint = Taint(rule.taint.key, rule.taint.value, NO_EXECUTE)
        return any(
            selects(rule, device) and seconds_borne(taint, tolerated) is not None
            for device, tolerated in device_ids(claim)
        )


def _uses(pod: Object, claim: Object, made: bool) -> bool:
    if allocation_of(claim) is None or not reserved_for(claim, uid_of(pod)):
        return False
    return not made or owned_by(claim, pod)


def _since(taint: Taint, now: float) -> float:
    """The API gives every taint a time; one without it counts from now."""
    try:
        return parse_time(taint.added)
    except TimeInvalid:
        return now
