"""Programs of several kinds: `Kind.shared` names those that judge others than plugins."""

import asyncio
from typing import Any, TypeAlias

from supervisor.conform.program_stage import ProgramStage
from supervisor.conform.scripts import run
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable

WATCHED_S, MOST = 1.0, 2
Registering: TypeAlias = ProgramStage[Any, Any]


@run
async def two_instances(stage: Registering) -> None:
    """Start a second one, end the first one, and see whether the second one still serves."""
    old = {peer.name: peer for peer in await stage.peers()}
    before = len(stage.played.attempts)
    first = stage.program
    stage.program = stage.another_program()
    await stage.start_program()
    try:
        await _registered(stage, before)
        new = stage.played.serving
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


async def _registered(stage: Registering, before: int) -> None:
    def registered() -> bool:
        return stage.names <= {attempt.name for attempt in stage.played.attempts[before:] if attempt.peer}

    if not await stage.until(registered, stage.timeout * 3):
        if not stage.program.runs:
            raise NotApplicable(f"a second instance does not run beside the first: {stage.program.end}")
        raise Failed("the second instance did not register")


async def _no_contest(stage: Registering) -> None:
    """Instances that take the other's socket for a new kubelet register in turns for ever."""
    before = _accepted(stage)
    await asyncio.sleep(WATCHED_S)
    if (more := _accepted(stage) - before) > MOST:
        raise Failed(f"the two registered {more} times within {WATCHED_S:g} s, in turns")


def _accepted(stage: Registering) -> int:
    return sum(not attempt.fault for attempt in stage.played.attempts)


async def _serves_on(stage: Registering) -> None:
    await asyncio.sleep(WATCHED_S / 2)
    try:
        peers = await stage.serve()
    except Failed as error:
        raise Failed(f"at the end of the first instance the second is gone: {error}") from None
    for peer in peers:
        if not peer.socket.exists():
            raise Failed(f"the first instance removed {peer.socket.name} of the second one at its end")
        another = peer.another()
        try:
            await another.probe()
        except CallFailed as error:
            raise Failed(f"after the end of the first instance: {error}") from None
        finally:
            await another.close()


@run
async def ends_at_sigterm(stage: ProgramStage[Any, Any]) -> None:
    """Send SIGTERM."""
    await stage.peers()
    ended = await stage.program.terminate(stage.timeout)
    stage.soil()
    if not ended:
        raise Failed(f"it still ran {stage.timeout:g} s after SIGTERM")
