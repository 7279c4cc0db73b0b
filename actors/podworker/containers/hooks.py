"""Lifecycle hooks: what a container asks to have done right after its start and before its end."""

import asyncio

import aiohttp

from actors.podworker.errors import HookFailed
from actors.podworker.ports import World
from actors.podworker.probes.checks import fetch
from actors.podworker.probes.read import target
from actors.podworker.types import ContainerSpec, Object
from protocols.bus import BusError

POST_START, PRE_STOP = "postStart", "preStop"
POST_START_S = 600.0
"""A postStart hook holds up the containers after it; it ends in failure after so long."""


def hook_of(container: ContainerSpec | None, kind: str) -> Object | None:
    """None when there is none, or nothing in it that could be run."""
    hook = ((container.raw.get("lifecycle") or {}) if container else {}).get(kind) or {}
    return hook if any(hook.get(part) for part in ("exec", "httpGet", "sleep")) else None


async def run_hook(
    world: World, container: ContainerSpec, hook: Object, container_id: str, ip: str, timeout: float
) -> None:
    """Raises HookFailed."""
    try:
        async with asyncio.timeout(timeout):
            await _run(world, container, hook, container_id, ip, timeout)
    except TimeoutError:
        raise HookFailed(f"did not end within {timeout:g} s") from None
    except (BusError, OSError, aiohttp.ClientError, ValueError) as error:
        raise HookFailed(" ".join(str(error).split()) or type(error).__name__) from None


async def _run(
    world: World, container: ContainerSpec, hook: Object, container_id: str, ip: str, timeout: float
) -> None:
    if hook.get("exec"):
        command = [str(part) for part in hook["exec"].get("command") or ()]
        code, output = await world.runtime.exec_sync(container_id, command, max(1, int(timeout)))
        if code != 0:
            text = output[:1024].decode(errors="replace").strip()
            raise HookFailed(f"command {' '.join(command)!r} exited with {code}: {text}")
    elif hook.get("httpGet"):
        await fetch(hook["httpGet"], target(container, container_id, ip))
    else:
        await asyncio.sleep(float((hook.get("sleep") or {}).get("seconds") or 0))
