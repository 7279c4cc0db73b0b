"""All that the console knows of one plane."""

import time
from collections.abc import Callable

from protocols.recording.samples import SERVER
from supervisor.console.model.devices import DeviceReplicas
from supervisor.console.model.metrics import Page
from supervisor.console.model.plane import House
from supervisor.console.model.pleg import Pleg
from supervisor.console.model.pods import PodReplicas
from supervisor.console.model.timeline import Timeline
from supervisor.console.model.watch import WatchPage

STORE_REVISION = "nodeplane_store_revision"


class World:
    """State by screen. `version` grows with every change, so that an idle plane costs no drawing."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns the Unix time of the shown state: now, or a time of a recording."""
        self.now = clock
        self.house = House()
        self.devices = DeviceReplicas()
        self.pods = PodReplicas()
        self.watch = WatchPage()
        self.pleg = Pleg()
        self.timeline = Timeline()
        self.version = 0

    def changed(self) -> None:
        self.version += 1

    def measured(self, instance: str, page: Page, now: float) -> None:
        """Update all models that read this process's metrics."""
        if instance.startswith(SERVER):
            self.watch.server_measured(instance, page)
            self.timeline.server_measured(instance, page, now)
            return
        self.timeline.measured(instance, page, now)
        if instance == "pleg":
            self.pleg.measured(page, now)
        elif instance == "store":
            self.watch.store_revision = int(page.total(STORE_REVISION))
        elif instance == "watchcache":
            self.watch.cache_measured(page, now)
