"""What each fault does to a simulated node: statuses of pods, the Node object, slices."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from actors.fleet.faults.choice import draws
from actors.fleet.faults.effects import Targets, apply, choose, describe
from actors.fleet.faults.script import Fault
from actors.fleet.simulated.pod import Pod
from protocols.messages.fleet import Hit
from protocols.process.scripts import Seconds
from tests.support.fleet_world import DRIVER, RESOURCE, FleetWorld

ONE = {"resources": {"limits": {RESOURCE: "1"}}}
USES = {"resources": {"claims": [{"name": "gpu"}]}}


@pytest.fixture
def world() -> FleetWorld:
    return FleetWorld()


@pytest.fixture
def plain(world: FleetWorld) -> Pod:
    """A pod with a device of a plugin."""
    return world.add("plain", ONE)


@pytest.fixture
def claiming(world: FleetWorld) -> Pod:
    """A pod with a device of a driver."""
    world.claim("c", "claiming", "gpu-1")
    return world.add("claiming", USES, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])


def inject(world: FleetWorld, random: random.Random | None = None, **fault: Any) -> tuple[Hit, Callable[[], Hit]]:
    """Let a fault happen; return what it hit, and what mends it."""
    made = Fault(**fault)
    targets = choose(made, {world.node.name: world.node}, world.pods, random or draws(0))
    return _hit(world, made, targets), lambda: _hit(world, made.end, targets)


def _hit(world: FleetWorld, fault: Fault, targets: Targets) -> Hit:
    apply(fault, targets, world.now_ns)
    world.settle()
    return describe(fault, targets, 1)


def health(world: FleetWorld, pod: Pod) -> tuple[str, str]:
    (entry,) = world.status(pod)["containerStatuses"][0]["allocatedResourcesStatus"]
    (device,) = entry["resources"]
    return device["health"], device.get("message", "")


def allocatable(world: FleetWorld) -> tuple[str, str]:
    status = world.node.status({}, "2027-01-15T08:00:00Z")
    return status["capacity"][RESOURCE], status["allocatable"][RESOURCE]


def devices_published(world: FleetWorld) -> list[tuple[int, int]]:
    """Return generation and number of devices of each slice."""
    specs = [obj["spec"] for obj in world.node.slices({})]
    return [(spec["pool"]["generation"], len(spec["devices"])) for spec in specs]


def test_device_of_plugin_breaks_and_heals(world: FleetWorld, plain: Pod) -> None:
    hit, mend = inject(world, plugin=RESOURCE, health="Unhealthy", devices="gpu-0", message="hot", lasts=Seconds(3))
    assert hit.text == f"1 of 1 nodes: {RESOURCE} Unhealthy (1 devices, 1 pods)"
    assert (health(world, plain), allocatable(world)) == (("Unhealthy", "hot"), ("4", "3"))
    assert mend().text == f"1 of 1 nodes: {RESOURCE} Healthy (1 devices, 1 pods)"
    assert (health(world, plain), allocatable(world)) == (("Healthy", ""), ("4", "4"))


def test_device_that_no_pod_holds_changes_no_status(world: FleetWorld, plain: Pod) -> None:
    hit, _ = inject(world, plugin=RESOURCE, health="Unhealthy", devices="gpu-3")
    assert (hit.devices, hit.pods, health(world, plain)) == (1, 0, ("Healthy", ""))


@pytest.mark.parametrize("state", ["Unhealthy", "Unknown"])
def test_device_of_driver_breaks_and_heals(world: FleetWorld, claiming: Pod, state: str) -> None:
    hit, mend = inject(world, driver=DRIVER, health=state, message="hot")
    assert (hit.devices, hit.pods, health(world, claiming)) == (4, 1, (state, "hot"))
    mend()
    assert health(world, claiming) == ("Healthy", "")
    assert devices_published(world) == [(1, 4)]


def test_health_reported_while_plugin_is_gone_shows_once_it_is_back(world: FleetWorld, plain: Pod) -> None:
    inject(world, plugin=RESOURCE, state="gone")
    assert (health(world, plain)[0], allocatable(world)) == ("Unknown", ("4", "0"))
    inject(world, plugin=RESOURCE, health="Unhealthy", message="hot")
    assert health(world, plain) == ("Unknown", "device plugin is not connected")
    world.advance(3)
    inject(world, plugin=RESOURCE, state="back")
    assert health(world, plain) == ("Unhealthy", "hot")


def test_plugin_that_is_gone_for_long_is_in_no_capacity(world: FleetWorld, plain: Pod) -> None:
    _, mend = inject(world, plugin=RESOURCE, state="gone")
    found = []
    for seconds in (299, 2):
        world.advance(seconds)
        world.node.devices.expire(world.now_ns / 1e9)
        found.append(allocatable(world))
    assert found == [("4", "0"), ("0", "0")]
    assert health(world, plain)[0] == "Unknown"
    mend()
    assert (health(world, plain)[0], allocatable(world)) == ("Healthy", ("4", "4"))


def test_driver_that_is_gone_publishes_nothing_until_it_is_back(world: FleetWorld, claiming: Pod) -> None:
    inject(world, driver=DRIVER, health="Unhealthy", message="hot")
    _, mend = inject(world, driver=DRIVER, state="gone")
    assert health(world, claiming) == ("Unknown", "DRA driver is not connected")
    assert devices_published(world) == []
    ((driver, names),) = world.node.gone_drivers()
    assert (driver.gone_ns, names) == (world.now_ns, [f"gpu-0-{DRIVER}-0"])
    world.advance(3)
    mend()
    assert (health(world, claiming), devices_published(world)) == (("Unhealthy", "hot"), [(1, 4)])
    assert world.node.gone_drivers() == []


def test_slices_are_published_again_without_some_devices(world: FleetWorld, claiming: Pod) -> None:
    hit, _ = inject(world, slices="republish", without="50%")
    assert hit.text == "1 of 1 nodes: slices of all drivers republished (2 devices, 1 pods)"
    assert devices_published(world) == [(2, 2)]
    assert health(world, claiming)[0] == "Healthy"
    inject(world, slices="republish", driver=DRIVER)
    assert devices_published(world) == [(3, 4)]


def test_share_of_pods_crashes_with_an_exit_code(world: FleetWorld) -> None:
    pods = [world.add(f"p{n}") for n in range(4)]
    hit, _ = inject(world, crash="50%", exit_code=3)
    statuses = [world.status(pod)["containerStatuses"][0] for pod in pods]
    crashed = [status for status in statuses if status["lastState"]]
    assert (hit.pods, len(crashed)) == (2, 2)
    assert {each["lastState"]["terminated"]["exitCode"] for each in crashed} == {3}
    world.advance(11)
    assert sorted(world.status(pod)["containerStatuses"][0]["restartCount"] for pod in pods) == [0, 0, 1, 1]


def test_crash_of_a_pod_that_never_restarts_ends_it(world: FleetWorld) -> None:
    pod = world.add("p", restartPolicy="Never")
    inject(world, crash="100%", exit_code=3)
    assert world.status(pod)["phase"] == "Failed"
    assert inject(world, crash="100%")[0].pods == 0


def test_pods_are_drawn_by_name_whatever_their_uids(world: FleetWorld) -> None:
    for n in range(9):
        world.add(f"p{n}")
    fault = Fault(crash="40%")

    def crashing() -> list[str]:
        return [pod.name for pod in choose(fault, {"gpu-0": world.node}, world.pods, draws(7)).pods]

    before = crashing()
    for number, pod in enumerate(list(world.pods.values())):
        world.node.pods.discard(pod.uid)
        pod.uid = f"{9 - number}"
        world.node.pods.add(pod.uid)
    world.pods = {pod.uid: pod for pod in world.pods.values()}
    assert crashing() == before


def test_silent_node_holds_its_pods(world: FleetWorld, plain: Pod) -> None:
    hit, mend = inject(world, node="silent")
    assert (hit.text, world.node.silent) == ("1 of 1 nodes: silent (0 devices, 1 pods)", True)
    assert (mend().text, world.node.silent) == ("1 of 1 nodes: back (0 devices, 1 pods)", False)


@pytest.mark.parametrize(
    ("selector", "nodes"),
    [("rack=rack-0", 1), ("rack!=rack-0", 0), ("kubernetes.io/hostname in (gpu-0,x)", 1), ("added", 0)],
)
def test_nodes_are_selected_by_labels(selector: str, nodes: int) -> None:
    world = FleetWorld(labels={"rack": "rack-{n}"})
    assert inject(world, node="silent", selector=selector)[0].nodes == nodes
    world.node.object = {}
    assert inject(world, node="silent", selector="rack=rack-0")[0].nodes == 1


def test_node_without_the_driver_is_not_hit(world: FleetWorld) -> None:
    assert inject(world, driver="other.example.com", health="Unhealthy")[0].nodes == 0
    assert inject(world, plugin="example.com/other", state="gone")[0].nodes == 0
