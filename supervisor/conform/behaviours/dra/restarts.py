"""The kubelet and the driver end and start again."""

import asyncio
import time
from pathlib import Path

from protocols.process.sockets import is_socket
from supervisor.conform.caller import SENT_S, broken_off
from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer, contents
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import SLICES as PATH
from supervisor.conform.dra.objects import DriverClaim
from supervisor.conform.dra.pools import names_of
from supervisor.conform.scripts import run
from supervisor.conform.verdict import Failed


@run
async def kubelet_restarts(stage: DriverStage) -> None:
    """Prepare a claim, restart the kubelet twice, and prepare it again."""
    driver = (await stage.drivers())[0]
    async with driver.claim(driver.offered()[:1]) as claim:
        devices = await driver.prepared(claim)
        first, ids = contents(devices), {id for device in devices for id in device.cdi_device_ids}
        for _ in range(2):
            await stage.restart_kubelet()
            again = await stage.served(driver.name, started=False)
            if lost := await again.undeclared(ids):
                raise Failed(f"{min(lost)} is gone since another kubelet registered the driver: its claim is prepared")
            if (now := contents(await again.prepared(claim))) != first:
                raise Failed(f"after the restart of the kubelet the claim has {now}, before {first}")
        await again.unprepared(claim)


@run
async def driver_restarts(stage: DriverStage) -> None:
    """SIGTERM, start again, and look whether the claim is as before."""
    driver = (await stage.drivers())[0]
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
        await stage.program.terminate(stage.timeout)
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} was removed at the end of the driver, while its claim is prepared")
        await stage.restart_program()
        again = await stage.served(driver.name, started=True)
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} was removed at the start of the driver, while its claim is prepared")
        if ids != (now := {id for device in await again.prepared(claim) for id in device.cdi_device_ids}):
            raise Failed(f"after the restart of the driver the claim has the CDI ids {sorted(now)}, not {sorted(ids)}")
        if lost := await again.undeclared(ids):
            raise Failed(await again.why_undeclared(min(lost), "after the next instance has prepared the claim,"))
        await again.unprepared(claim)


@run
async def driver_killed(stage: DriverStage) -> None:
    """Kill during the call, early and late, start again, and prepare the same."""
    for sent in SENT_S:
        driver = (await stage.drivers())[0]
        async with driver.claim(driver.offered()[:1]) as claim:
            await broken_off(driver.prepare(claim), sent, stage.restart_program)
            await _prepares(await stage.served(driver.name, started=True), claim)


async def _prepares(driver: DriverPeer, claim: DriverClaim) -> None:
    try:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
    except Failed as error:
        raise Failed(f"after the restart: {error}") from None
    if missing := await driver.undeclared(ids):
        raise Failed(f"after the restart no file declares {min(missing)}")
    await driver.unprepared(claim)


POLL_S = 0.2


@run
async def call_broken_off(stage: DriverStage) -> None:
    """Restart the kubelet during a call, early and late, and prepare the claim."""
    for sent in SENT_S:
        driver = (await stage.drivers())[0]
        async with driver.claim(driver.offered()[:1]) as claim:
            await broken_off(driver.prepare(claim), sent, stage.restart_kubelet)
            again = await stage.served(driver.name, started=False)
            await _call_broken_off_prepares(again, claim)
            await again.unprepared(claim)


async def _call_broken_off_prepares(driver: DriverPeer, claim: DriverClaim) -> None:
    """Try as long as an answer may take: the first call may go on."""
    deadline = time.monotonic() + driver.timeout
    while True:
        try:
            await driver.prepared(claim)
            return
        except Failed as error:
            if time.monotonic() > deadline:
                raise Failed(f"{driver.timeout:g} s after a call that broke off: {error}") from None
        await asyncio.sleep(POLL_S)


@run
async def names_stay(stage: DriverStage) -> None:
    """SIGTERM, delete the slices as a kubelet does after 30 s, start again, and compare."""
    drivers = await stage.drivers()
    before = {driver.name: names_of(driver.pools) for driver in drivers}
    await stage.program.terminate(stage.timeout)
    for resource_slice in (published for driver in drivers for pool in driver.pools for published in pool.slices):
        await stage.objects.delete(f"{PATH}/{resource_slice['metadata']['name']}")
    await stage.restart_program()
    for driver in await stage.serve_started():
        if gone := before[driver.name] - names_of(driver.pools):
            now = ", ".join(name for _, name in sorted(names_of(driver.pools))[:3])
            raise Failed(f"{'/'.join(min(gone))} was published at first, and {now} after a restart")


TEXT = """\
{"cdiVersion": "0.5.0", "kind": "another.example/device",
 "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}]}
"""


@run
async def others_stay(stage: DriverStage) -> None:
    """Start the program beside them, and end it."""
    driver = (await stage.drivers())[0]
    others = [stage.kubelet.registry / "another.example-reg.sock", driver.cdi[0] / "another.example.json"]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXT)
    try:
        await stage.again(driver)
        _look(others, "start")
        await stage.program.terminate(stage.timeout)
        stage.soil()
        _look(others, "end")
    finally:
        for path in others:
            path.unlink(missing_ok=True)


def _look(others: list[Path], when: str) -> None:
    if gone := [path for path in others if not path.exists()]:
        raise Failed(f"{gone[0].parent.name}/{gone[0].name}, which is not the driver's, was removed at its {when}")


@run
async def socket_removed(stage: DriverStage) -> None:
    """SIGTERM, and look at the directory."""
    await stage.drivers()
    mine = {attempt.socket for attempt in stage.kubelet.attempts if attempt.peer}
    ended = await stage.program.terminate(stage.timeout)
    stage.soil()
    if ended and (left := sorted(path.name for path in mine if is_socket(path))):
        raise Failed(f"plugins_registry/{left[0]} is still there after SIGTERM")
