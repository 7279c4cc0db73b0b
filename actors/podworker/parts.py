"""What the stages of one pod's life share."""

from typing import NamedTuple

from actors.podworker.killer import Killer
from actors.podworker.observer import Observer
from actors.podworker.ports import World
from actors.podworker.probes.pod import PodProbes
from actors.podworker.reporter import Reporter
from actors.podworker.state import PodState


class Parts(NamedTuple):
    state: PodState
    world: World
    observer: Observer
    reporter: Reporter
    killer: Killer
    probes: PodProbes
