"""Allocate, GetPreferredAllocation and PreStartContainer: what is asked and what is answered."""

import asyncio
from collections.abc import Iterator, Sequence

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.conform.caller import NO_ANSWER, SENT_S, broken_off
from supervisor.conform.peer import SAMPLE, PluginPeer
from supervisor.conform.scripts import check, run
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable


@check
async def allocate_one(plugin: PluginPeer) -> None:
    """Allocate each of the first devices by itself."""
    for id in plugin.healthy()[:4]:
        if (count := len(await plugin.allocate([id]))) != 1:
            raise Failed(f"one container was asked for {id}, {count} were answered")


@check
async def allocate_again(plugin: PluginPeer) -> None:
    """Ask three times for one device."""
    id = plugin.healthy()[0]
    for number in ("first", "second", "third"):
        try:
            answers = await plugin.allocate([id])
        except CallFailed as error:
            raise Failed(f"{id}, the {number} time: {error}") from None
        if len(answers) != 1:
            raise Failed(f"{id}, the {number} time: {len(answers)} containers were answered")


@check
async def allocate_all(plugin: PluginPeer) -> None:
    """Ask for all healthy devices."""
    ids = plugin.healthy(2)
    answers = await plugin.allocate_all()
    if len(answers) != 1:
        raise Failed(f"one container was asked for {len(ids)} devices, {len(answers)} were answered")
    first, last = await plugin.repeatable(ids[0]), await plugin.repeatable(ids[-1])
    if first != last and answers[0] in (first, last):
        raise Failed(f"the answer for {len(ids)} devices is that for {ids[0 if answers[0] == first else -1]} alone")


SHORTEST = 4
"""Characters of an id that is not taken for a word by accident."""


@check
async def allocate_asked(plugin: PluginPeer) -> None:
    """Compare answers for one device with the answer for another, and look for ids of others in them."""
    ids = plugin.healthy(2)[:SAMPLE]
    other = await plugin.allocate(ids[1:2])
    first = await plugin.allocate(ids[:1])
    for _ in ids:
        again = await plugin.allocate(ids[:1])
        if again != first and again == other:
            raise Failed(f"{ids[0]} was given {ids[1]} once")
    for id in ids:
        named = {word for answer in await plugin.allocate([id]) for word in words(answer)}
        others = {device_id for device_id in plugin.ids if len(device_id) >= SHORTEST} & named - {id}
        if others:
            raise Failed(f"the answer for {id} names {min(others)} {'as well' if id in named else 'instead'}")


def words(answer: pb.ContainerAllocateResponse) -> Iterator[str]:
    """Yield the texts of an answer that may be ids."""
    for value in (*answer.envs.values(), *answer.annotations.values()):
        yield from value.replace(",", " ").split()
    for device in answer.cdi_devices:
        yield device.name.rpartition("=")[2]


@check
async def allocate_containers(plugin: PluginPeer) -> None:
    """Ask for two devices in two containers, and compare with single calls."""
    first, second = plugin.healthy(2)[:2]
    answers = await plugin.allocate([first], [second])
    if len(answers) != 2:
        raise Failed(f"2 containers were asked for, {len(answers)} were answered")
    singles = [await plugin.repeatable(first), await plugin.repeatable(second)]
    if None not in singles and answers != singles:
        raise Failed(f"the answers for {first} and {second} in one call are not those of two calls")


UNKNOWN = "nodeplane-no-such-device"


@check
async def allocate_unknown(plugin: PluginPeer) -> None:
    """Ask for a device that was never listed, alone and beside one that was."""
    for ids in ([UNKNOWN], [*plugin.healthy()[:1], UNKNOWN]):
        try:
            await plugin.allocate(ids)
        except CallFailed as error:
            if error.status in NO_ANSWER:
                raise
        else:
            raise Failed(f"Allocate of {', '.join(ids)} was answered as if the device existed")
    await plugin.get_options()  # it must live on


MOST = 8


@check
async def preferred_allocation(plugin: PluginPeer) -> None:
    """Ask for each size, with and without devices that must be included, of all and of some devices."""
    if not plugin.options.get_preferred_allocation_available:
        raise NotApplicable("the options do not offer it")
    for available, included, size in questions(plugin.healthy()[:MOST]):
        answers = await plugin.preferred(available, included, size)
        if len(answers) != 1:
            raise Failed(f"one container was asked for, {len(answers)} were answered")
        if fault := fault_of(answers[0], available, included, size):
            raise Failed(f"{size} of {', '.join(available)} with {', '.join(included) or 'none'} included: {fault}")


def questions(ids: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str], int]]:
    """Yield available devices, those that must be included, and the number."""
    for size in range(1, len(ids) + 1):
        yield ids, (), size
        yield ids, ids[:1], size
        yield ids, ids[-1:], size
        yield ids, ids[-size:], size
    for some in (ids[1:], ids[::2], ids[1::2]):
        for size in range(1, len(some) + 1):
            yield some, (), size
            yield some, some[-1:], size


def fault_of(choice: Sequence[str], available: Sequence[str], included: Sequence[str], size: int) -> str:
    """Return what is wrong with a choice."""
    if foreign := set(choice) - set(available):
        return f"{min(foreign)} is not available"
    if missing := set(included) - set(choice):
        return f"{min(missing)} is missing"
    if repeated := {id for id in choice if choice.count(id) > 1}:
        return f"{min(repeated)} was chosen twice"
    return "" if len(choice) == size else f"{len(choice)} were chosen"


CALLS = 16


@check
async def parallel_calls(plugin: PluginPeer) -> None:
    """Allocate in many calls at once."""
    ids = plugin.healthy()
    singles = {id: await plugin.repeatable(id) for id in ids[:CALLS]}
    asked = [ids[number % len(ids)] for number in range(CALLS)]
    answers = await asyncio.gather(*(plugin.allocate([id]) for id in asked))
    for id, answer in zip(asked, answers, strict=True):
        if singles[id] is not None and answer != [singles[id]]:
            raise Failed(f"the answer for {id} among {CALLS} calls at once differs from that of a single call")


@check
async def pre_start(plugin: PluginPeer) -> None:
    """Allocate, then start, and restart with the devices in another order."""
    if not plugin.options.pre_start_required:
        raise NotApplicable("the options do not require it")
    ids = plugin.healthy()[:2]
    try:
        await plugin.allocate_together(ids)
    except NotApplicable:
        ids = ids[:1]
        await plugin.allocate(ids)
    for start, order in (("first", ids), ("second", ids[::-1])):
        try:
            await plugin.pre_start(order)
        except CallFailed as error:
            raise CallFailed(error.status, f"{start} start, of {', '.join(order)}: {error}") from None


@run
async def pre_start_restart(stage: Stage) -> None:
    """Allocate, start the program anew, and start the container."""
    plugins = [plugin for plugin in await stage.plugins() if plugin.options.pre_start_required]
    if not plugins:
        raise NotApplicable("the options do not require it")
    held = {plugin.resource: plugin.healthy()[:1] for plugin in plugins}
    for plugin in plugins:
        await plugin.allocate(held[plugin.resource])
    await stage.restart_program()
    for plugin in [peer for peer in await stage.serve_started() if peer.resource in held]:
        ids = held[plugin.resource]
        try:
            await plugin.pre_start(ids)
        except CallFailed as error:
            raise Failed(f"{ids[0]}, allocated before the plugin restarted: {error}") from None


@run
async def killed_in_allocate(stage: Stage) -> None:
    """Kill during the call, early and late, start again, and allocate the same."""
    for sent in SENT_S:
        plugin = (await stage.plugins())[0]
        ids = plugin.healthy()[:1]
        await broken_off(plugin.allocate(ids), sent, stage.restart_program)
        await _allocates(await stage.served(plugin.name, started=True), ids)


async def _allocates(plugin: PluginPeer, ids: list[str]) -> None:
    if not set(ids) <= set(plugin.ids):
        raise Failed(f"{ids[0]} is no longer listed")
    try:
        await plugin.allocate(ids)
    except CallFailed as error:
        raise Failed(f"{ids[0]}, after the restart: {error}") from None
