"""KEP-4680's planned tests on a whole plane, for device plugins and DRA, with a crash at every change (S44 to S60).

One plane for all of it; NODEPLANE_CRASH_SEED fixes the moments of the crashes.
"""

import json
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from operator import not_
from typing import Any

import pytest

from protocols.process.settings import load_settings
from tests.support.health_plane import (
    DRIVER,
    FIELD,
    NIC,
    HealthPlane,
    container,
    devices_of,
    nic_class,
    nic_pod,
    nic_template,
    pod,
)
from tests.support.plane import BIN, REPO, Plane, stop, until
from tests.support.seed import ROUNDS, SEED
from tests.support.tampering import Tampering
from tests.support.two_drivers import POD, SILENT, TOLD, TwoDrivers
from tests.support.watchers import ApiWatcher

CRASHES = (
    ("devices",),
    ("health",),
    ("podworker",),
    ("apiserver-0",),
    ("devices", "health", "podworker", "apiserver-0"),
)
ENDS = tuple(("podworker", *others) for others in ((), ("health",), ("devices",), ("health", "devices")))
OVER = ("failed", "burnt")
DOCTOR = REPO / "examples" / "device-doctor" / "doctor.py"


def all_of(made: HealthPlane, state: str, *names: str) -> bool:
    shown = made.shown()
    return all(set(shown.get(name, {}).values()) == {state} for name in names)


@pytest.fixture(scope="module")
def made() -> Iterator[HealthPlane]:
    """A plane with a plugin, a driver and a pod in each state."""
    with Plane() as plane:
        made = HealthPlane(plane)
        try:
            made.start()
            yield made
        finally:
            made.close()


@pytest.mark.scenario("S57")
def test_where_each_device_stands(made: HealthPlane) -> None:
    """S57: a claim of two containers and two pods stands in all, one of no container in the pod's own status."""
    status = made.plane.get("pod", "claims")["status"]
    entries = {one["name"]: [entry["name"] for entry in one[FIELD]] for one in status["containerStatuses"]}
    assert entries == {"main": ["claim:gpu/gpu"], "beside": ["claim:gpu/gpu"]}
    assert [entry["name"] for entry in status[FIELD]] == ["claim:spare/gpu"]
    assert sorted(devices_of(status)) == [f"{DRIVER}/n1/dev-0", f"{DRIVER}/n1/dev-1"]
    assert made.shown()["shares"] == {f"{DRIVER}/n1/dev-0": "Healthy"}
    assert "allocatedResourcesStatus" in made.plane.kubectl("explain", "pod.status.containerStatuses")


def test_an_init_container_shows_its_device_until_it_completes(made: HealthPlane) -> None:
    """Else a pod that waits for a broken device shows nothing of it."""
    plane, ready = made.plane, made.plane.root / "ready"
    waits = container(f"while [ ! -e {ready} ]; do sleep 0.05; done", {"limits": {"example.com/gpu": 1}}, name="fetch")
    plane.apply(pod("starts", container("exec sleep 100000", {}), initContainers=[waits]))

    def init() -> dict[str, Any]:
        statuses = plane.get("pod", "starts").get("status", {}).get("initContainerStatuses") or [{}]
        return dict(statuses[0])

    def device() -> dict[str, str]:
        entries = init().get(FIELD) or [{}]
        return dict(entries[0].get("resources", [{}])[0])

    made.expect("its device", lambda: device().get("health") == "Healthy" and "running" in init()["state"])
    id_ = device()["resourceID"]
    made.set_plugin("Unhealthy", id_)
    made.expect("broken", lambda: device() == {"resourceID": id_, "health": "Unhealthy"})

    def reported() -> set[str]:
        events = plane.events(reason="DeviceUnhealthy")
        return {event["involvedObject"].get("fieldPath", "") for event in events if id_ in event["message"]}

    made.expect("the event", lambda: "spec.initContainers{fetch}" in reported())
    ready.touch()
    made.expect("completed", lambda: init().get("ready") and FIELD not in init())
    made.set_plugin("Healthy", id_)
    plane.delete("pod", "starts", wait=False)
    made.expect("it is gone", lambda: (shown := made.shown()) and "starts" not in shown)


@pytest.mark.scenario("S51", "S52", "S53", "S54")
def test_a_quick_flap_ends_in_the_latest_at_few_writes(made: HealthPlane) -> None:
    """S52: ten changes in a tenth of a second; S51, S53, S54, S56: running, crashing, waiting and failed pods alike.

    The simulation's profile `node` breaks devices while any of the node's actors dies.
    """
    pods, began = ApiWatcher(made.plane, "/api/v1/pods"), time.monotonic()
    for number in range(10):
        made.set_plugin("Healthy" if number % 2 else "Unhealthy")
        time.sleep(0.01)
    made.set("Unhealthy")
    made.expect("the latest", made.all_are("Unhealthy"))
    pods.close()
    assert len([event for event in pods.events if event.name == "runs"]) <= 5 + 2 * (time.monotonic() - began)
    made.set("Healthy")
    made.expect("well again", made.all_are("Healthy"))


@pytest.mark.scenario("S55")
def test_nobody_knows_any_more(made: HealthPlane) -> None:
    """S55, S56: who provides the devices goes; pods that are over show it, too."""
    stop(made.plugin)
    made.on_driver(made.driver.stop(deregister=False))
    made.expect("Unknown", made.all_are("Unknown"))
    made.plugin = made.start_plugin()
    made.on_driver(made.driver.serve())
    made.expect("known again", made.all_are("Healthy"))


def test_what_a_pod_had_is_known_whoever_dies_at_its_end(made: HealthPlane) -> None:
    """Nobody could be told of its end when it came: its device is free again, and the API has not heard why."""
    plane, dice, fire = made.plane, random.Random(SEED), made.plane.root / "fire"
    for victims in dice.sample(ENDS * ROUNDS, ROUNDS):
        burns = container(f"while [ ! -e {fire} ]; do sleep 0.05; done; exit 1", {"limits": {"example.com/gpu": 1}})
        plane.apply(pod("brief", burns, restartPolicy="Never"))
        made.expect("its device", lambda: set(made.shown().get("brief", {}).values()) == {"Healthy"})
        made.kill("apiserver-0", signal=signal.SIGSTOP)
        fire.touch()
        made.expect("free again", lambda: "brief" not in plane.nodeplane("devices"))
        made.kill(*victims)
        made.kill("apiserver-0")
        made.expect("its end", lambda: plane.get("pod", "brief").get("status", {}).get("phase") == "Failed")
        made.expect("still its device", lambda: set(made.shown().get("brief", {}).values()) == {"Healthy"})
        plane.delete("pod", "brief", wait=False)
        made.expect("it is gone", lambda: (shown := made.shown()) and "brief" not in shown)
        fire.unlink()


def test_what_somebody_else_writes_over_it_is_put_right(made: HealthPlane) -> None:
    """Soon, not at the next resync, a minute later."""
    plane, began = made.plane, time.monotonic()
    nothing = json.dumps([{"op": "remove", "path": f"/status/containerStatuses/0/{FIELD}"}])
    plane.kubectl("patch", "pod", "shares", "--subresource=status", "--type=json", "-p", nothing)
    made.expect("as it was", made.all_are("Healthy"))
    assert time.monotonic() - began < 50


@pytest.fixture
def tampered(made: HealthPlane) -> Iterator[Tampering]:
    """podworker's way to the API."""
    settings = load_settings(made.plane.root / "run" / "settings.json")
    proxy = Tampering(settings.layout, settings.api_url)
    made.on_driver(proxy.start())
    made.settings(api_url=proxy.url)
    made.kill("podworker")
    made.expect("podworker goes that way", lambda: proxy.passed)
    made.plane.settled(40)
    yield proxy
    made.settings(api_url=settings.api_url)
    made.kill("podworker")
    made.plane.settled(40)
    made.on_driver(proxy.stop())


def other_names(patch: dict[str, Any]) -> None:
    for status in patch["status"].get("containerStatuses", ()):
        for entry in status.get(FIELD, ()):
            entry["name"] = "example.com/not-asked-for"


def other_uid(patch: dict[str, Any]) -> None:
    patch["metadata"]["uid"] = "another"


def test_what_the_api_refuses_costs_its_own_pod_a_while_and_nothing_more(
    made: HealthPlane, tampered: Tampering
) -> None:
    """Its own 403 and 422, and a 429: tried again at a bounded rate, told in a line, shown in the end."""
    log, began = made.plane.root / "logs" / "podworker.log", time.monotonic()
    before = log.stat().st_size
    tampered.nobodys, tampered.asked_to_wait = {"runs"}, {"shares"}
    tampered.spoilt = {"claims": other_uid, "waits": other_names}
    made.set("Unhealthy")
    refused = {"runs": 403, "claims": 422, "shares": 429}
    made.expect("others go on", lambda: all_of(made, "Unhealthy", "crashes", *OVER))
    made.expect("all but its devices", lambda: tampered.refused("waits", 422) and made.shown().get("waits") == {})
    made.expect("tried again", lambda: all(tampered.refused(*one) > 1 for one in refused.items()))
    assert all_of(made, "Healthy", *refused)
    tampered.honest()
    made.expect("shown in the end", lambda: all_of(made, "Unhealthy", *refused))
    for name, code in (*refused.items(), ("waits", 422)):
        assert tampered.refused(name, code) <= 3 + 2 * (time.monotonic() - began)
    made.set("Healthy")
    made.expect("well again", made.all_are("Healthy"))
    for name in ("runs", "claims", "waits"):
        assert log.read_text()[before:].count(f"pod status not sent pod=default/{name} ") in (1, 2)


@pytest.fixture
def two(made: HealthPlane) -> Iterator[TwoDrivers]:
    """Two drivers beside the plane; one does not prepare at first."""
    two = TwoDrivers(made)
    two.silent.fail["prepare"] = "not yet"
    two.start()
    yield two
    two.close()


def test_claims_of_two_drivers_whoever_dies_at_each_step(made: HealthPlane, two: TwoDrivers) -> None:
    """S44, S45, S46: a driver fails; S49: another is replaced; S59, S60: the health of both."""
    dice, told, silent = random.Random(SEED), f"{TOLD}/n1/dev-0", f"{SILENT}/n1/dev-0"

    def shows(state: str) -> None:
        wanted = {told: state, silent: "Unknown"}
        made.expect(f"{state} (seed {SEED})", lambda: made.shown().get(POD) == wanted)

    made.expect("one driver fails", lambda: two.asked(two.silent, "prepare"))
    made.kill(*dice.choice(CRASHES))
    before = two.asked(two.silent, "prepare")
    made.expect(f"it is asked again (seed {SEED})", lambda: two.asked(two.silent, "prepare") > before)
    del two.silent.fail["prepare"]
    made.plane.pod_ready(POD, 60)
    shows("Healthy")
    made.expect("one device of each", lambda: two.devices_kept() == 2)
    made.kill(*dice.choice(CRASHES))
    two.say("Unhealthy")
    shows("Unhealthy")
    two.update()
    made.kill(*dice.choice(CRASHES))
    made.on_driver(two.told.stop())
    two.say("Healthy")
    shows("Healthy")
    two.silent.fail["unprepare"] = "busy"
    made.plane.delete("pod", POD, wait=False)
    made.expect("one driver does not let go", lambda: two.asked(two.silent, "unprepare"))
    made.kill(*dice.choice(CRASHES))
    before = two.asked(two.silent, "unprepare")
    made.expect(f"it is asked again to (seed {SEED})", lambda: two.asked(two.silent, "unprepare") > before)
    del two.silent.fail["unprepare"]
    made.expect(f"the pod is gone (seed {SEED})", lambda: (shown := made.shown()) and POD not in shown)
    assert not two.devices_kept()
    for name, driver in ((TOLD, two.second), (SILENT, two.silent)):
        assert [two.uids[name]] in driver.uids("unprepare")


def test_a_device_of_any_driver_can_be_forced(made: HealthPlane) -> None:
    """`nodeplane chaos device`, of a driver that knows nothing of it; acknowledged, it outlives the device manager."""
    device, plane = f"{DRIVER}/n1/dev-0", made.plane
    plane.chaos("device", device, "unhealthy")
    made.kill("devices")
    made.expect("forced", lambda: made.shown().get("shares") == {device: "Unhealthy"})
    assert "forced by chaos" in plane.nodeplane("devices", "--drivers")
    plane.chaos("device", device, "clear")
    made.expect("as its driver says", made.all_are("Healthy"))


@pytest.mark.scenario("S58")
def test_a_gate_that_is_off_and_on_again(made: HealthPlane) -> None:
    """S58, and the document's rollback: off, nothing is shown and nothing can be written; on again, it is back."""
    gated = ("apiserver-0", "podworker", "health")
    made.settings(feature_gates={"ResourceHealthStatus": False})
    made.kill(*gated)
    made.expect("nothing is shown", lambda: (shown := made.shown()) and not any(shown.values()))
    entry = {"name": "claim:spare", "resources": [{"resourceID": "x", "health": "Healthy"}]}
    patch = json.dumps({"status": {FIELD: [entry]}})
    made.plane.kubectl("patch", "pod", "claims", "--subresource=status", "--type=merge", "-p", patch)
    assert FIELD not in made.plane.get("pod", "claims")["status"]
    made.settings(feature_gates={})
    made.kill(*gated)
    made.expect("shown again", made.all_are("Healthy", *OVER))


@pytest.mark.heavy
def test_the_device_doctor_of_the_examples(made: HealthPlane) -> None:
    """Story 1 of the document: pods with a broken device land on a good one, of a plugin and of a DRA driver."""
    plane = made.plane
    plane.delete("pod", "waits", "failed", "burnt", wait=False)
    health = plane.root / "nic.health"
    driver = made.spawn(
        str(BIN / "nodeplane"), "dra-driver", "--driver", NIC, "--devices", "4", "--health-file", str(health)
    )
    backed = pod("backed", container("exec sleep 100000", {"limits": {f"deviceclass.resource.kubernetes.io/{NIC}": 1}}))
    plane.apply({"apiVersion": "v1", "kind": "List", "items": [nic_class(), nic_template(), nic_pod(), backed]})
    names = ("runs", "nic", "backed")
    for name in names:
        plane.pod_ready(name)
    plane.kubectl("label", "pod", *names, "device-doctor=replace")
    doctor = [str(BIN / "kopf"), "run", "--standalone", "-n", "default", str(DOCTOR)]
    spawned = made.spawn(*doctor, KUBECONFIG=str(plane.root / "kubeconfig"), PATIENCE="0.2")
    made.expect("the health of all", lambda: (shown := made.shown()) and all(shown.get(name) for name in names))
    (gpu,), (nic,), (port,) = (made.shown()[name] for name in names)
    made.set_plugin("Unhealthy", gpu)
    health.write_text("".join(f"{device.rpartition('/')[2]} Unhealthy link down\n" for device in (nic, port)))
    for name, broken in zip(names, (gpu, nic, port), strict=True):
        plane.pod_ready(f"{name}-2", 90)
        until("the old one gone", partial(plane.get, "pod", name), good=not_)
        until("healthy", lambda: set(made.shown().get(f"{name}-2", {}).values()) == {"Healthy"})  # noqa: B023 # used at once
        assert broken not in made.shown()[f"{name}-2"]
    rules = set(plane.kubectl("get", "devicetaintrules", "-o", "name").split())
    assert rules == {f"devicetaintrule.resource.k8s.io/unhealthy.{one.replace('/', '.')}" for one in (nic, port)}
    stop(spawned)
    plane.delete("pod", "nic-2", "backed-2")
    stop(driver)
