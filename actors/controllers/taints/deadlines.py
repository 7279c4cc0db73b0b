"""Compute when a pod must be evicted, from the taints of its devices and the tolerations of its claims. Pure.

Taints of drivers and ResourceSlicePatches apply while the device is published. A DeviceTaintRule selects devices by
name, so it also applies to a device that is no longer published.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from protocols.dra.allocator.catalog import Catalog
from protocols.dra.patching.types import Known
from protocols.dra.pods import allocation_of, device_of, is_owned_by, is_reserved_for, results_of
from protocols.dra.types import DeviceId, Filter, TaintRule
from protocols.kinds import views
from protocols.kube.meta import uid_of
from protocols.kube.taints import NO_EXECUTE, Taint, Toleration, device_seconds_tolerated, taint_text
from protocols.kube.times import time_or


class Deadline(NamedTuple):
    """Time at which a pod must be evicted, and the rules that cause it."""

    at: float
    """Seconds since the epoch."""
    rules: frozenset[str]
    """Names of all rules that evict the pod, at whatever time."""
    cause: Mapping[str, str]
    """Taint and device of the earliest deadline, and the rule, or the patch with its priority, that adds the taint."""


def device_ids(claim: views.ResourceClaim) -> list[tuple[DeviceId, tuple[Toleration, ...]]]:
    """Return the devices of the claim's allocation, each with its tolerations."""
    return [(device_of(result), _tolerations(result)) for result in results_of(claim)]


def _tolerations(result: Mapping[str, object]) -> tuple[Toleration, ...]:
    tolerations = result.get("tolerations")
    return (
        tuple(toleration for toleration in tolerations if isinstance(toleration, dict))
        if isinstance(tolerations, list)
        else ()
    )


def selects(rule: TaintRule, device: DeviceId) -> bool:
    """Return True if the rule names the device; one without a selector selects none."""
    return rule.selector is not None and named(rule.selector, device)


def named(selector: Filter, device: DeviceId) -> bool:
    """Return True if the selector matches; an empty selector matches every device."""
    wanted = (selector.driver, selector.pool, selector.device)
    return all(want is None or want == have for want, have in zip(wanted, device, strict=True))


class EvictionDeadlines:
    """Computes deadlines from slices and rules as they are now."""

    def __init__(self, catalog: Catalog, rules: Mapping[str, TaintRule]) -> None:
        # The catalog holds slices as patched, without the taints that rules add.
        self._catalog, self._rules = catalog, rules
        self.patches: Mapping[str, Known] = {}
        """By name."""

    def deadline(
        self, pod: views.Pod, claims: Iterable[tuple[views.ResourceClaim, bool]], now: float
    ) -> Deadline | None:
        """Return the earliest deadline of all devices of the pod's claims; None if it may stay.

        Each claim comes with a flag: True if it was generated for this pod, which must then own it.
        """
        deadlines = [each for claim, made in claims if _uses(pod, claim, made) for each in self._of_claim(claim, now)]
        if not deadlines:
            return None
        at, cause = min(deadlines, key=lambda each: each[0])
        return Deadline(at, frozenset(each["rule"] for _, each in deadlines if "rule" in each), cause)

    def _of_claim(self, claim: views.ResourceClaim, now: float) -> Iterator[tuple[float, dict[str, str]]]:
        for device, tolerated in device_ids(claim):
            for taint, rule in self._taints(device):
                borne = device_seconds_tolerated(taint, tolerated)
                if borne is not None:
                    cause = {"taint": taint_text(taint), "device": str(device)}
                    source = {"rule": rule} if rule else self._publisher(taint, device)
                    yield _since(taint, now) + borne, {**cause, **source}

    def _taints(self, device: DeviceId) -> Iterator[tuple[Taint, str]]:
        """Yield each taint with the name of its rule, empty for taints of drivers and patches."""
        published = self._catalog.device(device)
        for taint in published.spec.taints if published else ():
            yield taint, ""
        for rule in self._rules.values():
            if selects(rule, device):
                yield rule.taint, rule.name

    def _publisher(self, taint: Taint, device: DeviceId) -> dict[str, str]:
        """Return the patch that adds a taint, the best of several, or the driver that publishes it."""
        known = (patch for patch in self.patches.values() if taint in patch.patch.taints)
        best = min(
            (each for each in known if named(each.patch.filter, device)), key=lambda each: each.rank, default=None
        )
        return {"patch": best.patch.name, "priority": str(best.patch.priority)} if best else {"driver": device.driver}

    def published(self, rule: TaintRule) -> int:
        """Count the published devices that a rule selects."""
        return sum(selects(rule, device.id) for device in self._catalog.devices())

    def if_executed(self, rule: TaintRule, claim: views.ResourceClaim) -> bool:
        """Return True if a rule with effect None would evict the claim's pods with effect NoExecute."""
        taint = Taint(rule.taint.key, rule.taint.value, NO_EXECUTE)
        return any(
            selects(rule, device) and device_seconds_tolerated(taint, tolerated) is not None
            for device, tolerated in device_ids(claim)
        )


def _uses(pod: views.Pod, claim: views.ResourceClaim, made: bool) -> bool:
    if allocation_of(claim) is None or not is_reserved_for(claim, uid_of(pod)):
        return False
    return not made or is_owned_by(claim, pod)


def _since(taint: Taint, now: float) -> float:
    """Return when the taint was added; a taint without a valid time counts from now."""
    return time_or(taint.added, now)
