"""What health listens to: who holds which devices, who held them when it ended, and how the devices are."""

from collections import ChainMap
from collections.abc import Callable
from typing import Any

from protocols.bus import Bus, Following, Op, Replica
from protocols.messages import devices, podworker
from protocols.messages.devices import DeviceHealth, PodAllocation
from protocols.messages.held import PodHeld, held_by
from protocols.messages.podworker import EndedPod


class Sources:
    """`held` and `health` are always what the streams have told so far. `on_held(uid)`, `on_health(key)` tell of it."""

    def __init__(self, on_held: Callable[[str], None], on_health: Callable[[str], None]) -> None:
        self._on_held = on_held
        self._allocations = Replica[PodAllocation](self._on_allocation)
        self._ended = Replica[EndedPod](self._on_ended)
        self._plugins = Replica[DeviceHealth](lambda op, key, new, old: on_health(key))
        self._drivers = Replica[DeviceHealth](lambda op, key, new, old: on_health(key))
        self.held: dict[str, PodHeld] = {}
        self.health = ChainMap(self._plugins.items, self._drivers.items)
        self._following: list[Following[Any]] = []

    def follow(self, bus: Bus) -> None:
        given, kind = self._allocations, DeviceHealth
        self._following = [
            bus.follow(owner=devices.OWNER, stream=devices.HEALTH, sink=self._plugins, type=kind),
            bus.follow(owner=devices.OWNER, stream=devices.DRA_HEALTH, sink=self._drivers, type=kind),
            bus.follow(owner=devices.OWNER, stream=devices.ALLOCATIONS, sink=given, type=PodAllocation),
            bus.follow(owner=podworker.OWNER, stream=podworker.ENDED_PODS, sink=self._ended, type=EndedPod),
        ]

    async def wait_synced(self, seconds: float) -> None:
        """Every stream has told its whole state. Raises BusError when that takes longer."""
        while not all(following.synced for following in self._following):
            for following in self._following:
                await following.wait_synced(seconds)

    def pod(self, uid: str) -> PodAllocation | EndedPod | None:
        """Whose uid it is."""
        return self._ended.items.get(uid) or self._allocations.items.get(uid)

    def ended(self, uid: str) -> bool:
        return uid in self._ended.items

    def field_path(self, uid: str, container: str) -> str:
        held = self.held.get(uid, PodHeld())
        if not container:
            return ""
        sidecar = any(one.sidecar for one in held.containers if one.name == container)
        return f"spec.{'initContainers' if sidecar else 'containers'}{{{container}}}"

    def _on_allocation(self, op: Op, uid: str, new: PodAllocation | None, old: PodAllocation | None) -> None:
        self._renew(uid)

    def _on_ended(self, op: Op, uid: str, new: EndedPod | None, old: EndedPod | None) -> None:
        self._renew(uid)

    def _renew(self, uid: str) -> None:
        """What a pod held when it ended counts for more than what is left to it."""
        ended, allocation = self._ended.items.get(uid), self._allocations.items.get(uid)
        held = ended.held if ended is not None else held_by(allocation) if allocation is not None else PodHeld()
        if held == self.held.get(uid, PodHeld()):
            return
        if held:
            self.held[uid] = held
        else:
            del self.held[uid]
        self._on_held(uid)
