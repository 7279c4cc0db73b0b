"""CDI devices of the answer to Allocate exist."""

from supervisor.conform.cdi import QUALIFIED, check_declared, names_of
from supervisor.conform.sources import CDI
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import NotApplicable

PHASE = "calls"
RULE = "The runtime reads the CDI file of a device when it makes the container; it makes none with an unknown device."
SOURCE = CDI
ADVICE = "Write the file into CDI_ROOT or /var/run/cdi before Allocate answers, and name devices as the file does."


async def run(stage: Stage) -> None:
    """Look the names up in the files of all directories that a runtime reads."""
    answers = [answer for plugin in await stage.plugins() for answer in await plugin.all_answers()]
    names = {name for answer in answers for name in names_of(answer) if QUALIFIED.fullmatch(name)}
    if not names:
        raise NotApplicable("the answer has no CDI devices with qualified names")
    await check_declared(names, stage.cdi)
