"""The wiper with what it hears from the device manager."""

from collections.abc import Mapping

from actors.podworker.links.world import Watched
from actors.podworker.slices.wiper import SliceWiper, WiperOptions
from protocols.actor import Context
from protocols.kube.client import ApiClient
from protocols.messages import devices


class DriverSlices:
    def __init__(self, context: Context, client: ApiClient) -> None:
        self._context = context
        node = context.settings.node_name
        self._wiper = SliceWiper(WiperOptions(node=node, client=client, connected=self._connected))
        self._drivers = Watched[devices.DraDriver](lambda *_: self._wiper.wake(), self._wiper.wake)

    def start(self) -> None:
        sink, stream = self._drivers, devices.DRA_DRIVERS
        self._context.bus.follow(owner=devices.OWNER, stream=stream, sink=sink, type=devices.DraDriver)
        self._context.spawn(self._wiper.run(), "slices")

    def _connected(self) -> Mapping[str, bool] | None:
        """A device manager that is away has not said that its drivers are."""
        if not self._drivers.synced:
            return None
        return {name: driver.connected for name, driver in self._drivers.items.items()}
