"""Health of DRA devices on the bus, over real sockets (scenarios S56, S57, S59, S60 of the device facts)."""

import asyncio
import time
from pathlib import Path

import pytest

from actors.devices.dra.streams import claim_devices
from actors.devices.model.errors import CheckpointNotWritten
from protocols.bus import Bus, BusOptions, Op, StateSource
from protocols.lifecycle.devices.types import DeviceName
from protocols.lifecycle.errors import InvalidHealth, UnknownDevice
from protocols.messages.health import HeldContainer, HeldResource, PodHeld
from protocols.messages.podworker import ENDED_PODS, EndedPod
from protocols.wire import drahealth_v1_pb2 as health
from protocols.wire import nodehealth_v1alpha1_pb2 as node_health
from protocols.wire.plugins import HEALTH_V1, HEALTH_V1ALPHA1, NODE_HEALTH
from tests.support.device_node import until
from tests.support.dra_lab import GPU, DraLab, asks, claim, running_lab
from tests.support.stub_driver import StubDriver, told_health

DEVICE = f"{GPU}/n1/dev-0"


async def healthy_driver(lab: DraLab, instance: str = "") -> StubDriver:
    """One whose device a pod has."""
    driver = lab.stub(instance=instance)
    driver.info.supported_versions.append(HEALTH_V1)
    driver.health = [told_health("dev-0")]
    await driver.start()
    await lab.settled(driver)
    return driver


@pytest.mark.scenario("S56")
async def test_the_drivers_word_its_message_and_its_end() -> None:
    """S56: Healthy, Unhealthy with a message that is too long, Healthy; the driver stops; it is back."""

    async with running_lab() as lab:
        driver = await healthy_driver(lab)
        assert lab.health.items == {}
        await lab.prepare(asks("p", claim("a")))
        await lab.says(DEVICE, "Healthy")
        driver.report(told_health("dev-0", health.UNHEALTHY, message="x" * 2000, last_updated_time=-5))
        await lab.says(DEVICE, "Unhealthy", "x" * 1021 + "...")
        driver.report(told_health("dev-0"))
        await lab.says(DEVICE, "Healthy", "")
        await driver.stop(deregister=False)
        await lab.says(DEVICE, "Unknown", "")
        await driver.serve()
        await lab.says(DEVICE, "Healthy")
        await driver.stop()
        await lab.says(DEVICE, "Unknown")
        await driver.start()
        await lab.says(DEVICE, "Healthy")
        await lab.unprepare("p")
        await until("forgotten with its claim", lambda: lab.health.items == {})


async def test_health_can_be_overridden_without_a_driver() -> None:
    """`nodeplane chaos device`: of any driver, also one that tells nothing; until it is taken back."""

    async with running_lab() as lab:
        driver = await healthy_driver(lab)

        async def accepted() -> bool:
            try:
                await lab.chaos(DEVICE, "unhealthy")
            except UnknownDevice:
                return False
            return True

        await until("an override, once the driver reports the device that no claim has yet", accepted)
        await lab.chaos(DEVICE, "")
        await lab.prepare(asks("p", claim("a")))
        await lab.says(DEVICE, "Healthy")
        for word, health_ in (("unhealthy", "Unhealthy"), ("unknown", "Unknown"), ("healthy", "Healthy")):
            await lab.chaos(DEVICE, word)
            await lab.says(DEVICE, health_, "forced by chaos")
        await driver.stop()
        driver.report(told_health("dev-0", health.UNHEALTHY, message="burnt"))
        await driver.start()
        await lab.settled(driver)
        assert {seen[1:] for seen in lab.history[-1:]} == {("Healthy", "forced by chaos")}
        await lab.chaos(DEVICE, "")
        await lab.says(DEVICE, "Unhealthy", "burnt")
        with pytest.raises(UnknownDevice, match="no claim on this node has it, and no driver reports its health"):
            await lab.chaos(f"{GPU}/n1/dev-99", "unhealthy")
        with pytest.raises(UnknownDevice, match="a driver's device is DRIVER/POOL/DEVICE"):
            await lab.chaos("dev-0", "unhealthy")
        with pytest.raises(InvalidHealth, match="use healthy, unhealthy, unknown or nothing"):
            await lab.chaos(DEVICE, "sleepy")
        lab.disk_full = True
        with pytest.raises(CheckpointNotWritten):
            await lab.chaos(DEVICE, "healthy")
        await lab.says(DEVICE, "Unhealthy", "burnt")


async def test_a_silent_driver_is_unknown_without_anybody_asking() -> None:
    """S56: a timeout of the device's own; a heartbeat keeps it."""

    async with running_lab() as lab:
        driver = await healthy_driver(lab)
        await lab.prepare(asks("p", claim("a")))
        driver.report(told_health("dev-0", health_check_timeout_seconds=4))
        await lab.says(DEVICE, "Healthy")
        await lab.says(DEVICE, "Unknown")
        driver.report(told_health("dev-0", health_check_timeout_seconds=-7))
        await lab.says(DEVICE, "Healthy")


async def test_quick_flaps_end_in_the_latest() -> None:
    async with running_lab() as lab:
        driver = await healthy_driver(lab)
        await lab.prepare(asks("p", claim("a")))
        for turn in range(21):
            driver.report(told_health("dev-0", health.HEALTHY if turn % 2 else health.UNHEALTHY, message=str(turn)))
            await asyncio.sleep(0)
        await lab.says(DEVICE, "Unhealthy", "20")


async def test_driver_that_reports_without_end_leaves_time_for_others() -> None:
    """1,000 devices that flap with every report, as fast as reports are taken."""
    async with running_lab() as lab:
        loud, calm = await healthy_driver(lab), lab.stub("calm.example.com")
        calm.info.supported_versions.append(HEALTH_V1)
        calm.health = [told_health("dev-0")]
        await calm.start()
        await lab.settled(calm)
        await lab.prepare(asks("p", claim("a")))
        over = asyncio.Event()

        async def flood() -> int:
            turn = 0
            while not over.is_set():
                turn += 1
                state = health.HEALTHY if turn % 2 else health.UNHEALTHY
                loud.report(*(told_health(f"dev-{at}", state, message=str(turn)) for at in range(1000)))
                await asyncio.sleep(0)
            return turn

        flooding = asyncio.create_task(flood())
        try:
            async with asyncio.timeout(60):
                await lab.prepare(asks("q", claim("b", "calm.example.com")))
                calm.report(told_health("dev-0", health.UNHEALTHY, message="ECC"))
                await lab.says("calm.example.com/n1/dev-0", "Unhealthy", "ECC")
                await lab.unprepare("q")
        finally:
            over.set()
        turns = await flooding
        await lab.says(DEVICE, "Healthy" if turns % 2 else "Unhealthy", str(turns))


async def test_what_nobody_owns_and_numbers_of_the_future_harm_nobody() -> None:
    async with running_lab() as lab:
        driver = await healthy_driver(lab)
        await lab.prepare(asks("p", claim("a")))
        crowd = [told_health(f"x{n}", pool="elsewhere") for n in range(100_000)]
        driver.report(*crowd, told_health("dev-0", 7), health.DeviceHealth())
        await lab.says(DEVICE, "Unknown", timeout=60.0)
        driver.report(told_health("dev-0", health.UNHEALTHY, message="ECC"))
        await lab.says(DEVICE, "Unhealthy", "ECC", timeout=60.0)
        assert list(lab.health.items) == [DEVICE]


@pytest.mark.scenario("S59")
async def test_a_driver_without_health_is_asked_once_at_most(caplog: pytest.LogCaptureFixture) -> None:
    """S59: advertised or not, its devices are Unknown; no retry storm, one line in each life of ours."""

    with caplog.at_level("WARNING"):
        async with running_lab() as lab:
            plain = await lab.driver(instance="-plain")
            await lab.prepare(asks("p", claim("a")))
            await lab.says(DEVICE, "Unknown")
            boaster = await lab.driver(instance="-boaster", also=[HEALTH_V1])
            await until("asked", lambda: boaster.streams)
            await asyncio.sleep(0.5)
            assert (plain.streams, boaster.streams) == (0, 1)
            await lab.end_life()
            await lab.open()
            await lab.connected(GPU, str(plain.socket))
            await lab.connected(GPU, str(boaster.socket))
            await lab.says(DEVICE, "Unknown")
            await until("asked once more", lambda: boaster.streams == 2)
            await until("a line each", lambda: sum("does not implement" in line for line in caplog.messages) >= 2)
    assert sum("does not implement" in line for line in caplog.messages) == 2


async def test_with_the_gate_off_no_driver_is_asked() -> None:
    """S58, the node's part."""

    async with running_lab() as lab:
        await lab.end_life()
        lab.listen = False
        await lab.open()
        driver = await healthy_driver(lab)
        await lab.prepare(asks("p", claim("a")))
        await lab.says(DEVICE, "Unknown")
        assert (driver.streams, lab.registered.items[GPU].health) == (0, "")


async def test_a_rolling_update_loses_no_health() -> None:
    """S49: the old instance's end takes nothing from the new one, and the other way round."""

    async with running_lab() as lab:
        old = await healthy_driver(lab, "-old")
        await lab.prepare(asks("p", claim("a")))
        await lab.says(DEVICE, "Healthy")
        new = await healthy_driver(lab, "-new")
        await until("both streams", lambda: new.streams == 1)
        new.report(told_health("dev-0", health.UNHEALTHY, message="new"))
        await lab.says(DEVICE, "Unhealthy", "new")
        await old.stop()
        await until("one left", lambda: lab.registered.items[GPU].endpoints == (str(new.socket),))
        assert (
            lab.history
            == [(DEVICE, *seen) for seen in (("Unknown", ""), ("Healthy", ""), ("Unhealthy", "new"))][
                -len(lab.history) :
            ]
        )
        await lab.says(DEVICE, "Unhealthy", "new")


async def test_streams_that_end_at_once_are_opened_at_a_bounded_rate() -> None:
    async with running_lab() as lab:
        driver = await healthy_driver(lab)
        driver._over = True
        driver.change()
        await until("opened again", lambda: driver.streams >= 3)
        before, began = driver.streams, time.monotonic()
        await asyncio.sleep(0.5)
        assert driver.streams - before <= 2 + (time.monotonic() - began) / 0.1  # reopen is 0.1 s here
        driver._over = False
        await lab.prepare(asks("p", claim("a")))
        await lab.says(DEVICE, "Healthy")


async def test_an_older_driver_has_an_older_service() -> None:
    """S56 with v1alpha1.DRAResourceHealth; a new life of the manager asks for the same."""

    async with running_lab() as lab:
        driver = lab.stub()
        driver.info.supported_versions.append(HEALTH_V1ALPHA1)
        driver.health = [told_health("dev-0", health.UNHEALTHY, message="old")]
        await driver.start()
        await lab.settled(driver)
        assert lab.registered.items[GPU].health == HEALTH_V1ALPHA1
        await lab.prepare(asks("p", claim("a")))
        await lab.says(DEVICE, "Unhealthy", "old")
        await lab.end_life()
        driver.report(told_health("dev-0"))
        await lab.open()
        await lab.says(DEVICE, "Healthy", "")


async def test_the_documents_own_service_is_opted_into_by_serving_it() -> None:
    async with running_lab() as lab:
        driver = lab.stub()
        driver.serves_statuses = True
        driver.statuses = [
            node_health.Device(pool_name="n1", device_name="dev-0", health="Unhealthy", message="Xid 79")
        ]
        await driver.start()
        await lab.connected(GPU)
        await lab.prepare(asks("p", claim("a")))
        await lab.says(DEVICE, "Unhealthy", "Xid 79")


@pytest.mark.scenario("S60")
async def test_the_documents_own_service_gives_the_same_result() -> None:
    """S60: NodeHealth.WatchDevicesStatus; a device that is left out is Unknown at once."""

    async with running_lab() as lab:
        driver = lab.stub()
        driver.info.supported_versions.append(NODE_HEALTH)
        driver.statuses = [node_health.Device(pool_name="n1", device_name="dev-0", health="Healthy")]
        await driver.start()
        await lab.connected(GPU)
        await lab.prepare(asks("p", claim("a")))
        await lab.says(DEVICE, "Healthy")
        driver.statuses = [
            node_health.Device(pool_name="n1", device_name="dev-0", health="Unhealthy", message="Xid 79")
        ]
        driver.change()
        await lab.says(DEVICE, "Unhealthy", "Xid 79")
        driver.statuses = [node_health.Device(pool_name="n1", device_name="dev-0", health="Sleepy")]
        driver.change()
        await lab.says(DEVICE, "Unknown")
        driver.statuses = [node_health.Device(pool_name="n1", device_name="dev-0", health="Unhealthy")]
        await lab.end_life()
        await lab.open()
        await lab.says(DEVICE, "Unhealthy")
        driver.statuses = []
        driver.change()
        await lab.says(DEVICE, "Unknown")
        await driver.stop()
        await lab.says(DEVICE, "Unknown")


async def forgotten_word(lab: DraLab) -> tuple[StubDriver, Path]:
    """A device in use was said to be Unhealthy for an hour, that was written down in the file told here, and the
    manager's life ended."""
    driver = await healthy_driver(lab)
    await lab.prepare(asks("p", claim("a")))
    driver.report(told_health("dev-0", health.UNHEALTHY, message="ECC", health_check_timeout_seconds=3600))
    await lab.says(DEVICE, "Unhealthy", "ECC")
    state = lab.root / "dra_health_state"
    await until("written down", lambda: state.exists() and b"ECC" in state.read_bytes())
    await lab.end_life()
    return driver, state


async def test_a_new_life_of_the_manager_knows_what_was_said_a_moment_ago() -> None:
    """And believes it no longer than it was good for, or than the driver's next word."""

    async with running_lab(reconnect_wait=20.0) as lab:
        driver, state = await forgotten_word(lab)
        before = len(lab.history)
        await lab.open()
        await lab.connected(GPU)
        assert set(lab.history[before:]) <= {(DEVICE, "Unhealthy", "ECC")}
        driver.report(told_health("dev-0"))
        await lab.says(DEVICE, "Healthy")
        await driver.stop()
        await lab.says(DEVICE, "Unknown")
        await lab.end_life()
        state.write_text("rubbish")
        await lab.open()
        await lab.says(DEVICE, "Unknown")
        await driver.start()
        await lab.says(DEVICE, "Healthy")


async def test_a_driver_that_ends_while_nobody_listens_is_unknown_to_the_next_life() -> None:
    """Though its registrar is still there, and what it said last was to be good for an hour."""

    async with running_lab(reconnect_wait=0.5) as lab:
        driver, _ = await forgotten_word(lab)
        await driver.stop(deregister=False)
        await lab.open()
        await lab.says(DEVICE, "Unknown")
        await driver.serve()
        await lab.says(DEVICE, "Unhealthy", "ECC")


async def test_devices_of_finished_pods_are_still_reported() -> None:
    """Their claims were given back; the device breaks only afterwards. S53 for DRA."""

    async with running_lab() as lab:
        driver = await healthy_driver(lab)
        await lab.prepare(asks("p", claim("a")))
        await lab.says(DEVICE, "Healthy")
        podworker = Bus(BusOptions(name="podworker", run_dir=lab.root / "run"))
        await podworker.start()
        resource = HeldResource("claim:a", (DEVICE,))
        ended = {"p": EndedPod("p", "ns", "p", PodHeld((HeldContainer("c", (resource,)),)))}
        stream = podworker.own(ENDED_PODS, StateSource(ended))
        await lab.unprepare("p")
        await until("told of again", lambda: lab.health.items)
        driver.report(told_health("dev-0", health.UNHEALTHY, message="burnt"))
        await lab.says(DEVICE, "Unhealthy", "burnt")
        stream.publish(Op.DELETE, "p", ended.pop("p"))
        await until("forgotten with the pod", lambda: lab.health.items == {})
        await podworker.close()


def test_names_of_devices_are_read_back_from_statuses() -> None:
    ids = ("d.example.com/pool/with/slash/dev", "no-device", "x/y")
    extended = HeldResource("example.com/gpu", ("d.example.com/pool/by-claim", "/dev/gpu", "gpu-0"))
    held = PodHeld((HeldContainer("c", (extended,)),), (HeldResource("claim:a", ids),))
    assert claim_devices(held) == {
        DeviceName("d.example.com", "pool/with/slash", "dev"), DeviceName("d.example.com", "pool", "by-claim")
    }  # fmt: skip
