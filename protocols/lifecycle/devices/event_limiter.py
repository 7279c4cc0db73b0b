"""Decide which device health transitions become Kubernetes events, and when.

Pure: callers pass the current time in seconds.

- Healthy and Unhealthy are reported at once. Unknown is reported only after UNKNOWN_HOLD_S, because a restart of the
  device manager makes every device Unknown for a moment.
- The first observation of a Healthy device is its baseline, not a transition.
- Devices of one pod that change in the same way share one event.
- Token buckets bound the rate: per pod POD_BURST events, then one per POD_REFILL_S; per node NODE_BURST events, then
  NODE_RATE events a second.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from enum import StrEnum

import msgspec

from protocols.messages import devices
from protocols.messages.health import may_be_drivers
from protocols.process.rates import TokenBucket
from protocols.process.texts import listed

UNKNOWN_HOLD_S = 2.0
FIRST_UNKNOWN_HOLD_S = 15.0
"""Hold for a device that was never seen in another state: plugins need some seconds to register after a start."""
POD_BURST, POD_REFILL_S = 6, 10.0
NODE_BURST, NODE_RATE = 100, 10.0
MAX_NAMED_DEVICES = 8
"""Devices listed by id in one event; further devices are only counted."""


class Health(StrEnum):
    """Health of a device, in the words of the device plugin API and of DRA."""

    HEALTHY = devices.HEALTHY
    UNHEALTHY = devices.UNHEALTHY
    UNKNOWN = devices.UNKNOWN


EVENT_TYPES = {
    Health.UNHEALTHY: ("Warning", "DeviceUnhealthy"),
    Health.UNKNOWN: ("Warning", "DeviceHealthUnknown"),
    Health.HEALTHY: ("Normal", "DeviceHealthy"),
}
"""Event type and reason of each state."""


class AllocatedDevice(msgspec.Struct, frozen=True):
    """One device in one container of one pod. `container` is empty for devices of pod-level claims."""

    uid: str
    container: str
    resource: str
    id: str


class HealthEvent(msgspec.Struct, frozen=True):
    """An event to record about the pod `uid`."""

    uid: str
    container: str
    type: str
    reason: str
    message: str


class _Transition(msgspec.Struct, frozen=True):
    """Fields that devices must have in common to share an event."""

    container: str
    resource: str
    health: Health
    message: str


class _DeviceState(msgspec.Struct):
    health: Health
    message: str
    reported: Health
    due: float


class _PodState(msgspec.Struct):
    bucket: TokenBucket
    devices: dict[AllocatedDevice, _DeviceState] = msgspec.field(default_factory=dict)
    pending: set[AllocatedDevice] = msgspec.field(default_factory=set)

    def next_due(self, now: float) -> float:
        """Return when this pod's next event is due, ignoring the node's rate. The pod must have pending devices."""
        return max(self.bucket.ready(now), min(self.devices[device].due for device in self.pending))


class HealthEventLimiter:
    """Pending and reported health of every allocated device.

    Memory is bounded by the number of allocated devices; call `forget` when a pod releases them.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _PodState] = {}
        self._node_bucket = TokenBucket(NODE_RATE, NODE_BURST, NODE_BURST, 0.0)
        self._pending_pods: dict[str, None] = {}
        """Pods with pending devices, in the order in which they are served."""

    def __len__(self) -> int:
        """Return the number of observed devices."""
        return sum(len(pod.devices) for pod in self._pods.values())

    def observe(
        self, device: AllocatedDevice, health: Health, message: str, now: float, *, pod_finished: bool = False
    ) -> None:
        """Record the health of a device.

        With `pod_finished`, the first observation is not reported: the transition was reported while the pod ran.
        """
        if _never_reported(device, health, message) and device not in self._observed(device.uid):
            return
        pod = self._pods.setdefault(device.uid, _PodState(TokenBucket(1 / POD_REFILL_S, POD_BURST, POD_BURST, now)))
        state = pod.devices.get(device)
        if state is None:
            hold = FIRST_UNKNOWN_HOLD_S if health == Health.UNKNOWN else 0.0
            reported = health if pod_finished else Health.HEALTHY
            state = pod.devices[device] = _DeviceState(health, message, reported=reported, due=now + hold)
        elif state.health != health:
            state.health, state.due = health, now + (UNKNOWN_HOLD_S if health == Health.UNKNOWN else 0.0)
        state.message = message
        if state.health != state.reported:
            pod.pending.add(device)
            self._pending_pods.setdefault(device.uid)
        else:
            self._drop_pending(device.uid, pod, (device,))

    def forget(self, uid: str, kept: frozenset[AllocatedDevice] = frozenset()) -> None:
        """Drop the devices of a pod, except `kept`."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        released = [device for device in pod.devices if device not in kept]
        for device in released:
            del pod.devices[device]
        self._drop_pending(uid, pod, released)
        if not pod.devices:
            del self._pods[uid]

    def due(self, now: float) -> list[HealthEvent]:
        """Return the events to record now and mark their transitions as reported.

        A pod that still has pending devices afterwards queues behind the pods that wait.
        """
        events: list[HealthEvent] = []
        for uid in list(self._pending_pods):
            pod = self._pods[uid]
            while pod.pending and pod.next_due(now) <= now and self._node_bucket.ready(now) <= now:
                events.append(self._take_event(uid, pod, now))
                self._pending_pods.pop(uid, None)
                if pod.pending:
                    self._pending_pods[uid] = None
        return events

    def next_due(self, now: float) -> float | None:
        """Return when `due` will have an event, or None if no device is pending."""
        first = min((self._pods[uid].next_due(now) for uid in self._pending_pods), default=None)
        return None if first is None else max(first, self._node_bucket.ready(now))

    def _observed(self, uid: str) -> Collection[AllocatedDevice]:
        return self._pods[uid].devices if uid in self._pods else ()

    def _drop_pending(self, uid: str, pod: _PodState, devices: Iterable[AllocatedDevice]) -> None:
        pod.pending.difference_update(devices)
        if not pod.pending:
            self._pending_pods.pop(uid, None)

    def _take_event(self, uid: str, pod: _PodState, now: float) -> HealthEvent:
        """Return one event for the first due device, by name, and all devices with the same transition."""
        groups: dict[_Transition, list[AllocatedDevice]] = defaultdict(list)
        due = sorted((device for device in pod.pending if pod.devices[device].due <= now), key=_sort_key)
        for device in due:
            groups[_transition(device, pod.devices[device])].append(device)
        transition, alike = next(iter(groups.items()))
        for device in alike:
            pod.devices[device].reported = transition.health
            pod.pending.discard(device)
        pod.bucket.take(now)
        self._node_bucket.take(now)
        event_type, reason = EVENT_TYPES[transition.health]
        return HealthEvent(
            uid, transition.container, event_type, reason, _message(transition, [device.id for device in alike])
        )


def _never_reported(device: AllocatedDevice, health: Health, message: str) -> bool:
    # Health reporting is optional for DRA drivers and most do not implement it, so their devices stay Unknown. That is
    # no reason for a warning. Device plugins always report health.
    return health == Health.UNKNOWN and not message and may_be_drivers(device.resource, device.id)


def _transition(device: AllocatedDevice, state: _DeviceState) -> _Transition:
    return _Transition(device.container, device.resource, state.health, state.message)


def _message(transition: _Transition, ids: list[str]) -> str:
    many = len(ids) > 1
    where = f" in container {transition.container}" if transition.container else ""
    devices = f"evice{'s' * many} {listed(ids, MAX_NAMED_DEVICES)} of {transition.resource}{where}"
    if transition.health == Health.UNKNOWN:
        text = f"Health of d{devices} is unknown"
    else:
        text = f"D{devices} {'are' if many else 'is'} {transition.health}"
    return f"{text}: {transition.message}" if transition.message else text


def _sort_key(device: AllocatedDevice) -> tuple[str, ...]:
    return device.container, device.resource, device.id
