"""KEP-4680's planned tests on a whole plane, for device plugins and DRA, with a crash at every change (S51 to S58).

One plane for all of it; NODEPLANE_CRASH_SEED fixes the moments of the crashes.
"""

import json
import random
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.health_plane import (
    DRIVER,
    FIELD,
    NIC,
    Health,
    HealthPlane,
    devices_of,
    nic_class,
    nic_pod,
    nic_template,
)
from tests.support.plane import BIN, REPO, Plane, stop, until
from tests.support.seed import ROUNDS, SEED
from tests.support.watchers import ApiWatcher

CRASHES = (
    ("devices",),
    ("health",),
    ("podworker",),
    ("apiserver-0",),
    ("devices", "health", "podworker", "apiserver-0"),
)
OVER = ("failed", "burnt")
DOCTOR = REPO / "examples" / "device-doctor" / "doctor.py"


def known(shown: dict[str, Health]) -> set[str]:
    """Of the pods that are over."""
    return {health for name in OVER for health in shown.get(name, {"": ""}).values()}


@pytest.fixture(scope="module")
def made() -> Iterator[HealthPlane]:
    with Plane() as plane:
        made = HealthPlane(plane)
        try:
            made.start()
            yield made
        finally:
            made.close()


def test_where_each_device_stands(made: HealthPlane) -> None:
    """S57: a claim of two containers and two pods stands in all, one of no container in the pod's own status."""
    status = made.plane.get("pod", "claims")["status"]
    entries = {one["name"]: [entry["name"] for entry in one[FIELD]] for one in status["containerStatuses"]}
    assert entries == {"main": ["claim:gpu/gpu"], "beside": ["claim:gpu"]}
    assert [entry["name"] for entry in status[FIELD]] == ["claim:spare"]
    assert sorted(devices_of(status)) == [f"{DRIVER}/n1/dev-0", f"{DRIVER}/n1/dev-1"]
    assert made.shown()["shares"] == {f"{DRIVER}/n1/dev-0": "Healthy"}
    assert "allocatedResourcesStatus" in made.plane.kubectl("explain", "pod.status.containerStatuses")


@pytest.mark.timeout(240 * ROUNDS)
def test_every_change_is_shown_whoever_dies_meanwhile(made: HealthPlane) -> None:
    """S51, S53, S54, S56: running, crashing, waiting and failed pods alike."""
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    for number, victims in enumerate(CRASHES * ROUNDS):
        state = "Healthy" if number % 2 else "Unhealthy"
        striker = threading.Timer(dice.uniform(0, 0.1), made.kill, victims)
        striker.start()
        time.sleep(dice.uniform(0, 0.3))
        made.set(state)
        made.expect(f"{state} everywhere with {victims} killed (seed {SEED})", made.all_are(state))
        striker.join()
    made.set("Healthy")
    made.expect("well again", made.all_are("Healthy"))
    made.plane.settled()


def test_a_quick_flap_ends_in_the_latest_at_few_writes(made: HealthPlane) -> None:
    """S52: ten changes in a tenth of a second."""
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


@pytest.mark.timeout(240 * ROUNDS)
def test_a_flap_in_which_somebody_dies_ends_in_the_latest(made: HealthPlane) -> None:
    """S52, with a crash between two of the changes."""
    dice = random.Random(SEED)
    for victims in dice.sample(CRASHES * ROUNDS, 2 * ROUNDS):
        struck, latest = dice.randrange(10), dice.choice(("Healthy", "Unhealthy"))
        for number in range(10):
            made.set_plugin("Healthy" if number % 2 else "Unhealthy")
            if number == struck:
                made.kill(*victims)
            time.sleep(0.01)
        made.set(latest)
        made.expect(f"the latest, {latest}, with {victims} killed (seed {SEED})", made.all_are(latest))
    made.set("Healthy")
    made.expect("well again", made.all_are("Healthy"))


def test_nobody_knows_any_more(made: HealthPlane) -> None:
    """S55, S56: who provides the devices goes, and some of us with it; pods that are over keep what was known."""
    dice = random.Random(SEED)
    striker = threading.Timer(dice.uniform(0, 0.3), made.kill, dice.choice(CRASHES))
    striker.start()
    stop(made.plugin)
    made.on_driver(made.driver.stop(deregister=False))
    made.expect(f"Unknown (seed {SEED})", made.all_are("Unknown", *OVER))
    striker.join()
    made.expect(f"what was known (seed {SEED})", lambda: known(made.shown()) == {"Healthy"})
    made.plugin = made.start_plugin()
    made.on_driver(made.driver.serve())
    made.kill(*dice.choice(CRASHES))
    made.expect(f"known again (seed {SEED})", made.all_are("Healthy"))


def test_what_somebody_else_writes_over_it_is_put_right(made: HealthPlane) -> None:
    """Soon, not at the next resync, a minute later."""
    plane, began = made.plane, time.monotonic()
    nothing = json.dumps([{"op": "remove", "path": f"/status/containerStatuses/0/{FIELD}"}])
    plane.kubectl("patch", "pod", "shares", "--subresource=status", "--type=json", "-p", nothing)
    made.expect("as it was", made.all_are("Healthy"))
    assert time.monotonic() - began < 50


def test_a_device_of_any_driver_can_be_forced(made: HealthPlane) -> None:
    """`nodeplane chaos device`, of a driver that knows nothing of it; acknowledged, it outlives the device manager."""
    device, plane = f"{DRIVER}/n1/dev-0", made.plane
    plane.nodeplane("chaos", "device", device, "unhealthy")
    made.kill("devices")
    made.expect("forced", lambda: made.shown().get("shares") == {device: "Unhealthy"})
    assert "forced by chaos" in plane.nodeplane("devices", "--drivers")
    plane.nodeplane("chaos", "device", device, "clear")
    made.expect("as its driver says", made.all_are("Healthy"))


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


def test_the_device_doctor_of_the_examples(made: HealthPlane) -> None:
    """Story 1 of the document: pods with a broken device land on a good one, of a plugin and of a DRA driver."""
    plane = made.plane
    plane.kubectl("delete", "pod", "waits", "failed", "burnt", "--wait=false")
    health = plane.root / "nic.health"
    driver = made.spawn(
        str(BIN / "nodeplane"), "dra-driver", "--driver", NIC, "--devices", "2", "--health-file", str(health)
    )
    plane.apply({"apiVersion": "v1", "kind": "List", "items": [nic_class(), nic_template(), nic_pod()]})
    plane.pod_ready("nic")
    plane.kubectl("label", "pod", "runs", "nic", "device-doctor=replace")
    doctor = [str(BIN / "kopf"), "run", "--standalone", "-n", "default", str(DOCTOR)]
    spawned = made.spawn(*doctor, KUBECONFIG=str(plane.root / "kubeconfig"), PATIENCE="0.2")
    made.expect(
        "the health of both", lambda: (shown := made.shown()) and all(shown.get(pod) for pod in ("runs", "nic"))
    )
    (gpu,), (nic,) = made.shown()["runs"], made.shown()["nic"]
    made.set_plugin("Unhealthy", gpu)
    health.write_text(f"{nic.rpartition('/')[2]} Unhealthy link down\n")
    for name, broken in (("runs", gpu), ("nic", nic)):
        plane.pod_ready(f"{name}-2", 90)
        until("the old one gone", lambda name=name: not plane.get("pod", name))
        until("healthy", lambda name=name: set(made.shown().get(f"{name}-2", {}).values()) == {"Healthy"})
        assert broken not in made.shown()[f"{name}-2"]
    assert plane.kubectl("get", "devicetaintrules", "-o", "name").split() == [
        "devicetaintrule.resource.k8s.io/unhealthy." + nic.replace("/", ".")
    ]
    stop(spawned)
    plane.kubectl("delete", "pod", "nic-2")
    stop(driver)
