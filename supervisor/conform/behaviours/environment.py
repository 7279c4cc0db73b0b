"""Variables of the answer to Allocate can be set."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "envs are names and values of environment variables: a name is not empty and has no '=', neither has a NUL."
SOURCE = API
ADVICE = "Put NAME and VALUE apart into the map, not NAME=VALUE."


async def check(plugin: PluginPeer) -> None:
    """Look at the answers for single devices."""
    variables = {name: value for answer in await plugin.answers() for name, value in answer.envs.items()}
    if not variables:
        raise NotApplicable("the answer has no variables")
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise Failed(f"the variable {name!r} cannot be set")
