"""PreStartContainer answers for devices that were allocated before a restart of the plugin."""

from supervisor.conform.sources import ENDPOINT, MANAGER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable

PHASE = "restarts"
RULE = (
    "A container that starts again, such as after a crash, keeps its devices: PreStartContainer is called without"
    " another Allocate, and the plugin may have restarted meanwhile."
)
SOURCE = f"{ENDPOINT}; {MANAGER}"
ADVICE = "Take the devices from devices_ids of the call, not from what this process has allocated."


async def run(stage: Stage) -> None:
    """Allocate, start the program anew, and start the container."""
    plugins = [plugin for plugin in await stage.plugins() if plugin.options.pre_start_required]
    if not plugins:
        raise NotApplicable("the options do not require it")
    held = {plugin.resource: plugin.healthy()[:1] for plugin in plugins}
    for plugin in plugins:
        await plugin.allocate(held[plugin.resource])
    await stage.restart_program()
    for plugin in [each for each in await stage.serve_started() if each.resource in held]:
        ids = held[plugin.resource]
        try:
            await plugin.pre_start(ids)
        except CallFailed as error:
            raise Failed(f"{ids[0]}, allocated before the plugin restarted: {error}") from None
