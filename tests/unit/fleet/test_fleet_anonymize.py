"""Anonymous profiles hold no word of the cluster's owner, and keep what is equal equal."""

import json
from typing import Any

from actors.fleet.profiles.catalog import check_profile
from actors.fleet.profiles.expand import NodeTemplate, expand, pool_slices
from actors.fleet.profiles.profile import Profile
from actors.fleet.profiles.record import profile_text, record

CLUSTER_ID = "b2f0a1de-5a3c-4a10-9c11-0123456789ab"
OWNED = (
    "acme",
    "ip-10-1",
    "ip-10-2",
    "payments",
    "frankfurt",
    "b2f0a1de",
    "GPU-0000",
    "0c42:a103",
    "10.1.2",
    "rocket",
)


def node(at: int) -> Any:
    name = f"ip-10-{at}.fra.acme.io"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "nvidia.com/gpu.product": "H100",
        "topology.kubernetes.io/zone": "frankfurt-1",
        "acme.io/rack": f"rocket-{at}" if at > 2 else "rocket-1",
        "team": "payments",
    }
    quantities = {"cpu": "64", "nvidia.com/gpu": "8", "acme.io/fpga": "2", "pods": "110"}
    taints = [{"key": "acme.io/only", "value": "payments", "effect": "NoSchedule"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": quantities},
    }


def gpu(node: int, number: int) -> Any:
    uuid = f"GPU-0000000{node}-0000-4000-8000-00000000000{number}"
    attributes = {
        "uuid": {"string": uuid},
        "parent": {"string": uuid},
        "cliqueId": {"string": CLUSTER_ID},
        "productName": {"string": "H100"},
        "pciBusID": {"string": f"0000:{number}b:00.0"},
        "driverVersion": {"version": "550.54.15"},
        "firmware": {"version": "1.2.3-acme.4"},
        "index": {"int": number},
        "serialNumber": {"int": 9000 + node * 10 + number},
        "mac": {"string": f"0c42:a103:0{node}:0{number}:00"},
        "address": {"string": f"10.1.{node}.{number}"},
        "host": {"string": f"ip-10-{node}-gpu"},
        "acme.io/slot": {"string": f"slot-{number}"},
        "boardSerial": {"string": ""},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def rocket(number: int) -> Any:
    use = {"counterSet": "rocket", "counters": {"acmeUnits": {"value": "1"}}}
    attributes = {"model": {"string": "rocket 9"}, "firmware": {"version": "2.0.0+rocket"}}
    return {"name": f"rocket-{number}", "attributes": attributes, "consumesCounters": [use]}


def slices(at: int) -> list[Any]:
    name = f"ip-10-{at}.fra.acme.io"
    counters = {"name": "rocket", "counters": {"acmeUnits": {"value": "2"}}}
    pool = {"name": name, "generation": 3, "resourceSliceCount": 1}
    own = {"name": f"{name}/rockets", "generation": 3, "resourceSliceCount": 2}
    return [
        {"spec": {"driver": "rocket.acme.io", "nodeName": name, "pool": own, "sharedCounters": [counters]}},
        {"spec": {"driver": "rocket.acme.io", "nodeName": name, "pool": own, "devices": [rocket(0), rocket(1)]}},
        {"spec": {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": [gpu(at, 0), gpu(at, 1)]}},
    ]


def fabric() -> Any:
    requirement = {"key": "acme.io/rack", "operator": "In", "values": ["rocket-1"]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    taint = {"key": "acme.io/slow", "value": "payments", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    device = {
        "name": "link",
        "taints": [taint],
        "bindingConditions": ["acme.io/up"],
        "bindingFailureConditions": ["acme.io/no"],
    }
    pool = {"name": "payments-fabric", "generation": 1, "resourceSliceCount": 1}
    return {"spec": {"driver": "fabric.acme.io", "pool": pool, "nodeSelector": selector, "devices": [device]}}


def anonymous(*nodes: int) -> Profile:
    found = record(
        [node(at) for at in nodes], [*(each for at in nodes for each in slices(at)), fabric()], anonymous=True
    )
    check_profile(found)
    return found


def attributes(found: NodeTemplate, device: int) -> dict[str, Any]:
    (driver,) = (each for each in found.drivers if each.driver == "gpu.nvidia.com")
    return {
        name: next(iter(value.values())) for name, value in driver.slices[0]["devices"][device]["attributes"].items()
    }


def test_anonymous_profile_has_no_word_of_the_owner() -> None:
    found = anonymous(1, 2, 3)
    text = (profile_text(found) + json.dumps([*pool_slices(found), *(str(each) for each in expand(found))])).lower()
    assert [word for word in OWNED if word.lower() in text] == []


def test_nodes_that_differ_in_ids_alone_are_one_group() -> None:
    assert [group.count for group in anonymous(1, 2, 3).groups] == [2, 1]


def test_names_of_hardware_are_kept() -> None:
    first = next(expand(anonymous(1)))
    kept = {
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "nvidia.com/gpu.product": "H100",
    }
    assert kept.items() <= first.labels.items()
    assert "topology.kubernetes.io/zone" in first.labels
    assert {plugin.resource: len(plugin.devices) for plugin in first.plugins}["nvidia.com/gpu"] == 8
    known = {"productName": "H100", "pciBusID": "0000:1b:00.0", "driverVersion": "550.54.15", "index": 1}
    assert known.items() <= attributes(first, 1).items()


def test_ids_are_replaced_consistently() -> None:
    first, second = list(expand(anonymous(1, 2)))
    own, other, elsewhere = attributes(first, 0), attributes(first, 1), attributes(second, 0)
    assert own["uuid"] == own["parent"]
    assert len({own["uuid"], other["uuid"], elsewhere["uuid"]}) == 3
    assert own["cliqueId"] == other["cliqueId"] == elsewhere["cliqueId"]
    assert own["serialNumber"] != other["serialNumber"]
    assert own["boardSerial"] == "", "a text that is not known is nobody's"


def test_replaced_texts_still_match_each_other() -> None:
    found = anonymous(1, 2, 3)
    (fabric_slice,) = pool_slices(found)
    (requirement,) = fabric_slice["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"]
    racks = [each.labels[requirement["key"]] in requirement["values"] for each in expand(found)]
    assert racks == [True, True, False]
    rockets = next(driver for driver in next(expand(found)).drivers if driver.driver != "gpu.nvidia.com")
    devices, sets = rockets.slices
    (use,) = devices["devices"][0]["consumesCounters"]
    assert use["counterSet"] == sets["sharedCounters"][0]["name"]
    assert use["counters"].keys() == sets["sharedCounters"][0]["counters"].keys()
