"""The registration of a driver, and the services that it serves."""

import asyncio

from protocols.process.sockets import is_socket
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.plugins import GET_INFO
from supervisor.conform.dra.driver_kubelet import endpoint_fault, name_fault, type_fault, versions_fault
from supervisor.conform.dra.driver_peer import DriverPeer, contents
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.program_stage import NotServing
from supervisor.conform.registry import Registrar
from supervisor.conform.scripts import check, run
from supervisor.conform.sources import (
    DRA_API,
    DRA_MANAGER,
    DRA_PLUGINS,
    PLUGIN_WATCHER,
    RECONCILER,
    REGISTRATION,
    REGISTRATION_API,
    REGISTRATION_CALLS,
)
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable


@run(
    "The program serves a registration socket in plugins_registry/, which answers GetInfo.",
    phase="registration",
    order=0,
    rule="The kubelet finds a driver by a socket below DIRECTORY/plugins_registry/, without a dot at its begin.",
    source=PLUGIN_WATCHER,
    advice="Bind a socket in plugins_registry/ of the directory that NODEPLANE_KUBELET_DIR or conform's --kubelet-dir"
    " names, and serve pluginregistration.Registration on it; what the program printed may say why it did not.",
)
async def registers(stage: DriverStage) -> None:
    """Wait for the first socket."""
    try:
        attempt = await stage.first_attempt()
    except NotServing as error:
        raise Failed(error.why) from None
    if attempt.info_fault:
        raise Failed(f"{attempt.socket.name}: {attempt.info_fault}")


MOST_S, TIMES = 1.0, 3


@run(
    "GetInfo is answered within a second.",
    phase="registration",
    order=1,
    rule="The kubelet waits for GetInfo for one second, and tries again with back-off, up to two minutes.",
    source=REGISTRATION_CALLS,
    advice="Answer from what is known at the start, and look for devices elsewhere: GetInfo names the driver only.",
)
async def info_in_time(stage: DriverStage) -> None:
    """Look at the first answer, and if it was late at some more: the fastest counts."""
    attempt = await stage.first_attempt()
    if attempt.info_fault:
        raise NotApplicable(attempt.info_fault)
    first = attempt.exchanges[0]
    if first is not None and first.record.seconds <= MOST_S:
        return
    registrar = Registrar(attempt.socket.name, attempt.socket, stage.recorder, stage.timeout)
    try:
        fastest = min([await _seconds(registrar) for _ in range(TIMES)])
    except CallFailed as error:
        raise Failed(str(error)) from None
    finally:
        await registrar.close()
    if fastest > MOST_S:
        raise Failed(f"GetInfo was answered after {fastest:.1f} s")


async def _seconds(registrar: Registrar) -> float:
    await registrar.call(GET_INFO, registration.InfoRequest())
    return registrar.last.record.seconds if registrar.last else 0.0


@run(
    "GetInfo names a DRA driver, and an endpoint that is served.",
    phase="registration",
    order=1,
    rule="type is DRAPlugin, name the driver's: a DNS name of at most 63 characters; endpoint is the absolute path of"
    " the service's socket, which may come after the registration: until then calls fail, and are repeated.",
    source=f"{REGISTRATION_API}; {REGISTRATION}; {DRA_PLUGINS}",
    advice="Bind a socket such as plugins/DRIVER/dra.sock, name it as the host sees it, and serve there before long.",
)
async def plugin_info(stage: DriverStage) -> None:
    """Look at the first answer, and for the service."""
    attempt = await stage.first_attempt()
    for fault in (type_fault(attempt.info), name_fault(attempt.info), endpoint_fault(attempt)):
        if fault:
            raise Failed(fault)
    if not attempt.info_fault:
        await stage.bound(attempt.endpoint)


@run(
    "GetInfo names the services that the driver has, the newest first.",
    phase="registration",
    order=2,
    rule="supported_versions names services: v1.DRAPlugin and v1beta1.DRAPlugin; a kubelet uses the first of the"
    " driver's list that it knows.",
    source=REGISTRATION,
    advice="Name v1.DRAPlugin before v1beta1.DRAPlugin, and not v1 or v1beta1 alone, nor the service's name on the"
    " wire.",
)
async def versions(stage: DriverStage) -> None:
    """Look at the first answer."""
    info = (await stage.first_attempt()).info
    if fault := versions_fault(info):
        raise Failed(fault)
    known = [name for name in info.supported_versions if name.endswith(".DRAPlugin")]
    if "v1.DRAPlugin" in known[1:]:
        raise Failed(f"supported_versions has {known[0]} before v1.DRAPlugin: the older one is used")


WATCHED_S = 0.3


@run(
    "NotifyRegistrationStatus is answered without an error, and the socket stays.",
    phase="registration",
    order=3,
    rule="The kubelet reports that the driver is registered; if that call fails it removes the driver and tries again.",
    source=RECONCILER,
    advice="Answer NotifyRegistrationStatus with an empty RegistrationStatusResponse, whatever the status says; serve"
    " on.",
)
async def registration_status(stage: DriverStage) -> None:
    """Look at what became of the first attempt."""
    attempt = await stage.first_attempt()
    if attempt.notify_fault:
        raise Failed(attempt.notify_fault)
    if attempt.fault:
        raise NotApplicable(f"the registration was rejected before: {attempt.fault}")
    await asyncio.sleep(WATCHED_S)
    if not is_socket(attempt.socket):
        raise Failed(f"{attempt.socket.name} was removed after the registration: the kubelet drops the driver")


@run(
    "The driver lives on when its registration fails, and is registered later.",
    phase="restarts",
    rule="NotifyRegistrationStatus may report an error; the kubelet asks the same socket again, with back-off.",
    source=RECONCILER,
    advice="Print the error and keep serving, or end with it so that the container is started again.",
)
async def registration_rejected(stage: DriverStage) -> None:
    """Restart the kubelet, which then rejects one registration of each."""
    await stage.drivers()
    await stage.restart_rejecting()


@check(
    "Each service that GetInfo names is served.",
    phase="calls",
    order=1,
    rule="The kubelet calls NodePrepareResources and NodeUnprepareResources of the version that it chose from the"
    " list.",
    source=f"{DRA_API}; {REGISTRATION}",
    advice="Add both servicers, that of dra/v1 and that of dra/v1beta1, to the server, or name one version only.",
)
async def services(driver: DriverPeer) -> None:
    """Prepare and unprepare no claims by each version, over a connection of its own."""
    for version in driver.versions:
        another = driver.another()
        try:
            for call in (another.prepare, another.unprepare):
                if answers := await call(version=version):
                    raise Failed(f"{version}: no claim was asked for, {len(answers)} were answered")
        except CallFailed as error:
            raise Failed(f"{version}: {error}") from None
        finally:
            await another.close()


@check(
    "Both versions of the service answer alike.",
    phase="calls",
    rule="A claim prepared by an old kubelet is prepared again and unprepared by a new one, with the other version.",
    source=f"{DRA_API}; {DRA_MANAGER}",
    advice="Do the work in one place and let the servicers of dra/v1 and dra/v1beta1 only convert.",
)
async def versions_agree(driver: DriverPeer) -> None:
    """Prepare a claim by each."""
    if len(driver.versions) < 2:
        raise NotApplicable(f"the driver has {driver.versions[0]} only")
    async with driver.claim(driver.offered()[:1]) as claim:
        first, second = [contents(await driver.prepared(claim, version)) for version in driver.versions[:2]]
        if first != second:
            raise Failed(f"{driver.versions[0]} answers {first}, {driver.versions[1]} {second}")
