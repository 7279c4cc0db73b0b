"""Two instances of the program may serve side by side, as in a rolling update."""

import asyncio

from supervisor.conform.sources import DOCS, MANAGER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable

PHASE = "restarts"
RULE = (
    "With maxSurge, the next version of a plugin registers while the last one runs; the end of the old one"
    " must not touch the new one."
)
SOURCE = f"{DOCS}; {MANAGER}"
ADVICE = "Use a socket of your own for each process, such as with its pid, and remove nothing but this socket."
WATCHED_S, MOST = 1.0, 2


async def run(stage: Stage) -> None:
    """Start a second one, end the first one, and see whether the second one still serves."""
    old = {plugin.resource: plugin for plugin in await stage.plugins()}
    before = len(stage.kubelet.attempts)
    first = stage.program
    stage.program = stage.another_program()
    await stage.start_program()
    try:
        await _registered(stage, before)
        new = stage.kubelet.serving
        if shared := [name for name in old if new[name].socket == old[name].socket]:
            raise NotApplicable(f"both use the socket {new[shared[0]].socket.name}; do not update with maxSurge")
        await _no_contest(stage)
        await first.terminate()
        await _serves_on(stage)
    except (Failed, NotApplicable):
        stage.soil()
        raise
    finally:
        await first.kill()


async def _registered(stage: Stage, before: int) -> None:
    def registered() -> bool:
        return stage.names <= {each.resource for each in stage.kubelet.attempts[before:] if each.peer}

    if not await stage.until(registered, stage.timeout * 3):
        if not stage.program.runs:
            raise NotApplicable(f"a second instance does not run beside the first: {stage.program.end}")
        raise Failed("the second instance did not register")


async def _no_contest(stage: Stage) -> None:
    """Instances that take the other's socket for a new kubelet register in turns for ever."""
    before = len(stage.kubelet.attempts)
    await asyncio.sleep(WATCHED_S)
    if (more := len(stage.kubelet.attempts) - before) > MOST:
        raise Failed(f"the two registered {more} times within {WATCHED_S:g} s, in turns")


async def _serves_on(stage: Stage) -> None:
    await asyncio.sleep(WATCHED_S / 2)
    for plugin in await stage.serve():
        if not plugin.socket.exists():
            raise Failed(f"the first instance removed {plugin.socket.name} of the second one at its end")
        another = plugin.another()
        try:
            await another.get_options()
        except CallFailed as error:
            raise Failed(f"after the end of the first instance: {error}") from None
        finally:
            await another.close()
