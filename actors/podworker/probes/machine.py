"""From attempts to a standing, and from the standings of one container to its verdict. Pure, no clock.

Invariant: a standing changes only after as many equal attempts in a row as its threshold says; an attempt that says
nothing changes nothing.
"""

from collections.abc import Mapping

import msgspec

from actors.podworker.probes.types import LIVENESS, READINESS, STARTUP, Outcome, Probe, Verdict


class Standing(msgspec.Struct, frozen=True):
    """`good` is None until a startup probe has decided."""

    good: bool | None
    streak: int = 0
    last: Outcome = Outcome.UNKNOWN


def begin(kind: str, known: bool = False) -> Standing:
    """`known`: an earlier life of this process has seen this very container succeed."""
    if known:
        return Standing(True)
    return Standing({LIVENESS: True, READINESS: False, STARTUP: None}[kind])


def observe(probe: Probe, standing: Standing, outcome: Outcome) -> Standing:
    if outcome is Outcome.UNKNOWN:
        return standing
    streak = standing.streak + 1 if outcome is standing.last else 1
    success = outcome is Outcome.SUCCESS
    if streak < (probe.success if success else probe.failure):
        return Standing(standing.good, streak, outcome)
    return Standing(success, streak, outcome)


def over(probe: Probe, standing: Standing) -> bool:
    """This container needs no further attempt: it has started, or it is going to be killed."""
    if probe.kind == READINESS:
        return False
    return standing.good is False or (probe.kind == STARTUP and standing.good is True)


def judge(name: str, standings: Mapping[str, tuple[Probe, Standing]]) -> Verdict:
    """`standings` by kind."""
    good = {kind: standing.good for kind, (_, standing) in standings.items()}
    started = good.get(STARTUP, True) is True
    for kind in (STARTUP, LIVENESS):
        if good.get(kind, True) is False:
            fault = f"Container {name} failed {kind.lower()} probe, will be restarted"
            return Verdict(started, started and good.get(READINESS, True) is True, fault, standings[kind][0].grace)
    return Verdict(started, started and good.get(READINESS, True) is True)
