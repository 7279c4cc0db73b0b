"""The registration of a plugin."""

import asyncio
import itertools
from collections import Counter

from protocols.wire.plugin_names import resource_fault, version_fault
from supervisor.conform.caller import NO_ANSWER
from supervisor.conform.program_stage import NotServing
from supervisor.conform.scripts import run, several
from supervisor.conform.sources import API, DOCS, HANDLER, SERVER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable


@run(
    "The program registers: it calls Register on kubelet.sock, or has a socket that a kubelet finds.",
    phase="registration",
    order=0,
    rule="A plugin registers itself with the kubelet through DIRECTORY/device-plugins/kubelet.sock, or the kubelet"
    " finds its socket of pluginregistration.Registration in DIRECTORY/plugins_registry/.",
    source=f"{DOCS}; {HANDLER}",
    advice="Dial kubelet.sock in the directory that NODEPLANE_KUBELET_DIR or conform's --kubelet-dir names, and call"
    " v1beta1.Registration/Register; what the program printed may say why it did not.",
)
async def registers(stage: Stage) -> None:
    """Wait for the first call, whatever it holds."""
    try:
        await stage.first_attempt()
    except NotServing as error:
        raise Failed(error.why) from None


@run(
    "Register names the version v1beta1.",
    phase="registration",
    order=1,
    rule="version is exactly v1beta1, or supported_versions of GetInfo has it; the kubelet rejects every other text.",
    source=f"{SERVER}; {HANDLER}",
    advice="Set RegisterRequest.version to the constant of the API, v1beta1.",
)
async def version(stage: Stage) -> None:
    """Look at the first call."""
    if fault := version_fault((await stage.first_attempt()).request.version):
        raise Failed(fault)


@run(
    "Register names an extended resource.",
    phase="registration",
    order=2,
    rule="resource_name is DOMAIN/NAME outside of kubernetes.io, with a domain in lower case that does not begin with"
    " requests., and a name of at most 63 characters.",
    source=f"{DOCS}; {SERVER}",
    advice="Register a name such as vendor.example/gpu; pods ask for it by exactly this text in resources.limits.",
)
async def resource_name(stage: Stage) -> None:
    """Look at the first call."""
    if fault := resource_fault((await stage.first_attempt()).request.resource_name):
        raise Failed(fault)


@run(
    "Register names a socket that exists, by its file name.",
    phase="registration",
    order=3,
    rule="endpoint is the name of the plugin's socket in the directory of kubelet.sock, without a path.",
    source=f"{API}; {DOCS}",
    advice="Bind the socket in device-plugins/ before Register, and pass its base name, such as vendor-gpu.sock.",
)
async def endpoint(stage: Stage) -> None:
    """Look at the first call, and at the directory at that moment."""
    attempt = await stage.first_attempt()
    if fault := attempt.endpoint_fault or attempt.socket_fault:
        raise Failed(fault)


@run(
    "The plugin answers GetDevicePluginOptions while its Register call waits.",
    phase="registration",
    order=4,
    rule="A plugin serves before it registers: the kubelet dials it and gets its options before it answers Register.",
    source=f"{DOCS}; {SERVER}",
    advice="Start the gRPC server first and call Register from another thread or goroutine than the one that serves.",
)
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


@run(
    "GetDevicePluginOptions is answered, with the options that Register has.",
    phase="registration",
    order=5,
    rule="Only the answer of GetDevicePluginOptions counts, the kubelet ignores the options of the Register call; if"
    " it is an error, Register fails with it.",
    source=SERVER,
    advice="Implement GetDevicePluginOptions, and answer with the options that the Register call has; without any,"
    " with an empty message.",
)
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


@run(
    "The plugin offers the devices of the profile: its resource, names that begin so, and no fewer.",
    phase="registration",
    order=200,
    rule="Pods ask for a resource by its exact name, agents know devices by their ids; the node is known by its"
    " number.",
    source=f"{DOCS}; --profile",
    advice="Register the name that the pods of your users have, and list every device of the machine; or leave"
    " --profile out.",
)
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
        faults.append(f"{len(ids)} devices are listed, not {profile.pods}")
    if faults:
        raise Failed(several(faults))


WATCHED_S = 1.5


@run(
    "The plugin registers once with each kubelet.",
    phase="restarts",
    rule="Each Register makes another connection, which replaces the last one of the resource; when the replaced one"
    " ends, kubelets up to 1.36 take the resource for gone.",
    source=f"{SERVER}; {HANDLER}; kubernetes/kubernetes issues 121994, 124716 and 127803",
    advice="Register once for each kubelet.sock: compare its inode number, and ignore what you have made yourself.",
)
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


@run(
    "The plugin tries again after a rejected Register, with a pause.",
    phase="restarts",
    rule="Register may fail, such as by a deadline while the kubelet starts; only the plugin can repeat it, and the"
    " kubelet starts for some time.",
    source=SERVER,
    advice="Repeat Register with a back-off, or end with an error so that the container is started again; do not only"
    " log it, and do not repeat it without a pause.",
)
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
