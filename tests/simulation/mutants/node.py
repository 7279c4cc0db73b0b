"""Mistakes on the node: PLEG, pod worker, devices, health, front door."""

from tests.simulation.mutants.hook import Mutant

NODE: tuple[Mutant, ...] = ()
