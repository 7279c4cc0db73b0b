"""What the stages of one pod's life share."""

from typing import NamedTuple

from actors.podworker.containers.killer import Killer
from actors.podworker.pods.observer import Observer
from actors.podworker.pods.state import PodState
from actors.podworker.ports import World
from actors.podworker.probes.pod import PodProbes
from actors.podworker.status.reporter import Reporter


class Parts(NamedTuple):
    state: PodState
    world: World
    observer: Observer
    reporter: Reporter
    killer: Killer
    probes: PodProbes
