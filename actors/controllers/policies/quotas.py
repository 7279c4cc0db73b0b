"""Quota controller: recalculate `status.used` of ResourceQuotas from the objects in their namespace.

Deletions are given back at once; charges of failed writes after the grace period of `in_flight`.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from actors.controllers.common.informers import ChangeHandler
from actors.controllers.policies.in_flight import InFlightCharges, corrected
from protocols.kinds.table import RESOURCEQUOTAS
from protocols.kube.errors import suppress_status
from protocols.kube.meta import Object, key_of, name_of, namespace_of, terminating, version_of
from protocols.kube.quantity import ZERO
from protocols.kubeclient.client import ApiClient, ApiError
from protocols.kubeclient.informer import Informer
from protocols.kubeclient.workqueue import Key, WorkQueue
from protocols.quota.amounts import Amounts, increase, masked, parsed, texts, total
from protocols.quota.evaluators import evaluator_of, resources_of

QUOTA = "quota"
INTERVAL_S = 0.2
"""Shortest time between two passes over a quota."""
RESYNC_S = 300.0
UNSYNCED_S = 1.0


class Used(msgspec.Struct):
    """Usage of the objects of one resource in one namespace, by name."""

    by_name: dict[str, tuple[Object, Amounts]] = msgspec.field(default_factory=dict)


class QuotaController:
    """Follow quotas. `source` returns the informer of a resource by its full name; None if it is not served.

    Memory is bounded by the objects in namespaces that have quotas.
    """

    def __init__(
        self,
        client: ApiClient,
        log: logging.Logger,
        source: Callable[[str], Informer | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._source, self._clock = client, source, clock
        self._work = WorkQueue(self._step, log)
        self._wanted: dict[str, dict[str, frozenset[str]]] = {}
        """Namespace -> quota key -> full names of the resources it limits."""
        self._used: dict[tuple[str, str], Used] = {}
        """By resource and namespace, made at the first pass that needs it."""
        self._in_flight: dict[str, InFlightCharges] = {}
        self._mine: dict[str, Amounts] = {}
        """Quota key -> usage of our last write, whose event may come before its answer."""
        self._passed: dict[str, float] = {}
        self._adopted: set[str] = set()
        """Keys of quotas that had a pass."""
        self.items: Mapping[str, Object] = {}
        """The quotas, by key."""

    async def run(self) -> None:
        await self._work.run()

    # quotas

    def on_add(self, quota: Object) -> None:
        key = key_of(quota)
        wanted = frozenset(resources_of((quota.get("spec") or {}).get("hard") or {}))
        self._wanted.setdefault(namespace_of(quota), {})[key] = wanted
        self._in_flight.setdefault(key, InFlightCharges())
        self._work.put((QUOTA, key))

    def on_update(self, old: Object, new: Object) -> None:
        key = key_of(new)
        before, after = (parsed((quota.get("status") or {}).get("used")) for quota in (old, new))
        if self._mine.get(key) != after:
            self._in_flight[key].charged(increase(after, before), self._clock())
        self.on_add(new)

    def on_delete(self, quota: Object) -> None:
        key, namespace = key_of(quota), namespace_of(quota)
        held = self._wanted.get(namespace, {})
        for known in (held, self._in_flight, self._mine, self._passed):
            known.pop(key, None)
        self._adopted.discard(key)
        self._work.cancel_timer((QUOTA, key))
        if not held:
            self._wanted.pop(namespace, None)
        needed = {resource for wanted in held.values() for resource in wanted}
        for pair in [pair for pair in self._used if pair[1] == namespace and pair[0] not in needed]:
            del self._used[pair]

    # objects

    def handler(self, resource: str) -> ChangeHandler:
        return ChangeHandler(partial(self._changed, resource), partial(self._gone, resource))

    def _changed(self, resource: str, obj: Object) -> None:
        namespace = namespace_of(obj)
        if namespace not in self._wanted:
            return
        used = self._used.get((resource, namespace))
        if used is None:
            return
        evaluator, name = evaluator_of(resource), name_of(obj)
        before, after = used.by_name.get(name), evaluator.usage(obj)
        used.by_name[name] = (obj, after)
        grown = after if before is None else increase(after, before[1])
        for key in self._quotas_of(namespace, resource):
            if grown and evaluator.in_scope(self.items.get(key) or {}, obj):
                self._in_flight[key].stored(grown, self._clock())
            if before is None or before[1] != after:
                self._work.put((QUOTA, key))

    def _gone(self, resource: str, obj: Object) -> None:
        used = self._used.get((resource, namespace_of(obj)))
        if used is not None and used.by_name.pop(name_of(obj), None) is not None:
            self._work.put(*((QUOTA, key) for key in self._quotas_of(namespace_of(obj), resource)))

    def _quotas_of(self, namespace: str, resource: str) -> list[str]:
        return [key for key, wanted in self._wanted.get(namespace, {}).items() if resource in wanted]

    # passes

    async def _step(self, work: Key) -> None:
        key, now = work[1], self._clock()
        quota = self.items.get(key)
        if quota is None or key not in self._in_flight:
            return
        if (left := self._passed.get(key, -INTERVAL_S) + INTERVAL_S - now) > 0:
            self._work.put_later(work, left)
            return
        wanted = sorted(self._wanted[namespace_of(quota)][key])
        sources = {resource: self._source(resource) for resource in wanted}
        served = {
            name: source for name, source in sources.items() if source is not None and not source.unserved.is_set()
        }
        if not all(informer.synced and not informer.failure for informer in served.values()):
            self._work.put_later(work, UNSYNCED_S)  # what a broken watch hides must not be given back
            return
        self._passed[key] = now
        counted, charges = self._count(quota, served), self._in_flight[key]
        self._adopt(key, quota, counted)
        outstanding = charges.outstanding(now)
        await self._publish(quota, corrected(parsed((quota.get("status") or {}).get("used")), counted, outstanding))
        expiry = charges.next_expiry() if outstanding else None
        self._work.put_later(work, RESYNC_S if expiry is None else max(INTERVAL_S, expiry - now))

    def _adopt(self, key: str, quota: Object, counted: Amounts) -> None:
        """Count the excess of `status.used` over the quota's objects as charges in flight, at the first pass only.

        After a start nothing else is known of charges whose objects are not seen yet.
        """
        if key not in self._adopted:
            self._adopted.add(key)
            used = parsed((quota.get("status") or {}).get("used"))
            self._in_flight[key].charged(masked(increase(used, counted), counted.keys()), self._clock())

    def _count(self, quota: Object, sources: Mapping[str, Informer]) -> Amounts:
        hard = (quota.get("spec") or {}).get("hard") or {}
        result: Amounts = {}
        for resource, informer in sources.items():
            evaluator = evaluator_of(resource)
            objects = self._objects(resource, namespace_of(quota), informer)
            sums = total(*(amounts for obj, amounts in objects if evaluator.in_scope(quota, obj)))
            result.update({name: sums.get(name, ZERO) for name in hard if evaluator.covers(name)})
        return masked(result, hard.keys())

    def _objects(self, resource: str, namespace: str, informer: Informer) -> Iterator[tuple[Object, Amounts]]:
        """Yield each object with its usage. That of a pod that is being deleted ends with time, without an event."""
        used, usage = self._used.get((resource, namespace)), evaluator_of(resource).usage
        if used is None:
            prefix = f"{namespace}/"
            by_name = {name_of(o): (o, usage(o)) for key, o in informer.items.items() if key.startswith(prefix)}
            used = self._used[resource, namespace] = Used(by_name)
        for obj, amounts in used.by_name.values():
            yield obj, usage(obj) if terminating(obj) else amounts

    async def _publish(self, quota: Object, used: Amounts) -> None:
        """Write the status at the revision it was calculated for, if it changed. Raises ApiError."""
        hard, status = (quota.get("spec") or {}).get("hard") or {}, quota.get("status") or {}
        if (status.get("hard") or {}) == hard and parsed(status.get("used")) == used:
            return
        body = {
            "metadata": {"resourceVersion": version_of(quota)},
            "status": {
                "hard": _replacing(status.get("hard"), hard),
                "used": _replacing(status.get("used"), texts(used)),
            },
        }
        self._mine[key_of(quota)] = used
        try:
            with suppress_status(404):
                await self._client.patch(
                    RESOURCEQUOTAS, name_of(quota), namespace_of(quota), body, subresource="status"
                )
        except ApiError as error:
            if error.code == 409:  # not written: an event with this usage shows a charge
                self._mine.pop(key_of(quota), None)
            raise


def _replacing(old: Any, new: Mapping[str, str]) -> dict[str, str | None]:
    """Return a merge patch that turns a map into another."""
    return {**{name: None for name in old or {} if name not in new}, **new}
