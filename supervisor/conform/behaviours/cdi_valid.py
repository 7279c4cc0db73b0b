"""CDI files that the answer to Allocate names are such as a runtime takes."""

import asyncio

from supervisor.conform.cdi import faults_in, names_of
from supervisor.conform.scripts import several
from supervisor.conform.sources import CDI_VALID, CDI_VALID_ADVICE, CDI_VALID_RULE
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE, SOURCE, ADVICE = CDI_VALID_RULE, CDI_VALID, CDI_VALID_ADVICE


async def run(stage: Stage) -> None:
    """Read the files that declare the CDI devices of the answers."""
    answers = [answer for plugin in await stage.plugins() for answer in await plugin.answers()]
    names = {name for answer in answers for name in names_of(answer)}
    files, faults = await asyncio.to_thread(faults_in, stage.cdi, names)
    if not files:
        raise NotApplicable("no file declares CDI devices of the answers")
    if faults:
        raise Failed(several(faults))
