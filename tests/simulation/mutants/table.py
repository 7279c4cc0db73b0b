"""All mutants, in the order in which they run."""

from tests.simulation.mutants.bus import BUS
from tests.simulation.mutants.devices import DEVICES
from tests.simulation.mutants.hook import Mutant
from tests.simulation.mutants.node import NODE
from tests.simulation.mutants.plane import PLANE
from tests.simulation.mutants.store import STORE
from tests.simulation.mutants.watch import WATCH
from tests.simulation.mutants.workloads import WORKLOADS

MUTANTS: tuple[Mutant, ...] = (*STORE, *WATCH, *BUS, *NODE, *PLANE, *WORKLOADS, *DEVICES)
