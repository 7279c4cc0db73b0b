"""Mistakes that show only where control plane and nodes run together."""

from tests.simulation.mutants.hook import Mutant

PLANE = (
    Mutant(
        "slices-lost",
        "actors/simulator/driver/slices.py",
        old="        if not await self._is_shown(written):\n            self._dirty.set()\n",
        new="        await self._is_shown(written)\n",
        mistake="Slices that a restored backup lacks, and no watch had shown, are not published again.",
        profile="lost",
    ),
    Mutant(
        "disproved-kept",
        "actors/scheduler/claims/claim_writer.py",
        old="        self._store.disprove(claim)\n",
        new="",
        mistake="An allocation that a restored backup lacks stays the scheduler's: its pod waits for ever.",
        profile="lost",
        commit="bfb903cc",
    ),
    Mutant(
        "claims-uncompared",
        "actors/apiserver/writes/path/binding.py",
        old="    change.held = await _reserved(path, change, pod, fresh=False)\n",
        new="    change.held = Revisions()\n",
        mistake="A pod is bound though a restored backup takes the reservations of its claims meanwhile.",
        profile="lost",
        commit="100149fc",
    ),
    Mutant(
        "claims-unnamed",
        "actors/scheduler/cycles/binder.py",
        old='        query = {"reservedClaims": names} if names else {}\n',
        new="        query: dict[str, str] = {}\n",
        mistake="A pod is bound though a restored backup took the reservations of its claims before.",
        profile="lost",
    ),
    Mutant(
        "binding-lost",
        "actors/scheduler/actor.py",
        old="                asyncio.get_running_loop().call_later(UNSEEN_S, self._check_bound, *pod)\n",
        new="",
        mistake="A pod whose binding a restored backup lacks, and no watch had shown, waits for ever.",
        profile="lost",
    ),
)
