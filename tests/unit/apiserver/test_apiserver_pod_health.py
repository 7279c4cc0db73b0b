"""allocatedResourcesStatus at the API: what is refused, what a gate drops, and that what the node writes is taken."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.pods.health import drop_disabled, health_causes
from protocols.kinds.pods.pods import PodStrategy
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.meta import Object
from protocols.lifecycle.devices.status_table import pod_status
from protocols.lifecycle.status.device_health import HEALTH, Retention, health_entries
from protocols.messages.devices import AllocatedDevice, ClaimDevice, ContainerAllocation, PodAllocation, PreparedClaim
from protocols.messages.devices import DeviceHealth as Health
from protocols.messages.health import health_key, held_by

GPU = "example.com/gpu"
SHAPE: Any = kind_shape("", "v1", "Pod")


def pod(*entries: Mapping[str, object], field: str = "containerStatuses", name: str = "main", **status: Any) -> Object:
    claims = [{"name": "gpu"}, {"name": "nic", "request": "fast"}]
    container = {"name": "main", "resources": {"requests": {GPU: "1", "cpu": "1"}, "claims": claims}}
    spec = {
        "containers": [container],
        "initContainers": [{**container, "name": "side"}],
        "resourceClaims": [{"name": "gpu"}, {"name": "nic"}, {"name": "spare"}],
    }
    return {"spec": spec, "status": {field: [{"name": name, HEALTH: list(entries)}], **status}}


def entry(name: str = GPU, *devices: Object) -> Object:
    return {"name": name, "resources": list(devices) or [{"resourceID": "g1", "health": "Healthy"}]}


def texts(obj: Object) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in health_causes(obj)]


@pytest.mark.parametrize("name", [GPU, "cpu", "claim:gpu", "claim:gpu/any", "claim:nic/fast"])
def test_what_the_container_asks_for_is_taken(name: str) -> None:
    assert texts(pod(entry(name))) == []
    assert texts(pod(entry(name), field="initContainerStatuses", name="side")) == []


REQUESTS = "must match one of the container's resource requests"
CLAIMS = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
    "'claim:<claimName>' if request is empty"
)


@pytest.mark.parametrize("device", [{"health": "Healthy"}, {"resourceID": "", "health": "Healthy"}])
def test_a_device_without_id_is_refused(device: Object) -> None:
    """It was stored as "": an id must identify the device (KEP-4680)."""
    path = "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].resourceID"
    assert texts(pod(entry(GPU, device))) == [f"{path}: Required value"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("example.com/nic", REQUESTS),
        ("claim:nic", CLAIMS),
        ("claim:nic/slow", CLAIMS),
        ("claim:gpu/a/b", CLAIMS),
        ("claim:gpu/", CLAIMS),
        ("claim:", CLAIMS),
    ],
)
def test_other_names_are_refused(name: str, text: str) -> None:
    path = "status.containerStatuses[0].allocatedResourcesStatus[0].name"
    assert texts(pod(entry(name))) == [f'{path}: Invalid value: "{name}": {text}']
    assert texts(pod(entry(name), name="unknown-to-the-spec")) == []


def test_devices_are_judged_one_by_one() -> None:
    one = {"resourceID": "g1", "health": "Healthy"}
    sick = {"resourceID": "g1", "health": "PermanentlyUnhealthy", "message": ""}
    long = {"resourceID": "g2", "health": "Unknown", "message": "ä" * 513}
    path = "status.containerStatuses[0].allocatedResourcesStatus[0].resources"
    assert texts(pod(entry(GPU, one, sick, long))) == [
        f'{path}[1].health: Unsupported value: "PermanentlyUnhealthy": supported values: '
        '"Healthy", "Unhealthy", "Unknown"',
        f"{path}[1].message: Required value: must be non-empty if specified",
        f'{path}[1].resourceID: Duplicate value: "g1"',
        f"{path}[2].message: Too long: may not be more than 1024 bytes",
    ]
    assert texts(pod(entry(), entry())) == [
        f'status.containerStatuses[0].allocatedResourcesStatus[1].name: Duplicate value: "{GPU}"'
    ]


def test_ephemeral_containers_have_none() -> None:
    path = "status.ephemeralContainerStatuses[0].allocatedResourcesStatus"
    assert texts(pod(entry(), field="ephemeralContainerStatuses")) == [
        f"{path}: Forbidden: must not be specified in container status"
    ]


def test_the_pod_s_own_are_its_claims() -> None:
    assert texts(pod(allocatedResourcesStatus=[entry("claim:spare"), entry("claim:gpu")])) == []
    (text,) = texts(pod(allocatedResourcesStatus=[entry(GPU)]))
    assert text.startswith(
        'status.allocatedResourcesStatus[0].name: Invalid value: "example.com/gpu": must match one of'
    )


def gates(*off: str) -> Callable[[str], bool]:
    return lambda name: name not in off


def test_a_gate_that_is_off_drops_what_is_new_and_keeps_what_is_in_use() -> None:
    sick = {"resourceID": "g1", "health": "Unhealthy", "message": "ECC"}
    new, none = pod(entry(GPU, sick), allocatedResourcesStatus=[entry("claim:spare")]), pod()
    status = copy.deepcopy(new["status"])
    drop_disabled(status, none["status"], gates("ResourceHealthStatus"))
    assert status == {"containerStatuses": [{"name": "main"}]}
    status = copy.deepcopy(new["status"])
    drop_disabled(status, pod(entry())["status"], gates("ResourceHealthStatus"))
    assert status == new["status"]
    drop_disabled(status, pod(entry())["status"], gates("ResourceHealthStatusMessage"))
    assert status["containerStatuses"][0][HEALTH] == [entry(GPU, {"resourceID": "g1", "health": "Unhealthy"})]
    status = copy.deepcopy(new["status"])
    drop_disabled(status, new["status"], gates("ResourceHealthStatusMessage"))
    assert status == new["status"]
    drop_disabled(status, {}, gates())
    assert status == new["status"]


def test_through_the_strategy() -> None:
    strategy, old = PodStrategy(), {**pod(), "metadata": {}}
    strategy.gate = gates("ResourceHealthStatus")
    new = {**pod(entry()), "metadata": {}}
    strategy.prepare_status(new, old)
    assert HEALTH not in new["status"]["containerStatuses"][0]
    assert strategy.validate_status({**pod(entry("x/y"))}, old)


def test_own_entries_merge_by_name_and_their_devices_are_replaced() -> None:
    before = pod(allocatedResourcesStatus=[entry("claim:gpu"), entry("claim:spare")])
    sick = entry("claim:gpu", {"resourceID": "g2", "health": "Unhealthy"})
    patch = {"status": {HEALTH: [sick, {"name": "claim:spare", "$patch": "delete"}]}}
    assert apply_strategic_patch(SHAPE, before, patch)["status"][HEALTH] == [sick]


def test_how_the_lists_are_keyed() -> None:
    status = SHAPE.fields["status"]
    owned, of_container = status.fields[HEALTH], status.fields["containerStatuses"].item.fields[HEALTH]
    for entries in (owned, of_container):
        assert (entries.keys, entries.patch) == (("name",), ("merge", "name"))
        devices = entries.item.fields["resources"]
        assert (devices.keys, devices.patch) == (("resourceID",), ("", ""))


texts_of_drivers = st.text(max_size=30).map(lambda text: text * 60)
devices = st.lists(
    st.builds(
        ClaimDevice,
        driver=st.just("drv.example.com"),
        pool=st.just("p"),
        device=st.sampled_from(["d0", "d1"]),
        requests=st.lists(st.sampled_from(["fast", "slow/sub"]), max_size=2).map(tuple),
    ),
    max_size=4,
).map(tuple)


@st.composite
def claims_of(draw: st.DrawFn, names: list[str]) -> tuple[PreparedClaim, ...]:
    return tuple(
        PreparedClaim("ns", f"c-{name}", "u", draw(devices), (name,)) for name in draw(st.sets(st.sampled_from(names)))
    )


@pytest.mark.scenario("S61")
@given(
    plugin_ids=st.lists(st.sampled_from("abc"), max_size=4),
    claims=claims_of(["gpu", "nic/fast"]),
    own=claims_of(["spare"]),
    told=st.dictionaries(
        st.sampled_from([health_key(GPU, "a"), health_key("claim:", "drv.example.com/p/d0")]),
        st.builds(
            Health,
            resource=st.just(""),
            id=st.just(""),
            health=st.sampled_from(["Healthy", "Unhealthy", "Unknown", "Gone", ""]),
            message=texts_of_drivers,
        ),
    ),
    keep=st.sampled_from(Retention),
)
def test_every_status_the_node_writes_is_taken(
    plugin_ids: list[str],
    claims: tuple[PreparedClaim, ...],
    own: tuple[PreparedClaim, ...],
    told: dict[str, Health],
    keep: Retention,
) -> None:
    held = tuple(AllocatedDevice(GPU, one) for one in plugin_ids)
    main = ContainerAllocation(name="main", devices=held, claims=claims)
    status = pod_status("u", held_by(PodAllocation("u", "ns", "p", (main,), own)), told)
    shown = health_entries(status.containers.get("main", ()), {}, keep)
    obj = pod(*shown, allocatedResourcesStatus=health_entries(status.pod, {}, keep))
    assert texts(obj) == []
    assert msgspec.json.decode(msgspec.json.encode(obj)) == obj
