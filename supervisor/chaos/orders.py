"""Orders of a script. Each may be repeated, since its receiver may be dead at the time."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from protocols.kinds.table import PODS, Resource
from protocols.kube.errors import suppress_status
from protocols.kubeclient.client import ApiError
from protocols.messages import cri, devices
from protocols.messages.supervisor import KILL, Empty, KillActor
from supervisor.base.errors import SupervisorError, UsageError
from supervisor.base.groups import check_watchers
from supervisor.chaos.script import ScriptLine
from supervisor.chaos.stage import DEFAULT, ChaosStage, documents
from supervisor.client.scaling import scale_watchers

ANY = "any"
"""Stands for a random actor; `any any` are two."""

Order = Callable[[ChaosStage, ScriptLine], Awaitable[str]]
"""Returns a note for the user about a random choice, or ""."""


async def _kill(stage: ChaosStage, step: ScriptLine) -> str:
    return await _signal(stage, step, signal.SIGKILL)


async def _stop(stage: ChaosStage, step: ScriptLine) -> str:
    return await _signal(stage, step, signal.SIGSTOP)


async def _resume(stage: ChaosStage, step: ScriptLine) -> str:
    return await _signal(stage, step, signal.SIGCONT)


async def _signal(stage: ChaosStage, step: ScriptLine, number: int) -> str:
    actors = await stage.actors()
    victims = _victims(stage, step.words, sorted(actors))
    owners = {victim: await stage.asking.owner_of(victim) for victim in victims}
    orders = (stage.asking.call(owners[name], KILL, KillActor(instance=name, signal=number), Empty) for name in victims)
    await asyncio.gather(*orders)
    if number == signal.SIGKILL:
        stage.dead |= {name: actors[name].pid for name in victims}
    return "" if tuple(victims) == step.words else " ".join(victims)


def _victims(stage: ChaosStage, words: tuple[str, ...], actors: list[str]) -> list[str]:
    left = [name for name in actors if name not in words]
    chance = stage.dice.sample(left, min(len(left), words.count(ANY)))
    return [chance.pop() if word == ANY and chance else word for word in words]


async def _restart(stage: ChaosStage, step: ScriptLine) -> str:
    (name,) = step.words
    await stage.asking.restart(name)
    return ""


async def _scale(stage: ChaosStage, step: ScriptLine) -> str:
    count = int(float(step.words[1]))
    check_watchers(count)
    await scale_watchers(stage.asking, count)
    return ""


async def _device(stage: ChaosStage, step: ScriptLine) -> str:
    *resource, id_, health = step.words
    request = devices.ChaosDevice(resource="".join(resource), id=id_, health="" if health == "clear" else health)
    try:
        await stage.asking.override_health(request)
    except UsageError as error:
        raise SupervisorError(str(error)) from None  # its plugin may register again, so the order is repeated
    return ""


async def _runtime(stage: ChaosStage, step: ScriptLine) -> str:
    await stage.asking.call(cri.OWNER, cri.CHAOS, cri.ChaosRuntime(fault=step.words[0]), cri.Empty)
    return ""


async def apply(stage: ChaosStage, step: ScriptLine) -> str:
    """Create the objects of a file, or patch those that exist."""
    for resource, obj in documents(stage.directory / step.words[0]):
        await _apply(stage, resource, obj)
    return ""


async def _apply(stage: ChaosStage, resource: Resource, obj: dict[str, Any]) -> None:
    """Create an object, or merge it into the existing one: the answer to an earlier attempt may have been lost.

    A strategic merge keeps what the server has added to containers; a pod's spec may not change.
    """
    api, space = await stage.api(), obj["metadata"].get("namespace", DEFAULT if resource.namespaced else "")
    try:
        await api.create(resource, obj, space)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        await api.patch(resource, obj["metadata"]["name"], space, obj, kind="strategic")


async def _delete(stage: ChaosStage, step: ScriptLine) -> str:
    with suppress_status(404):
        await (await stage.api()).delete(PODS, step.words[1], DEFAULT)
    return ""


async def _wait(stage: ChaosStage, step: ScriptLine) -> str:
    await asyncio.sleep(float(step.words[0]))
    return ""


ORDERS: dict[str, Order] = {
    "kill": _kill,
    "stop": _stop,
    "continue": _resume,
    "restart": _restart,
    "scale": _scale,
    "device": _device,
    "runtime": _runtime,
    "apply": apply,
    "delete": _delete,
    "wait": _wait,
}
