"""Run behaviours one after another and yield their results."""

import time
from collections.abc import AsyncGenerator, Iterable

import msgspec

from protocols.process.files import encodable
from supervisor.conform.program_stage import Running
from supervisor.conform.scripts import Behaviour
from supervisor.conform.verdict import FAIL, MAX_REASON, NOT_APPLICABLE, PASS, CallFailed, Failed, NotApplicable, Result

PATIENCE = 3
ENDED = "Look at what the program printed: nothing that was asked of it is a reason to end."
BROKEN = ("UNAVAILABLE", "CANCELLED")
"""Codes of calls whose connection broke."""
NOTICED_S = 0.5
"""Time from a broken connection until the end of its process is known."""
DISTURBING = ("restarts", "end")
"""Phases after whose failures the program is started anew, as after a call that failed: it may hang."""


async def run_all(stage: Running, behaviours: Iterable[Behaviour]) -> AsyncGenerator[Result, None]:
    """Yield a result for each behaviour, and end the program afterwards.

    A plugin that hangs makes many behaviours fail by timeout. After PATIENCE timeouts, of which a behaviour counts for
    one at most, the rest is not judged.
    """
    lost, patience = 0.0, PATIENCE * stage.timeout
    try:
        for behaviour in behaviours:
            result = await judge(stage, behaviour) if lost < patience else _not_judged(behaviour, patience)
            lost += min(result.seconds, stage.timeout) if result.verdict != PASS else 0.0
            yield result
    finally:
        await stage.end()


def _not_judged(behaviour: Behaviour, seconds: float) -> Result:
    return _result(behaviour, NOT_APPLICABLE, f"others took {seconds:g} s in vain; mend these first, or use --only")


def _result(behaviour: Behaviour, verdict: str, reason: str) -> Result:
    return Result(
        name=behaviour.name,
        title=behaviour.title,
        phase=behaviour.phase,
        rule=behaviour.rule,
        source=behaviour.source,
        advice=behaviour.advice,
        verdict=verdict,
        reason=encodable(reason[:MAX_REASON]),
    )


async def _with_end(stage: Running, error: Failed) -> str:
    """Return the finding, and the program's end if that is why: a broken connection alone does not say so."""
    if isinstance(error, CallFailed) and error.status in BROKEN:
        await stage.until(lambda: False, NOTICED_S)  # over once the program has ended
    end = stage.unexpected_end()
    return f"{error}; {end}" if end and end not in str(error) else str(error)


async def judge(stage: Running, behaviour: Behaviour) -> Result:
    """Return the verdict on one behaviour; the stage stays as the behaviour leaves it."""
    if reason := stage.launcher.excluded(behaviour.name, behaviour.phase):
        return _result(behaviour, NOT_APPLICABLE, reason)
    began = time.monotonic()
    verdict, reason = PASS, ""
    try:
        await behaviour.run(stage)
        if end := stage.unexpected_end():
            verdict, reason = FAIL, f"the program ended meanwhile: {end}"
            behaviour = msgspec.structs.replace(behaviour, advice=ENDED)
    except Failed as error:
        verdict, reason = FAIL, await _with_end(stage, error)
        if isinstance(error, CallFailed) or behaviour.phase in DISTURBING:
            stage.soil()
    except NotApplicable as error:
        verdict, reason = NOT_APPLICABLE, str(error)
    exchanges, omitted = stage.recorder.take()
    return msgspec.structs.replace(
        _result(behaviour, verdict, reason),
        seconds=time.monotonic() - began,
        exchanges=exchanges,
        omitted=omitted,
        output=stage.program.printed(),
    )
