"""CDI files: which count, what they make of a container, and what is refused."""

import json
from pathlib import Path

import pytest

from actors.runtime.model.errors import CdiUnusable
from actors.runtime.operations import cdi_devices
from actors.runtime.operations.cdi_devices import (
    MOST_EDITS,
    CdiFiles,
    apply_devices,
    missing_nodes,
    requested_devices,
)
from actors.runtime.spec.isolation import _devices
from protocols.kube.meta import Object
from protocols.wire import cri_pb2 as pb

KIND = "gpu.example.com/device"
EDITS = {
    "env": ["GPU=0", "PLAIN=theirs"],
    "deviceNodes": [{"path": "/dev/gpu0"}, {"path": "/dev/in", "hostPath": "/dev/out", "permissions": "rw"}],
    "mounts": [{"hostPath": "/opt/lib", "containerPath": "/usr/lib/gpu", "options": ["ro", "nosuid"]}],
    "additionalGids": [44],
}


def spec(*devices: Object, kind: str = "gpu.example.com/device", **more: object) -> str:
    return json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": list(devices), **more})


def device(name: str, **edits: object) -> Object:
    return {"name": name, "containerEdits": edits}


def look(*directories: Path, names: tuple[str, ...] = ("gpu.example.com/device=a",)) -> pb.ContainerConfig:
    config = pb.ContainerConfig(envs=[pb.KeyValue(key="PLAIN", value=b"mine"), pb.KeyValue(key="MY", value=b"own")])
    return apply_devices(config, CdiFiles(directories).find(names), own_root=False)


def test_what_a_file_asks_for_is_in_the_container(tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_text(spec(device("a", **EDITS), containerEdits={"env": ["DRIVER=1"]}))
    config = look(tmp_path)
    assert {pair.key: pair.value for pair in config.envs} == {
        "MY": b"own",
        "DRIVER": b"1",
        "GPU": b"0",
        "PLAIN": b"theirs",
    }
    assert [(m.container_path, m.host_path, m.readonly) for m in config.mounts] == [("/usr/lib/gpu", "/opt/lib", True)]
    assert [(d.container_path, d.host_path) for d in config.devices] == [
        ("/dev/gpu0", "/dev/gpu0"),
        ("/dev/in", "/dev/out"),
    ]
    assert [mount.container_path for mount in _devices(config.devices)] == ["/dev/in"]
    assert list(config.linux.security_context.supplemental_groups) == [44]


def test_what_a_file_asks_for_all_its_devices_comes_once(tmp_path: Path) -> None:
    (tmp_path / "gpu.yaml").write_text(
        "cdiVersion: 0.6.0\nkind: gpu.example.com/device\ncontainerEdits:\n  mounts:\n"
        "  - {hostPath: /a, containerPath: /b}\ndevices:\n- {name: a, containerEdits: {env: [A=1]}}\n"
        "- {name: b, containerEdits: {env: [B=1]}}\n"
    )
    config = look(tmp_path, names=("gpu.example.com/device=a", "gpu.example.com/device=b"))
    assert len(config.mounts) == 1
    assert {"A", "B"} <= {pair.key for pair in config.envs}


def test_a_later_directory_goes_first_and_equals_cancel_each_other(tmp_path: Path) -> None:
    low, high = tmp_path / "low", tmp_path / "high"
    for directory, value in ((low, "low"), (high, "high")):
        directory.mkdir()
        (directory / "gpu.json").write_text(spec(device("a", env=[f"FROM={value}"])))
    assert {pair.value for pair in look(low, high).envs if pair.key == "FROM"} == {b"high"}
    (high / "again.json").write_text(spec(device("a", env=["FROM=again"])))
    with pytest.raises(CdiUnusable, match=r"unresolvable CDI devices gpu\.example\.com/device=a: .*two files"):
        look(low, high)


def test_devices_may_be_asked_for_by_annotations() -> None:
    notes = {"cdi.k8s.io/b": "x.y/z=3", "cdi.k8s.io/a": "x.y/z=1,x.y/z=2", "cdi.k8s.io": "x.y/z=9"}
    config = pb.ContainerConfig(CDI_devices=[pb.CDIDevice(name="x.y/z=2")], annotations=notes)
    assert requested_devices(config) == ["x.y/z=2", "x.y/z=1", "x.y/z=3"]


def test_rubbish_is_left_out_and_what_is_missing_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "bad.yaml").write_text("a: [")
    (tmp_path / "odd.json").write_text('{"cdiVersion": "0.6.0", "kind": 7}')
    (tmp_path / "notes.txt").write_text("no spec")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "good.json").write_text(spec(device("a")))
    files = CdiFiles([tmp_path, tmp_path / "nowhere"])
    assert len(files.find(["gpu.example.com/device=a"])) == 1
    with pytest.raises(CdiUnusable) as refused:
        files.find(["gpu.example.com/device=a", "x.y/z=1", "x.y/z=2"])
    assert str(refused.value).startswith(
        "CDI device injection failed: unresolvable CDI devices x.y/z=1, x.y/z=2: no file in "
    )
    (tmp_path / "good.json").write_text(spec(device("b")))
    assert len(files.find(["gpu.example.com/device=b"])) == 1


def test_what_is_not_done_here_is_refused_not_left_out(tmp_path: Path) -> None:
    hooks = [{"hookName": "createContainer", "path": "/bin/x"}]
    tmpfs = [{"hostPath": "x", "containerPath": "/y", "type": "tmpfs"}]
    devices = (device("a", hooks=hooks), device("t", mounts=tmpfs), device("e", env=["NOPE"]))
    (tmp_path / "gpu.json").write_text(spec(*devices))
    files, config = CdiFiles([tmp_path]), pb.ContainerConfig()
    apply_devices(config, files.find(["gpu.example.com/device=a"]), own_root=False)
    with pytest.raises(CdiUnusable, match="hooks"):
        apply_devices(config, files.find(["gpu.example.com/device=a"]), own_root=True)
    for name, words in (("t", 'type "tmpfs"'), ("e", "no variable")):
        with pytest.raises(CdiUnusable, match=words):
            apply_devices(config, files.find([f"gpu.example.com/device={name}"]), own_root=False)


def test_hooks_beside_a_device_node_are_no_obstacle(tmp_path: Path) -> None:
    hooks = [{"hookName": "createContainer", "path": "/bin/x", "args": ["x"]}]
    made = [{"path": "/dev/no-such-gpu", "type": "c", "major": 240, "minor": 1}]
    (tmp_path / "gpu.json").write_text(spec(device("a", deviceNodes=made), containerEdits={"hooks": hooks}))
    found = CdiFiles([tmp_path]).find(["gpu.example.com/device=a"])
    assert [node.path for node in missing_nodes([*found, *found])] == ["/dev/no-such-gpu"]


def test_variables_cost_their_number_and_the_last_device_wins(tmp_path: Path) -> None:
    many = [f"V{number}=x" for number in range(MOST_EDITS - 4)]
    (tmp_path / "a.json").write_text(spec(device("a", env=["V1=first", "PLAIN=a", *many]), device("b", env=["V1=b"])))
    values = {pair.key: pair.value for pair in look(tmp_path, names=(f"{KIND}=a", f"{KIND}=b")).envs}
    assert (values["V1"], values["PLAIN"], values["MY"], len(values)) == (b"b", b"a", b"own", MOST_EDITS - 2)


def test_device_with_too_many_edits_is_unusable(tmp_path: Path) -> None:
    gids = list(range(MOST_EDITS + 1))
    (tmp_path / "a.json").write_text(spec(device("a", additionalGids=gids)))
    with pytest.raises(CdiUnusable, match=f"{MOST_EDITS + 1} edits of a container, at most {MOST_EDITS} are allowed"):
        look(tmp_path)


def test_files_beyond_the_bytes_of_all_are_skipped_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = spec(device("a")), spec(device("b"))
    monkeypatch.setattr(cdi_devices, "MOST_BYTES", len(first) + len(second) - 1)
    (tmp_path / "a.json").write_text(first)
    (tmp_path / "b.json").write_text(second)
    files = CdiFiles([tmp_path])
    for _ in range(3):
        assert len(files.find((f"{KIND}=a",))) == 1
        with pytest.raises(CdiUnusable, match="no file"):
            files.find((f"{KIND}=b",))
    assert len(caplog.records) == 1
    (tmp_path / "a.json").unlink()
    assert len(files.find((f"{KIND}=b",))) == 1
