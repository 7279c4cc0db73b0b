"""Mistakes that show only where control plane and nodes run together."""

from tests.simulation.mutants.hook import Mutant

PLANE = (
    Mutant(
        "disproved-kept",
        "actors/scheduler/claims/claim_writer.py",
        old="        self._store.disprove(claim)\n",
        new="",
        mistake="An allocation that a restored backup lacks stays the scheduler's: its pod waits for ever.",
        profile="plane",
        commit="bfb903cc",
    ),
    Mutant(
        "claims-uncompared",
        "actors/apiserver/writes/path/binding.py",
        old="    change.held = await _reserved(path, change, pod, fresh=False)\n",
        new="    change.held = Revisions()\n",
        mistake="A pod is bound though a restored backup takes the reservations of its claims meanwhile.",
        profile="plane",
        commit="100149fc",
    ),
    Mutant(
        "claims-unnamed",
        "actors/scheduler/cycles/binder.py",
        old='        query = {"reservedClaims": names} if names else {}\n',
        new="        query: dict[str, str] = {}\n",
        mistake="A pod is bound though a restored backup took the reservations of its claims before.",
        profile="plane",
    ),
)
