"""Claims on the node: their cache, their file, whose device is whose, and what an answer of a driver means."""

import asyncio
import json
import threading
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.dra.claim_cache import ClaimCache, cdi_devices
from actors.devices.dra.claim_checkpoint import ClaimFile, ClaimWriter, ClaimWriterOptions, decode, encode
from actors.devices.dra.driver_instance import PREPARE_METHOD, choose_health, choose_service, read_reply
from actors.devices.dra.errors import ClaimConflict, ClaimStateCorrupt
from actors.devices.model.errors import RegistrationRejected
from protocols.lifecycle.devices.claims import pod_claims
from protocols.lifecycle.devices.types import ClaimInfo, PreparedDevice
from protocols.messages.devices import ClaimReference, PodClaim, PrepareClaims
from protocols.wire import dra_v1_pb2 as v1
from protocols.wire import dra_v1beta1_pb2 as v1beta1
from tests.support.dra_lab import GPU, NIC, asks, claim

DEVICE = PreparedDevice("pool-a", "dev-0", ("req",), ("example.com/gpu=0",), "s-1")


def test_the_file_is_kubelets() -> None:
    info = ClaimInfo("ns", "c", "u-1", {"p-1"}, {GPU: (DEVICE,)})
    outer = json.loads(encode([info]))
    assert outer["Checksum"] == zlib.crc32(outer["Data"].encode())
    assert json.loads(outer["Data"]) == {
        "kind": "DRACheckpoint",
        "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
        "ClaimInfoStateList": [
            {
                "ClaimUID": "u-1",
                "ClaimName": "c",
                "Namespace": "ns",
                "PodUIDs": {"p-1": {}},
                "DriverState": {
                    GPU: {
                        "Devices": [
                            {
                                "PoolName": "pool-a",
                                "DeviceName": "dev-0",
                                "ShareID": "s-1",
                                "RequestNames": ["req"],
                                "CDIDeviceIDs": ["example.com/gpu=0"],
                            }
                        ]
                    }
                },
            }
        ],
    }
    assert json.loads(json.loads(encode([]))["Data"])["ClaimInfoStateList"] is None
    assert decode(encode([info])) == [info]
    assert decode(encode([])) == []


@pytest.mark.parametrize("raw", [b"", b"{}", b"rubbish", b'{"Data":"{}","Checksum":1}', b'{"Data":1,"Checksum":1}'])
def test_a_corrupt_file_is_kept_aside_and_said_aloud(raw: bytes, tmp_path: Path) -> None:
    file = ClaimFile(tmp_path / "dra_manager_state")
    file.path.write_bytes(raw)
    with pytest.raises(ClaimStateCorrupt):
        decode(raw)
    claims, trouble = file.load()
    assert (claims, file.path.exists()) == (None, False)
    assert "is corrupt" in trouble
    assert (tmp_path / "dra_manager_state.corrupt").read_bytes() == raw
    assert file.load() == (None, "")


def test_directory_in_the_place_of_the_file_is_kept_aside(tmp_path: Path) -> None:
    file = ClaimFile(tmp_path / "dra_manager_state")
    file.path.mkdir()
    claims, trouble = file.load()
    assert claims is None
    assert "is no regular file; renamed to" in trouble
    assert file.load() == (None, "")


def test_loaded_claims_are_not_prepared_but_have_their_devices() -> None:
    cache = ClaimCache(decode(encode([ClaimInfo("ns", "c", "c-uid", {"p"}, {GPU: (DEVICE,)}, {GPU})])))
    (loaded,) = cache.claims.values()
    assert not loaded.done
    assert {name.text for name in cache.devices()} == {f"{GPU}/pool-a/dev-0"}
    assert cache.in_use() == {"<any>": 0}
    cache.prepared(cache.add("p", claim("c")), GPU, (DEVICE,))
    assert cache.in_use() == {"<any>": 1, GPU: 1}


def test_a_claim_made_anew_under_an_old_name_is_refused() -> None:
    cache = ClaimCache()
    cache.add("p", claim("c", uid="old"))
    with pytest.raises(ClaimConflict) as refused:
        cache.add("q", claim("c", uid="new"))
    assert str(refused.value) == (
        "old ResourceClaim with same name c and different UID old still exists (previous pod force-deleted?!)"
    )


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("pqr"), st.sampled_from("abc")), max_size=40))
def test_a_claim_is_given_back_exactly_when_its_last_pod_leaves(steps: list[tuple[bool, str, str]]) -> None:
    cache, users = ClaimCache(), {name: set[str]() for name in "abc"}
    for enter, pod, name in steps:
        if enter:
            cache.add(pod, claim(name))
            users[name].add(pod)
        else:
            given_back = {item.name for item in cache.remove_pod(pod)}
            assert given_back == {name for name, pods in users.items() if pods == {pod}}
            for item in list(cache.of_pod(pod)):
                cache.remove(item)
            for pods in users.values():
                pods.discard(pod)
        assert {item.name: item.pods for item in cache.claims.values()} == {k: v for k, v in users.items() if v}


def test_a_driver_that_answers_again_does_not_add_up() -> None:
    """Upstream's #141335: each retry appended the same devices once more."""
    cache = ClaimCache()
    info = cache.add("p", claim("c"))
    for _ in range(20):
        cache.prepared(info, GPU, (DEVICE,) * 3)
    assert len(info.drivers[GPU]) == 3


def test_containers_get_the_devices_of_the_requests_they_name() -> None:
    one = PreparedDevice("n1", "a", ("big",), ("v/c=a", "v/c=both"))
    two = PreparedDevice("n1", "b", ("small/sub",), ("v/c=b", "v/c=both"))
    every = PreparedDevice("n1", "c", (), ("v/c=c",))
    info = ClaimInfo("ns", "claim-x", "u", {"p"}, {GPU: (one, two, every)})
    asked = PrepareClaims(
        uid="p",
        namespace="ns",
        name="p",
        claims=(
            PodClaim("gpu", "ns", "claim-x", "u"),
            PodClaim("spare", "ns", "claim-y", "v"),
            PodClaim("", "ns", "p-ext", "w"),
        ),
        references=(
            ClaimReference("first", "gpu", "big"),
            ClaimReference("fifth", "", "r0", "example.com/gpu"),
            ClaimReference("second", "gpu", "small/sub"),
            ClaimReference("third", "gpu"),
            ClaimReference("fourth", "gpu", "big"),
            ClaimReference("fourth", "gpu", "small"),
        ),
    )
    backing = ClaimInfo("ns", "p-ext", "w", {"p"}, {GPU: (PreparedDevice("n1", "d", ("r0",)),)})
    found = pod_claims(asked, {"gpu": info, "spare": ClaimInfo("ns", "claim-y", "v"), "": backing})
    (by_resource,) = found.containers.pop("fifth")
    assert (by_resource.names, by_resource.resources) == ((), {"r0": "example.com/gpu"})
    devices = {
        name: [device.device for held in claims for device in held.devices] for name, claims in found.containers.items()
    }
    assert devices == {"first": ["a", "c"], "second": ["b", "c"], "third": ["a", "b", "c"], "fourth": ["a", "b", "c"]}
    assert found.containers["first"][0].names == ("gpu/big",)
    assert found.containers["fourth"][0].names == ("gpu/big", "gpu/small")
    assert found.containers["second"][0].devices[0].requests == ("small",)
    assert cdi_devices(found.containers["third"]) == ("v/c=a", "v/c=both", "v/c=b", "v/c=c")
    assert [(held.name, held.names) for held in found.unreferenced] == [("claim-y", ("spare",))]


def test_every_way_a_driver_can_answer_badly_has_upstreams_words() -> None:
    asked = [ClaimInfo("ns", "one", "u-1"), ClaimInfo("ns", "two", "u-2")]
    reply = v1.NodePrepareResourcesResponse()
    reply.claims["u-1"].devices.add(pool_name="n1", device_name="d", share_id="s", cdi_device_ids=["a/b=c"])
    outcome = read_reply(PREPARE_METHOD, asked, reply)
    assert str(outcome.error) == "NodePrepareResources skipped 1 ResourceClaims"
    assert outcome.done == {"u-1": (PreparedDevice("n1", "d", (), ("a/b=c",), "s"),)}
    reply.claims["u-2"].error = "no\n luck"
    assert (
        str(read_reply(PREPARE_METHOD, asked, reply).error)
        == "NodePrepareResources failed for ResourceClaim two: no luck"
    )
    reply.claims["u-0"].SetInParent()
    expected = "NodePrepareResources returned result for unknown claim UID u-0"
    assert str(read_reply(PREPARE_METHOD, asked, reply).error) == expected
    many = v1.NodePrepareResourcesResponse()
    many.claims["u-1"].devices.extend([v1.Device()] * 5000)
    outcome = read_reply(PREPARE_METHOD, asked[:1], many)
    assert (str(outcome.error), outcome.done) == (
        "NodePrepareResources returned 5000 devices for ResourceClaim one",
        {},
    )
    old = v1beta1.NodePrepareResourcesResponse()
    old.claims["u-1"].devices.add(pool_name="n1", device_name="d")
    assert read_reply(PREPARE_METHOD, asked[:1], old).done["u-1"][0].share_id == ""


def test_versions_are_chosen_in_the_drivers_own_order() -> None:
    assert choose_service(GPU, "/e", ["v9.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAPlugin"]) == "v1beta1.DRAPlugin"
    assert choose_health(["v1alpha1.NodeHealth", "v1alpha1.DRAResourceHealth"]) == "v1alpha1.DRAResourceHealth"
    assert choose_health(["v1.DRAPlugin"]) == ""
    lead = f"invalid supported gRPC versions of DRA driver plugin {GPU} at endpoint /e: "
    with pytest.raises(RegistrationRejected) as refused:
        choose_service(GPU, "/e", [])
    assert str(refused.value) == lead + "empty list of supported gRPC services (aka supported versions)"
    with pytest.raises(RegistrationRejected) as refused:
        choose_service(GPU, "/e", ["v1beta1"])
    assert str(refused.value) == (
        lead + 'none of services supported by the plugin (["v1beta1"]) are supported by the kubelet '
        '(["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
    )
    with pytest.raises(RegistrationRejected):
        choose_service("not a name", "/e", ["v1.DRAPlugin"])


def test_claims_of_several_drivers_are_asked_for_once() -> None:
    assert asks("p", claim("a", GPU, NIC)).claims[0].results[1].driver == NIC


async def test_a_caller_that_gives_up_does_not_let_an_older_state_come_last() -> None:
    claims, disk, gate = [ClaimInfo("ns", "a", "a-uid", {"p"})], list[set[str]](), threading.Event()

    def save(raw: bytes) -> None:
        if not disk:
            gate.wait(60)
        disk.append({item.name for item in decode(raw)})

    keeping = ClaimWriter(ClaimWriterOptions(lambda: claims, save, lambda line: None))
    first = asyncio.create_task(keeping.write())
    await asyncio.sleep(0.05)
    first.cancel()
    claims.append(ClaimInfo("ns", "b", "b-uid", {"q"}))
    second = asyncio.create_task(keeping.write())
    await asyncio.sleep(0.05)
    assert not second.done()
    gate.set()
    await second
    assert disk == [{"a"}, {"a", "b"}]
