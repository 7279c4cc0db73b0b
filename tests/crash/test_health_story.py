"""KEP-4680's planned tests on a whole plane, for device plugins and DRA, with a crash at every change (S51 to S58).

One plane for all of it; NODEPLANE_CRASH_SEED fixes the moments of the crashes.
"""

import json
import random
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.health_plane import DRIVER, FIELD, HealthPlane, devices_of
from tests.support.plane import Plane, stop, until
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
    """S57: a claim of two containers stands in both, one of no container in the pod's own status."""
    status = made.plane.get("pod", "claims")["status"]
    entries = {one["name"]: [entry["name"] for entry in one[FIELD]] for one in status["containerStatuses"]}
    assert entries == {"main": ["claim:gpu/gpu"], "beside": ["claim:gpu"]}
    assert [entry["name"] for entry in status[FIELD]] == ["claim:spare"]
    assert sorted(devices_of(status)) == [f"{DRIVER}/n1/dev-0", f"{DRIVER}/n1/dev-1"]
    assert "allocatedResourcesStatus" in made.plane.kubectl("explain", "pod.status.containerStatuses")


@pytest.mark.timeout(240 * ROUNDS)
def test_every_change_is_shown_whoever_dies_meanwhile(made: HealthPlane) -> None:
    """S51, S53, S54, S56: running, crashing, waiting and failed pods alike."""
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    for victims in CRASHES * ROUNDS:
        for state in ("Unhealthy", "Healthy"):
            striker = threading.Timer(dice.uniform(0, 0.1), made.kill, victims)
            striker.start()
            time.sleep(dice.uniform(0, 0.3))
            made.set(state)
            until(f"{state} everywhere with {victims} killed (seed {SEED})", made.all_are(state), 40, every=0.1)
            striker.join()
    made.plane.settled()


def test_a_quick_flap_ends_in_the_latest_at_few_writes(made: HealthPlane) -> None:
    """S52: ten changes in a tenth of a second."""
    pods = ApiWatcher(made.plane, "/api/v1/pods")
    for number in range(10):
        made.set_plugin("Healthy" if number % 2 else "Unhealthy")
        time.sleep(0.01)
    made.set("Unhealthy")
    until("the latest", made.all_are("Unhealthy"), every=0.1)
    pods.close()
    assert len([event for event in pods.events if event.name == "runs"]) <= 8
    made.set("Healthy")
    until("well again", made.all_are("Healthy"), every=0.1)


def test_nobody_knows_any_more(made: HealthPlane) -> None:
    """S55, S56: who provides the devices goes; pods that are over keep what was known."""
    stop(made.plugin)
    made.on_driver(made.driver.stop(deregister=False))
    until("Unknown", made.all_are("Unknown", *OVER), every=0.1)
    shown = made.shown()
    assert {health for name in OVER for health in shown[name].values()} == {"Healthy"}
    made.plugin = made.start_plugin()
    made.on_driver(made.driver.serve())
    until("known again", made.all_are("Healthy"), 30, every=0.1)


def test_a_gate_that_is_off_and_on_again(made: HealthPlane) -> None:
    """S58, and the document's rollback: off, nothing is shown and nothing can be written; on again, it is back."""
    gated = ("apiserver-0", "podworker", "health")
    made.settings(feature_gates={"ResourceHealthStatus": False})
    made.kill(*gated)
    until("nothing is shown", lambda: (shown := made.shown()) and not any(shown.values()), 30, every=0.1)
    entry = {"name": "claim:spare", "resources": [{"resourceID": "x", "health": "Healthy"}]}
    patch = json.dumps({"status": {FIELD: [entry]}})
    made.plane.kubectl("patch", "pod", "claims", "--subresource=status", "--type=merge", "-p", patch)
    assert FIELD not in made.plane.get("pod", "claims")["status"]
    made.settings(feature_gates={})
    made.kill(*gated)
    running = made.all_are("Healthy", *OVER)
    until("shown again", running, 30, every=0.1)
