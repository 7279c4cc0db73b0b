"""Mistakes that somebody could make, each of which the simulation must find: `make mutants`."""


def apply(name: str) -> None:
    """Have the product imported with one mistake. Raises KeyError, StaleMutant, TooLate."""
    from tests.simulation.mutants.hook import install
    from tests.simulation.mutants.table import MUTANTS

    install({mutant.name: mutant for mutant in MUTANTS}[name])
