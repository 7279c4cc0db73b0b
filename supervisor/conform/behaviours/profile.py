"""The plugin offers the devices of the profile: its resource, names that begin so, and no fewer."""

from supervisor.conform.scripts import several
from supervisor.conform.sources import DOCS
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE, ORDER = "registration", 200
RULE = "Pods ask for a resource by its exact name, agents know devices by their ids; the node is known by its number."
SOURCE = f"{DOCS}; --profile"
ADVICE = (
    "Register the name that the pods of your users have, and list every device of the machine; or leave --profile out."
)


async def run(stage: Stage) -> None:
    """Compare the lists with the profile."""
    profile = stage.profile
    if profile is None:
        raise NotApplicable("it needs --profile, whose names and number of devices are compared")
    plugins = {plugin.resource: plugin for plugin in await stage.plugins()}
    if profile.resource not in plugins:
        raise Failed(f"{', '.join(plugins)} is registered, not {profile.resource}")
    ids = plugins[profile.resource].ids
    faults = [
        f"the id {id!r} does not begin with {profile.device!r}" for id in ids if not id.startswith(profile.device)
    ]
    if len(ids) < profile.pods:
        faults.append(f"{len(ids)} devices are listed, not {profile.pods}")
    if faults:
        raise Failed(several(faults))
