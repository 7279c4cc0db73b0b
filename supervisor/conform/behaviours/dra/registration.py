"""The registration of a driver, and the services that it serves."""

import asyncio

from protocols.process.sockets import is_socket
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.plugins import GET_INFO, PREPARE
from supervisor.conform.dra.driver_kubelet import endpoint_fault, name_fault, type_fault, versions_fault
from supervisor.conform.dra.driver_peer import DriverPeer, contents
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.program_stage import NotServing
from supervisor.conform.registry import Registrar
from supervisor.conform.scripts import check, run
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable


@run
async def registers(stage: DriverStage) -> None:
    """Wait for the first socket."""
    try:
        attempt = await stage.first_attempt()
    except NotServing as error:
        raise Failed(error.why) from None
    if attempt.info_fault:
        raise Failed(f"{attempt.socket.name}: {attempt.info_fault}")


MOST_S, TIMES = 1.0, 3


@run
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


@run
async def plugin_info(stage: DriverStage) -> None:
    """Look at the first answer, and for the service."""
    attempt = await stage.first_attempt()
    for fault in (type_fault(attempt.info), name_fault(attempt.info), endpoint_fault(attempt)):
        if fault:
            raise Failed(fault)
    if not attempt.info_fault:
        await stage.bound(attempt.endpoint)


@run
async def versions(stage: DriverStage) -> None:
    """Look at the first answer."""
    info = (await stage.first_attempt()).info
    if fault := versions_fault(info):
        raise Failed(fault)
    known = [name for name in info.supported_versions if name in PREPARE]
    if "v1.DRAPlugin" in known[1:]:
        raise Failed(f"supported_versions has {known[0]} before v1.DRAPlugin: the older one is used")


WATCHED_S = 0.3


@run
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


@run
async def registration_rejected(stage: DriverStage) -> None:
    """Restart the kubelet, which then rejects one registration of each."""
    await stage.drivers()
    await stage.restart_rejecting()


@check
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


@check
async def versions_agree(driver: DriverPeer) -> None:
    """Prepare a claim by each."""
    if len(driver.versions) < 2:
        raise NotApplicable(f"the driver has {driver.versions[0]} only")
    async with driver.claim(driver.offered()[:1]) as claim:
        first, second = [contents(await driver.prepared(claim, version)) for version in driver.versions[:2]]
        if first != second:
            raise Failed(f"{driver.versions[0]} answers {first}, {driver.versions[1]} {second}")
