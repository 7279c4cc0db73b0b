"""What plugins, drivers, a kubelet and large pods may cost the device manager, health and adopt."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from actors.adopt.allocation_diff import diff_steps
from actors.devices.admission.chooser import Chooser
from actors.devices.admission.grants import GrantMerger, pod_steps
from actors.devices.dra import health as dra_health
from actors.devices.dra.driver_instance import MAX_ERROR_LENGTH, PREPARE_METHOD, read_reply
from actors.devices.dra.errors import DriverFailed
from actors.devices.dra.health import SWEEP_S, DeviceReport, HealthCache
from actors.devices.model.errors import PluginFailed
from actors.devices.plugins.plugin import MAX_LISTED_NODES, devices_of
from actors.devices.topology.hints import DeviceRequest, Sorted, device_hints
from actors.pleg.state_machine.cri_status import RESTARTS, container_status
from protocols.lifecycle.devices.event_limiter import AllocatedDevice, Health, HealthEventLimiter
from protocols.lifecycle.devices.types import ClaimInfo
from protocols.messages.devices import AdmitPod, ContainerAllocation, ContainerRequest, PodAllocation
from protocols.messages.devices import AllocatedDevice as HeldDevice
from protocols.wire import cri_pb2
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire import dra_v1_pb2 as dra
from tests.support.growth import FACTOR, MOST, growth


def test_devices_of_a_list_beyond_its_bounds_is_refused() -> None:
    nodes = [pb.NUMANode(ID=0)] * (MAX_LISTED_NODES // 2 + 1)
    crowded = [pb.Device(ID=id, topology=pb.TopologyInfo(nodes=nodes)) for id in ("a", "b")]
    with pytest.raises(PluginFailed, match="NUMA nodes, the limit is"):
        devices_of(pb.ListAndWatchResponse(devices=crowded).SerializeToString())


def test_conflicts_of_two_plugins_are_one_warning_of_each_kind() -> None:
    merge = GrantMerger()
    for value in ("a", "b"):
        merge.add("r", pb.ContainerAllocateResponse(envs={f"{n:04}{'x' * 500}": value for n in range(1000)}))
    [conflict] = merge.conflicts
    assert conflict.endswith("... and 992 more")
    assert len(conflict) < 3000


def prepared(**answer: object) -> object:
    made = dra.NodePrepareResourcesResponse()
    made.claims["u"].CopyFrom(dra.NodePrepareResourceResponse(**answer))  # type: ignore[arg-type]
    return read_reply(PREPARE_METHOD, [ClaimInfo("ns", "c", "u")], made)


def test_read_reply_more_cdi_ids_than_a_checkpoint_takes_is_an_error() -> None:
    outcome = prepared(devices=[dra.Device(pool_name="p", device_name="d", cdi_device_ids=["v/c=" + "x" * 999] * 1100)])
    assert "bytes for ResourceClaim c" in str(outcome.error)  # type: ignore[attr-defined]
    assert not outcome.done  # type: ignore[attr-defined]


def unknown(size: int) -> Callable[[], object]:
    reply = dra.NodePrepareResourcesResponse(claims={str(n): dra.NodePrepareResourceResponse() for n in range(size)})
    return lambda: read_reply(PREPARE_METHOD, [ClaimInfo("ns", "c", "u")], reply)


def test_read_reply_results_for_unknown_claims_cost_no_more_than_one() -> None:
    assert growth(unknown, 1000) < FACTOR - 1


def test_read_reply_a_long_error_is_cut() -> None:
    assert len(str(prepared(error="x" * 100_000).error)) <= MAX_ERROR_LENGTH  # type: ignore[attr-defined]


def test_health_cache_more_devices_than_its_bound_end_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dra_health, "MAX_REPORTS", 3)
    cache = HealthCache(30.0)
    cache.open_stream("d", 1)
    cache.apply("d", 1, [DeviceReport("p", str(number), "Healthy") for number in range(3)], 0.0)
    with pytest.raises(DriverFailed, match="more than 3 devices"):
        cache.apply("d", 1, [DeviceReport("p", "3", "Healthy")], 0.0)


def test_health_cache_sweeps_expired_reports_once_in_a_while() -> None:
    cache = HealthCache(1.0)
    cache.open_stream("d", 1)
    reports = cache._streams["d"][1]
    cache.drop_expired("d", 1, 0.0)
    cache.apply("d", 1, [DeviceReport("p", "x", "Healthy")], 0.0)
    cache.drop_expired("d", 1, SWEEP_S - 1)
    assert reports.reports
    cache.drop_expired("d", 1, SWEEP_S)
    assert not reports.reports


def test_container_status_a_restart_count_of_many_digits_is_as_none() -> None:
    annotations = {RESTARTS: "9" * 5000}
    metadata = cri_pb2.ContainerMetadata(name="c", attempt=3)
    status = cri_pb2.ContainerStatus(id="x", metadata=metadata, annotations=annotations)
    assert container_status(status, "s").restart_count == 3


def events(size: int) -> Callable[[], object]:
    def work() -> None:
        limiter = HealthEventLimiter()
        for number in range(size):
            limiter.observe(AllocatedDevice("u", "c", "r", f"d{number}"), Health.UNHEALTHY, "", 0.0)
        assert len(limiter.due(0.0)) == 1

    return work


def test_event_of_many_devices_is_linear() -> None:
    assert growth(events, 500) < MOST


def fill(size: int) -> Callable[[], object]:
    ids = [f"d{number}" for number in range(2 * size)]
    chooser = Chooser(SimpleNamespace(placer=None))  # type: ignore[arg-type]
    found = Sorted(ids[:size], ids[size:], [])
    return lambda: chooser._fill("r", 2 * size, found, ()) if size else None


def test_fill_beyond_the_aligned_devices_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chooser, "_complete", lambda self, resource, need, ids, preferred: [])
    assert growth(fill, 1000) < MOST


def hints(size: int) -> Callable[[], object]:
    devices = {f"d{number}": (number % 8,) for number in range(size)}
    request = DeviceRequest(1, devices, (), devices)
    return lambda: device_hints(request, range(8))


def test_hints_cost_masks_and_not_masks_times_reused_devices() -> None:
    assert growth(hints, 5000) < MOST


def needs(size: int) -> Callable[[], object]:
    containers = [ContainerRequest(f"c{number}", "app", {f"e.com/r{number}": 1}) for number in range(size)]
    pod = AdmitPod("u", "ns", "p", tuple(containers))
    return lambda: pod_steps(pod)


def test_pod_steps_of_containers_with_resources_of_their_own_are_linear() -> None:
    assert growth(needs, 250) < MOST


def listed(size: int) -> Callable[[], object]:
    def pod(uid: str, device: int) -> PodAllocation:
        held = (HeldDevice("e.com/r", str(device)),)
        return PodAllocation(uid, "ns", uid, (ContainerAllocation("c", devices=held),))

    known = {f"u{number}": pod(f"u{number}", number) for number in range(size)}
    moved = {f"u{number}": pod(f"u{number}", number + size) for number in range(size)}
    return lambda: diff_steps(known, moved)


def test_diff_steps_of_many_pods_are_linear() -> None:
    assert growth(listed, 100) < MOST
