"""The scripted plugin's devices, preferences and answers."""

import pytest

from actors.simulator.plugin.devices import PluginDevices, numbered
from actors.simulator.plugin.script import AllocateAnswer, DeviceNode, DeviceSpec, PluginMount, PluginStep, Strategy
from actors.simulator.plugin.scripted_server import answer_for, prefer
from protocols.process.scripts import Seconds
from protocols.wire import deviceplugin_v1beta1_pb2 as pb


def step(**what: object) -> PluginStep:
    return PluginStep(at=Seconds(0), **what)  # type: ignore[arg-type]  # fields as a script has them


def test_steps_change_devices_and_say_so() -> None:
    devices = PluginDevices("gpu", numbered("gpu", 4, 2))
    assert devices.numa() == {"gpu-0": (0,), "gpu-1": (0,), "gpu-2": (1,), "gpu-3": (1,)}
    assert devices.apply(step(unhealthy=("gpu-1", "nix"), health={"gpu-2": "Odd"})) == [
        "nix is not there",
        "gpu-2 is Odd",
        "gpu-1 is Unhealthy",
    ]
    assert devices.apply(step(unhealthy=("gpu-1",))) == []
    assert devices.apply(step(remove=2)) == ["2 devices fewer"]
    assert devices.health == {"gpu-0": "Healthy", "gpu-1": "Unhealthy"}
    assert devices.apply(step(add=1, healthy=("gpu-1",))) == ["gpu-1 is Healthy", "1 devices more"]
    assert list(devices.health) == ["gpu-0", "gpu-1", "gpu-2"]
    assert devices.apply(step(remove=("gpu-0", "nix"), add=(DeviceSpec(id="x", numa=3),))) == [
        "1 devices more",
        "1 devices fewer",
    ]
    assert devices.numa() == {"gpu-1": (0,), "gpu-2": (), "x": (3,)}
    assert devices.apply(step(remove=9)) == ["3 devices fewer"]


NUMA = {"a": (0,), "b": (1,), "c": (1,), "d": (2,)}


@pytest.mark.parametrize(
    ("strategy", "preferred"),
    [
        ("first", ["c", "a", "b"]),
        ("last", ["c", "d", "b"]),
        ("packed", ["c", "a", "b"]),
        ("spread", ["c", "a", "b"]),
        ("few", ["c", "a"]),
        ("foreign", ["no-such-device-0", "no-such-device-1", "no-such-device-2"]),
    ],
)
def test_strategies(strategy: Strategy, preferred: list[str]) -> None:
    assert prefer(strategy, ["a", "b", "c", "d"], ["c"], 3, NUMA) == preferred


def test_packed_and_spread_consider_numa() -> None:
    assert prefer("packed", ["a", "b", "c", "d"], [], 2, NUMA) == ["b", "c"]
    assert prefer("spread", ["a", "b", "c", "d"], [], 3, NUMA) == ["a", "b", "d"]


def test_answers() -> None:
    assert answer_for(AllocateAnswer(), ["a", "b"], "GPU") == pb.ContainerAllocateResponse(envs={"GPU": "a,b"})
    answer = AllocateAnswer(
        envs={"ALL": "x $IDS", "N": "1"},
        mounts=(PluginMount(container_path="/c/$ID", host_path="/h/$ID", read_only=True),),
        devices=(DeviceNode(container_path="/dev/null", host_path="/dev/null"),),
        annotations={"k": "$IDS"},
        cdi=("example.com/gpu=$ID",),
    )
    assert answer_for(answer, ["a", "b"], "GPU") == pb.ContainerAllocateResponse(
        envs={"ALL": "x a,b", "N": "1"},
        mounts=[pb.Mount(container_path=f"/c/{id}", host_path=f"/h/{id}", read_only=True) for id in ("a", "b")],
        devices=[pb.DeviceSpec(container_path="/dev/null", host_path="/dev/null", permissions="rw")],
        annotations={"k": "a,b"},
        cdi_devices=[pb.CDIDevice(name="example.com/gpu=a"), pb.CDIDevice(name="example.com/gpu=b")],
    )
