"""Follow the streams that health is computed from: allocations, initializing and finished pods, device health."""

from collections import ChainMap
from collections.abc import Callable
from typing import Any

from protocols.bus import Bus, Following, Replica
from protocols.messages import devices, podworker
from protocols.messages.devices import DeviceHealth, PodAllocation
from protocols.messages.health import PodHeld, held_by
from protocols.messages.podworker import EndedPod, InitializingPod


class InputStreams:
    """Replicas of the followed streams, joined by pod.

    Attributes:
        held: Devices held by each pod, by pod uid. Pods that hold nothing are absent.
        health: Health reports of device plugins and DRA drivers, by `health_key`.
    """

    def __init__(
        self,
        on_held_changed: Callable[[str], None],
        on_health_changed: Callable[[str], None],
        *,
        claims_by_request: bool = True,
    ) -> None:
        """Call `on_held_changed(pod_uid)` and `on_health_changed(health_key)` after each change."""
        self._claims_by_request = claims_by_request
        self._on_held_changed = on_held_changed
        self._allocations = Replica[PodAllocation](lambda op, uid, new, old: self._update_held(uid))
        self._ended_pods = Replica[EndedPod](lambda op, uid, new, old: self._update_held(uid))
        self._initializing = Replica[InitializingPod](lambda op, uid, new, old: self._update_held(uid))
        self._plugin_health = Replica[DeviceHealth](lambda op, key, new, old: on_health_changed(key))
        self._driver_health = Replica[DeviceHealth](lambda op, key, new, old: on_health_changed(key))
        self.held: dict[str, PodHeld] = {}
        self.health = ChainMap(self._plugin_health.items, self._driver_health.items)
        self._followings: list[Following[Any]] = []

    def follow(self, bus: Bus) -> None:
        owner, initializing = podworker.OWNER, podworker.INITIALIZING_PODS
        self._followings = [
            bus.follow(owner=devices.OWNER, stream=devices.HEALTH, sink=self._plugin_health, type=DeviceHealth),
            bus.follow(owner=devices.OWNER, stream=devices.DRA_HEALTH, sink=self._driver_health, type=DeviceHealth),
            bus.follow(owner=devices.OWNER, stream=devices.ALLOCATIONS, sink=self._allocations, type=PodAllocation),
            bus.follow(owner=owner, stream=podworker.ENDED_PODS, sink=self._ended_pods, type=EndedPod),
            bus.follow(owner=owner, stream=initializing, sink=self._initializing, type=InitializingPod),
        ]

    async def wait_synced(self, timeout_s: float) -> None:
        """Wait until every stream has delivered its whole state.

        Raises:
            BusError: One stream did not sync within `timeout_s`.
        """
        # A stream may lose its sync while the next one is awaited, hence the outer loop.
        while not all(following.synced for following in self._followings):
            for following in self._followings:
                await following.wait_synced(timeout_s)

    def pod(self, uid: str) -> PodAllocation | EndedPod | None:
        return self._ended_pods.items.get(uid) or self._allocations.items.get(uid)

    def pod_finished(self, uid: str) -> bool:
        return uid in self._ended_pods.items

    def field_path(self, uid: str, container: str) -> str:
        """Return the `involvedObject.fieldPath` of a container, or "" for the pod itself."""
        return self.held.get(uid, PodHeld()).field_path(container)

    def _held(self, uid: str) -> PodHeld:
        # What a pod held when it finished wins over its allocation, which is being released by then.
        if (ended := self._ended_pods.items.get(uid)) is not None:
            return ended.held
        if (allocation := self._allocations.items.get(uid)) is None:
            return PodHeld()
        initializing = self._initializing.items.get(uid)
        names = initializing.containers if initializing is not None else ()
        return held_by(allocation, names, by_request=self._claims_by_request)

    def _update_held(self, uid: str) -> None:
        held = self._held(uid)
        if held == self.held.get(uid, PodHeld()):
            return
        if held:
            self.held[uid] = held
        else:
            del self.held[uid]
        self._on_held_changed(uid)
