"""The lists that ListAndWatch sends."""

import asyncio
from collections import Counter

from protocols.messages.devices import HEALTHY, UNHEALTHY
from supervisor.conform.peer import PluginPeer
from supervisor.conform.program_stage import NotServing
from supervisor.conform.scripts import check, run, several
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable


@run
async def first_list(stage: Stage) -> None:
    """Wait for the lists of all resources."""
    try:
        plugins = await stage.plugins()
    except NotServing as error:
        if any(attempt.peer for attempt in stage.kubelet.attempts):
            raise Failed(error.why) from None
        raise
    for plugin in plugins:
        stage.show(plugin.lists.first if plugin.lists else None)
        if not plugin.devices:
            raise Failed(f"the list of {plugin.resource} is empty")
        if plugin.lists and plugin.lists.first and not plugin.lists.first.reply.size:
            raise Failed(f"the first list of {plugin.resource} is empty, its devices came in a later one")


LONGEST = 63


@check
async def device_ids(plugin: PluginPeer) -> None:
    """Look at the newest list."""
    counts = Counter(plugin.ids)
    faults = [f"{counts['']} devices have an empty id"] if counts[""] else []
    faults += [f"the id {id!r} is there {count} times" for id, count in counts.items() if count > 1 and id]
    faults += [f"the id {id[:LONGEST]!r}... has {len(id)} characters" for id in counts if len(id) > LONGEST]
    if faults:
        raise Failed(several(faults))


LAST = 63


@check
async def numa(plugin: PluginPeer) -> None:
    """Look at the newest list."""
    devices = [device for device in plugin.devices if device.HasField("topology")]
    if not devices:
        raise NotApplicable("no device has a topology")
    faults = []
    for device in devices:
        nodes = [node.ID for node in device.topology.nodes]
        if not nodes:
            faults.append(f"{device.ID} has a topology without a NUMA node")
        faults += [f"{device.ID} has the NUMA node {node}" for node in nodes if not 0 <= node <= LAST]
    if faults:
        raise Failed(several(faults))


WORDS = (HEALTHY, UNHEALTHY)


@check
async def health_words(plugin: PluginPeer) -> None:
    """Look at the newest list."""
    faults = [
        f"{device.ID} has the health {device.health!r}" for device in plugin.devices if device.health not in WORDS
    ]
    if faults:
        raise Failed(several(faults))


WATCHED_S, MOST = 1.0, 3


@run
async def list_stays_open(stage: Stage) -> None:
    """Count lists for a second."""
    plugins = await stage.plugins()
    registered = len(stage.kubelet.attempts)
    before = [plugin.lists.count if plugin.lists else 0 for plugin in plugins]
    await asyncio.sleep(WATCHED_S)
    if (more := len(stage.kubelet.attempts) - registered) > len(plugins):
        raise Failed(f"it registered {more} times within {WATCHED_S:g} s, without a new kubelet.sock")
    for plugin, count in zip(plugins, before, strict=True):
        if plugin.lists is None or plugin.lists.ended:
            raise Failed(f"ListAndWatch of {plugin.resource} ended: {plugin.lists.ended if plugin.lists else ''}")
        if (more := plugin.lists.count - count) > MOST:
            raise Failed(f"{plugin.resource} sent {more} lists within {WATCHED_S:g} s")


@check
async def list_again(plugin: PluginPeer) -> None:
    """Open a second one beside the first, hang up, and open a third."""
    for number in ("second", "third"):
        another = plugin.another()
        try:
            listed = [device.ID for device in (await another.first_list()).devices]
        except Failed as error:
            raise Failed(f"{number} call: {error}") from None
        finally:
            await another.close()
        if sorted(listed) != sorted(plugin.ids):
            raise Failed(
                f"the {number} call lists {len(listed)} devices, other ones than the {len(plugin.ids)} of the first"
            )


CALLS, LATE = 60, 3
"""Calls, and timeouts after which a plugin that looks for the end now and then must have noticed it."""
OPEN_S = 0.03
"""Time that each call stays open: one that is closed at once never gets to wait for changes."""


@check
async def list_often(plugin: PluginPeer) -> None:
    """Open and close many lists, one after another."""
    for number in range(CALLS):
        try:
            await _open_and_close(plugin)
        except Failed:
            await asyncio.sleep(plugin.timeout * LATE)
            await _last_try(plugin, number)
            return


async def _open_and_close(plugin: PluginPeer) -> None:
    another = plugin.another()
    try:
        await another.first_list()
        await asyncio.sleep(OPEN_S)
    finally:
        await another.close()


async def _last_try(plugin: PluginPeer, number: int) -> None:
    try:
        await _open_and_close(plugin)
    except Failed as error:
        raise Failed(f"after {number} calls of ListAndWatch that were opened and closed: {error}") from None


MANY = 1000
MAX_RESPONSE = 1 << 20


@check
async def many_devices(plugin: PluginPeer) -> None:
    """Allocate all of many devices."""
    if len(plugin.ids) < MANY:
        raise NotApplicable(f"the plugin lists {len(plugin.ids)} devices; start it with {MANY:,} to check this")
    answers = await plugin.allocate_all()
    if (size := sum(answer.ByteSize() for answer in answers)) > MAX_RESPONSE:
        raise Failed(f"the answer has {size} bytes; it becomes part of each checkpoint of the node")


@run
async def ids_stay(stage: Stage) -> None:
    """Compare the first list with that of each later start."""
    await stage.plugins()
    if len(stage.history) == 1:
        await stage.restart_program()
        await stage.serve_started()
    first, *later = stage.history
    for listed in later:
        for resource, ids in listed.items():
            if gone := set(first[resource]) - set(ids):
                raise Failed(f"{min(gone)} of {resource} was listed at first, and {', '.join(ids[:3])} later")
