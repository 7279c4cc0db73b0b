"""Claims are made usable and given back, over real sockets (scenarios S43-S47, S49, S50 of the device facts)."""

import asyncio
import json
from pathlib import Path

import pytest

from actors.devices.dra.errors import ClaimConflict, ClaimUnprepared, DriverFailed, DriverMissing
from protocols.wire.plugins import DRA_V1BETA1, HEALTH_V1
from tests.support.device_node import until
from tests.support.dra_lab import GPU, NIC, asks, claim, running_lab
from tests.support.stub_driver import prepared


async def test_a_pods_claims_go_to_each_driver_once_and_come_back_once() -> None:
    async with running_lab() as lab:
        gpu, nic = await lab.driver(GPU), await lab.driver(NIC)
        pod = asks("p", claim("a", GPU), claim("b", GPU, NIC))
        reply = await lab.prepare(pod)
        assert reply.cdi_devices == {"c": (f"{GPU}/device=dev-0", f"{NIC}/device=dev-0")}
        assert gpu.uids("prepare") == [["a-uid", "b-uid"]]
        assert nic.uids("prepare") == [["b-uid"]]
        assert [held.names for held in lab.shown["p"].containers["c"]] == [("a",), ("b",)]
        assert await lab.prepare(pod) == reply
        assert len(gpu.called("prepare")) == 1
        page = lab.metrics()
        assert 'dra_resource_claims_in_use{driver_name="<any>"} 2.0' in page
        assert f'dra_resource_claims_in_use{{driver_name="{NIC}"}} 1.0' in page
        assert 'dra_operations_duration_seconds_count{is_error="false",operation_name="PrepareResources"} 2.0' in page
        method = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
        labels = f'driver_name="{NIC}",grpc_status_code="OK",method_name="{method}"'
        assert f"dra_grpc_operations_duration_seconds_count{{{labels}}} 1.0" in page
        await lab.unprepare("p")
        await lab.unprepare("p")
        assert gpu.uids("unprepare") == [["a-uid", "b-uid"]]
        assert nic.uids("unprepare") == [["b-uid"]]
        assert json.loads(json.loads(lab.checkpoint.read_text())["Data"])["ClaimInfoStateList"] is None


async def test_a_shared_claim_is_prepared_by_the_first_pod_and_given_back_by_the_last() -> None:
    async with running_lab() as lab:
        driver = await lab.driver()
        driver.hang.clear()
        both = [asyncio.create_task(lab.prepare(asks(pod, claim("a")))) for pod in ("p", "q")]
        await until("asked", lambda: driver.called("prepare"))
        driver.hang.set()
        first, second = await asyncio.gather(*both)
        assert first == second
        assert len(driver.called("prepare")) == 1
        await lab.unprepare("p")
        assert driver.called("unprepare") == []
        await lab.unprepare("q")
        assert driver.uids("unprepare") == [["a-uid"]]


@pytest.mark.scenario("S46")
async def test_one_failing_driver_does_not_make_the_good_one_work_again() -> None:
    """S46, and S31: after many tries the devices are as many as there are."""

    async with running_lab() as lab:
        gpu, nic = await lab.driver(GPU), await lab.driver(NIC)
        gpu.devices["a-uid"] = [prepared(GPU, f"dev-{n}") for n in range(3)]
        pod = asks("p", claim("a", GPU, NIC))
        nic.claim_errors["a-uid"] = "x" * (5 << 20)
        with pytest.raises(DriverFailed, match=r"code = ResourceExhausted .* Received message larger than max"):
            await lab.prepare(pod)
        nic.claim_errors["a-uid"] = "out of order"
        for _ in range(20):
            with pytest.raises(DriverFailed, match="NodePrepareResources failed for ResourceClaim a: out of order"):
                await lab.prepare(pod)
        nic.claim_errors.clear()
        assert len((await lab.prepare(pod)).cdi_devices["c"]) == 4
        assert (len(gpu.called("prepare")), len(nic.called("prepare"))) == (1, 22)
        (held,) = lab.shown["p"].containers["c"]
        assert [device.device for device in held.devices] == ["dev-0", "dev-1", "dev-2", "dev-0"]


async def test_refusals_before_any_driver_is_asked() -> None:
    """S50, the node's part: nothing is kept, so the pod can go."""

    async with running_lab() as lab:
        with pytest.raises(DriverMissing, match=f"^DRA driver {GPU} is not registered$"):
            await lab.prepare(asks("p", claim("a")))
        driver = await lab.driver()
        await lab.prepare(asks("p", claim("a", uid="one")))
        with pytest.raises(ClaimConflict, match="old ResourceClaim with same name a and different UID one"):
            await lab.prepare(asks("q", claim("b"), claim("a", uid="two")))
        with pytest.raises(ClaimUnprepared):
            await lab.prepare(asks("r", claim("a", uid="one"), renew=False))
        await lab.unprepare("q")
        assert (len(driver.called("prepare")), driver.called("unprepare")) == (1, [])


@pytest.mark.scenario("S44")
async def test_a_driver_that_hangs_hits_the_deadline_and_holds_up_nobody_else() -> None:
    """S44: the call ends after its time, works later, and a pod that is ended does not wait for it."""

    async with running_lab(call=2.0) as lab:
        slow, nic = await lab.driver(GPU), await lab.driver(NIC)
        slow.hang.clear()
        waiting = asyncio.create_task(lab.prepare(asks("p", claim("a"))))
        await until("asked", lambda: slow.called("prepare"))
        await lab.prepare(asks("q", claim("b", NIC)))
        with pytest.raises(DriverFailed, match="NodePrepareResources: rpc error: code = DeadlineExceeded"):
            await waiting
        again = asyncio.create_task(lab.prepare(asks("p", claim("a"))))
        await until("asked again", lambda: len(slow.called("prepare")) == 2)
        await lab.unprepare("p")
        with pytest.raises(Exception, match="is ending"):
            await again
        assert slow.uids("unprepare") == [["a-uid"]]
        assert nic.called("unprepare") == []


async def test_a_restart_prepares_again_for_the_next_sandbox_and_gives_back_what_is_gone() -> None:
    """S44, S45: devices is killed; p goes on with what it has, q's next sandbox renews, r was deleted meanwhile."""

    async with running_lab() as lab:
        driver = await lab.driver()
        for pod in "pqr":
            await lab.prepare(asks(pod, claim(f"of-{pod}")))
        await lab.end_life()
        await lab.open()
        await lab.connected(GPU)
        known = await lab.prepare(asks("p", claim("of-p"), renew=False))
        assert known.cdi_devices == {"c": (f"{GPU}/device=dev-0",)}
        assert len(driver.called("prepare")) == 3
        await lab.prepare(asks("q", claim("of-q")))
        assert driver.uids("prepare")[3:] == [["of-q-uid"]]
        driver.claim_errors["of-r-uid"] = "not yet"
        lab.manager.reconcile({"p"})
        await until("tried", lambda: len(driver.called("unprepare")) >= 2)
        driver.claim_errors.clear()
        await until("given back", lambda: "of-r" not in lab.checkpoint.read_text())
        assert {uid for uids in driver.uids("unprepare") for uid in uids} == {"of-r-uid"}  # q was asked for just now


async def test_a_manager_that_has_just_begun_gives_drivers_time_to_come_back() -> None:
    async with running_lab(reconnect_wait=20.0) as lab:
        waiting = asyncio.create_task(lab.prepare(asks("p", claim("a"))))
        await asyncio.sleep(0.1)
        driver = await lab.driver()
        await waiting
        assert len(driver.called("prepare")) == 1


async def test_a_lost_or_corrupt_file_is_made_anew_from_what_pods_hold() -> None:
    async with running_lab() as lab:
        driver = await lab.driver()
        for pod in "pq":
            await lab.prepare(asks(pod, claim("shared"), claim(f"of-{pod}")))
        await lab.end_life()
        lab.checkpoint.write_text("rubbish")
        await lab.open()
        ((reason, line),) = lab.told
        assert (reason, "renamed to" in line, "3 claims" in line) == ("ClaimCheckpoint", True, True)
        await lab.connected(GPU)
        await lab.unprepare("p")
        assert driver.uids("unprepare") == [["of-p-uid"]]
        del lab.shown["p"]
        await lab.end_life()
        lab.checkpoint.unlink()
        await lab.open()
        await lab.connected(GPU)
        await lab.unprepare("q")
        assert driver.uids("unprepare")[1:] == [["of-q-uid", "shared-uid"]]


@pytest.mark.scenario("S45")
async def test_unprepare_fails_waits_for_its_driver_and_works_in_the_end() -> None:
    """S45, and S47's reconnect: the driver is away when the pod ends."""

    async with running_lab() as lab:
        driver = await lab.driver()
        await lab.prepare(asks("p", claim("a")))
        driver.claim_errors["a-uid"] = "busy"
        with pytest.raises(DriverFailed, match="NodeUnprepareResources failed for ResourceClaim a: busy"):
            await lab.unprepare("p")
        await driver.stop()
        await until("off", lambda: not lab.registered.items[GPU].endpoints)
        with pytest.raises(DriverMissing, match=f"DRA driver {GPU} is not registered"):
            await lab.unprepare("p")
        driver.claim_errors.clear()
        await driver.start()
        await lab.connected(GPU)
        await lab.unprepare("p")
        assert lab.manager.drivers.serving(GPU).connected


@pytest.mark.scenario("S49")
async def test_two_instances_the_newest_that_answers_is_used() -> None:
    """S49: a rolling update, and back when the new one fails."""

    async with running_lab() as lab:
        old = await lab.driver(instance="-old")
        new = await lab.driver(instance="-new")
        serving = lab.manager.drivers.serving
        await until("the new one serves", lambda: serving(GPU).options.endpoint == str(new.socket))
        await lab.prepare(asks("p", claim("a")))
        assert (len(old.called("prepare")), len(new.called("prepare"))) == (0, 1)
        await new.stop()
        await until("one left", lambda: lab.registered.items[GPU].endpoints == (str(old.socket),))
        await lab.unprepare("p")
        assert len(old.called("unprepare")) == 1
        assert lab.registered.items[GPU].connected
        for number in range(20):
            await lab.manager.drivers.register(GPU, f"/nowhere/{number}", ["v1.DRAPlugin"])
        assert len(lab.manager.drivers._instances[GPU]) == 16
        assert lab.manager.drivers.serving(GPU).options.endpoint == str(old.socket)
        twice = lab.stub(instance="-twice")
        twice.info.endpoint = str(old.socket)
        await twice.register()
        await until("told", lambda: twice.told)
        assert twice.told[0].error.endswith(f"endpoint {old.socket} already registered for DRA driver plugin {GPU}")


@pytest.mark.scenario("S47")
async def test_the_service_may_come_after_its_registration_and_on_the_same_socket() -> None:
    """S47, with an old driver that speaks v1beta1 alone."""

    async with running_lab() as lab:
        late = lab.stub(GPU)
        late.version = DRA_V1BETA1
        late.info.supported_versions[:] = [DRA_V1BETA1, HEALTH_V1]
        late.health = []
        await late.register()
        await until("registered", lambda: GPU in lab.registered.items)
        assert not lab.registered.items[GPU].connected
        with pytest.raises(DriverFailed, match="NodePrepareResources: rpc error: code = Unavailable"):
            await lab.prepare(asks("p", claim("a")))
        await late.serve()
        await lab.connected(GPU)
        await lab.prepare(asks("p", claim("a")))
        assert lab.registered.items[GPU].version == DRA_V1BETA1
        await until("health heard", lambda: late.streams)
        assert connections(late.socket) == 1
        common = lab.stub(NIC)
        await common.start_on_one_socket()
        await lab.connected(NIC)
        await lab.prepare(asks("q", claim("b", NIC)))


def connections(socket: Path) -> int:
    """Accepted at this socket, by the kernel's word."""
    lines = (line.split() for line in Path("/proc/net/unix").read_text().splitlines())
    return sum(1 for words in lines if len(words) == 8 and words[7] == str(socket) and words[5] == "03")


async def test_a_disk_that_refuses_keeps_drivers_unasked() -> None:
    async with running_lab() as lab:
        driver = await lab.driver()
        lab.checkpoint.mkdir()
        with pytest.raises(Exception, match="cannot write the claim checkpoint"):
            await lab.prepare(asks("p", claim("a")))
        assert driver.called("prepare") == []
        lab.checkpoint.rmdir()
        await lab.prepare(asks("p", claim("a")))
        await lab.unprepare("p")
