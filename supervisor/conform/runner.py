"""Run behaviours one after another and yield their results."""

import time
from collections.abc import AsyncIterator, Iterable

from protocols.process.files import encodable
from supervisor.conform.scripts import Behaviour
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import FAIL, MAX_REASON, NOT_APPLICABLE, PASS, CallFailed, Failed, NotApplicable, Result

DISTURBING = ("restarts", "end")
"""Phases after whose failures the program is started anew, as after a call that failed: it may hang."""


async def run_all(stage: Stage, behaviours: Iterable[Behaviour]) -> AsyncIterator[Result]:
    """Yield a result for each; the program is ended afterwards."""
    try:
        for behaviour in behaviours:
            yield await _run(stage, behaviour)
    finally:
        await stage.end()


async def _run(stage: Stage, behaviour: Behaviour) -> Result:
    began = time.monotonic()
    verdict, reason = PASS, ""
    try:
        await behaviour.run(stage)
        stage.check_runs()
    except Failed as error:
        verdict, reason = FAIL, str(error)
        if isinstance(error, CallFailed) or behaviour.phase in DISTURBING:
            stage.soil()
    except NotApplicable as error:
        verdict, reason = NOT_APPLICABLE, str(error)
    exchanges, omitted = stage.recorder.take()
    return Result(
        name=behaviour.name,
        title=behaviour.title,
        phase=behaviour.phase,
        rule=behaviour.rule,
        source=behaviour.source,
        advice=behaviour.advice,
        verdict=verdict,
        reason=encodable(reason[:MAX_REASON]),
        seconds=time.monotonic() - began,
        exchanges=exchanges,
        omitted=omitted,
        output=stage.program.printed(),
    )
