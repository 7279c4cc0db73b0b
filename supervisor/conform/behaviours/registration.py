"""The registration of a plugin."""

import asyncio
import itertools
from collections import Counter

from protocols.wire.plugin_names import resource_fault, version_fault
from supervisor.conform.caller import NO_ANSWER
from supervisor.conform.program_stage import NotServing
from supervisor.conform.scripts import run, several
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable


@run
async def registers(stage: Stage) -> None:
    """Wait for the first call, whatever it holds."""
    try:
        await stage.first_attempt()
    except NotServing as error:
        raise Failed(error.why) from None


@run
async def version(stage: Stage) -> None:
    """Look at the first call."""
    if fault := version_fault((await stage.first_attempt()).request.version):
        raise Failed(fault)


@run
async def resource_name(stage: Stage) -> None:
    """Look at the first call."""
    if fault := resource_fault((await stage.first_attempt()).request.resource_name):
        raise Failed(fault)


@run
async def endpoint(stage: Stage) -> None:
    """Look at the first call, and at the directory at that moment."""
    attempt = await stage.first_attempt()
    if fault := attempt.endpoint_fault or attempt.socket_fault:
        raise Failed(fault)


@run
async def serves_first(stage: Stage) -> None:
    """Look at what became of the first call."""
    attempt = await stage.first_attempt()
    if attempt.socket_fault:
        raise Failed(attempt.socket_fault)
    if attempt.options_status in NO_ANSWER:
        raise Failed(attempt.options_fault)
    if attempt.fault and not attempt.options_fault:
        raise NotApplicable(f"Register was rejected before: {attempt.fault}")


FLAGS = ("pre_start_required", "get_preferred_allocation_available")


@run
async def options(stage: Stage) -> None:
    """Compare the options of the call with the answer."""
    attempt = await stage.first_attempt()
    if attempt.options_status and attempt.options_status not in NO_ANSWER:
        raise Failed(attempt.options_fault)
    if attempt.peer is None:
        raise NotApplicable(f"Register was rejected before: {attempt.fault}")
    for flag in FLAGS:
        if getattr(attempt.request.options, flag) and not getattr(attempt.peer.options, flag):
            raise Failed(f"Register has {flag}, GetDevicePluginOptions has not")


@run
async def profile(stage: Stage) -> None:
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
        faults.append(f"{len(ids)} devices are listed, fewer than {profile.pods}")
    if faults:
        raise Failed(several(faults))


WATCHED_S = 1.5


@run
async def registers_once(stage: Stage) -> None:
    """Restart the kubelet, and count."""
    await stage.plugins()
    await stage.restart_kubelet()
    await stage.returns()
    await asyncio.sleep(WATCHED_S)
    counts = Counter(attempt.name for attempt in stage.kubelet.attempts if attempt.peer)
    for name, count in counts.items():
        if count > 1:
            raise Failed(f"{name} was registered {count} times with one kubelet")


REJECTING_S, PAUSE_S, MOST = 2.0, 0.03, 10
"""Seconds in which calls are rejected, the least time between two of a resource, and how many may follow sooner."""


@run
async def register_rejected(stage: Stage) -> None:
    """Restart the kubelet, which then rejects one call of each resource, and once more, to reject all for a while."""
    await stage.plugins()
    await stage.restart_rejecting()
    await stage.restart_rejecting(until=lambda: _repeats(stage))


async def _repeats(stage: Stage) -> None:
    """Count the calls of some seconds. Raises Failed."""
    await stage.until(lambda: bool(stage.kubelet.attempts), stage.timeout)
    await asyncio.sleep(REJECTING_S)
    for name in stage.names:
        times = [attempt.at for attempt in stage.kubelet.attempts if attempt.name == name]
        soon = sum(later - earlier < PAUSE_S for earlier, later in itertools.pairwise(times))
        if soon > MOST:
            raise Failed(f"it called Register {len(times)} times within {REJECTING_S:g} s, and each call was rejected")
