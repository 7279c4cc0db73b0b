"""Faults of CDI files that runtimes can read and reject."""

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.conform.behaviours.container_edits import _host_faults
from supervisor.conform.cdi import QUALIFIED, absent, declared, faults_of


def spec(**edits: Any) -> dict[str, Any]:
    device = {"name": "0", "containerEdits": edits}
    return {"cdiVersion": "0.7.0", "kind": "a.example/b", "devices": [device]}


@pytest.mark.parametrize(
    "edits",
    [
        {"env": ["A=", "B=1=2"]},
        {"deviceNodes": [{"path": "/dev/null"}, {"path": "/dev/a", "type": "c", "permissions": "none"}]},
        {"mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro"]}]},
        {"hooks": [{"hookName": "createContainer", "path": "/bin/true"}]},
        {"additionalGids": [44]},
        {"deviceNodes": [{"path": "/dev/null", "type": None, "permissions": None}]},
    ],
)
def test_valid_edits_have_no_fault(edits: dict[str, Any]) -> None:
    assert list(faults_of(spec(**edits))) == []


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ({}, "the device 0 has no containerEdits"),
        ({"env": []}, "the device 0 has no containerEdits"),
        ({"env": ["A"]}, "env has 'A', not NAME=VALUE, of device 0"),
        ({"env": ["=1"]}, "env has '=1', not NAME=VALUE, of device 0"),
        ({"env": [7]}, "env has 7, not NAME=VALUE, of device 0"),
        ({"deviceNodes": [{"hostPath": "/dev/a"}]}, "a device node has no path, of device 0"),
        ({"deviceNodes": [{"path": "/dev/a", "type": "x"}]}, "a device node has the type 'x', of device 0"),
        ({"deviceNodes": [{"path": "/dev/a", "type": ["c"]}]}, "a device node has the type ['c'], of device 0"),
        ({"hooks": [{"hookName": [], "path": "/a"}]}, "a hook has the name [] and the path '/a', of device 0"),
        ({"mounts": [{"hostPath": "/a"}]}, "a mount has no hostPath or no containerPath, of device 0"),
        (
            {"hooks": [{"hookName": "start", "path": "/a"}]},
            "a hook has the name 'start' and the path '/a', of device 0",
        ),
    ],
)
def test_fault_of_edits_is_named(edits: dict[str, Any], text: str) -> None:
    assert list(faults_of(spec(**edits))) == [text]


def test_faults_of_the_file_are_named() -> None:
    twice = {"name": "0", "containerEdits": {"env": ["A=1"]}}
    file = {"kind": "a.example/b", "devices": [twice, twice], "containerEdits": {"env": ["B"]}}
    assert list(faults_of(file)) == [
        "cdiVersion is None, the releases are 0.1.0 to 1.1.0",
        "the device 0 is there 2 times",
        "env has 'B', not NAME=VALUE",
    ]


@pytest.mark.parametrize(
    ("version", "change", "text"),
    [
        ("0.3.0", {}, ["cdiVersion is 0.3.0, and the name 0, which begins with a digit, needs 0.5.0"]),
        ("v0.5.0", {}, []),
        ("1.1.0", {}, []),
        ("2.0.0", {}, ["cdiVersion is '2.0.0', the releases are 0.1.0 to 1.1.0"]),
        ("0.5.0", {"kind": "a.example/b.c"}, ["cdiVersion is 0.5.0, and a class with a dot needs 0.6.0"]),
        ("0.5.0", {"annotations": {"a": "b"}}, ["cdiVersion is 0.5.0, and annotations needs 0.6.0"]),
        (
            "0.6.0",
            {"containerEdits": {"additionalGids": [44]}},
            ["cdiVersion is 0.6.0, and additionalGids needs 0.7.0"],
        ),
    ],
)
def test_version_has_all_that_the_file_uses(version: str, change: dict[str, Any], text: list[str]) -> None:
    assert list(faults_of({**spec(env=["A=1"]), "cdiVersion": version, **change})) == text


def test_paths_of_the_host_that_are_absent_are_named() -> None:
    nodes = [{"path": "/dev/null"}, {"path": "/dev/a", "type": "c", "major": 1}, {"path": "/dev/b", "hostPath": "/etc"}]
    mounts = [
        {"hostPath": "/no/such", "containerPath": "/a"},
        {"hostPath": "x", "containerPath": "/b", "type": "tmpfs"},
    ]
    found = list(absent(spec(deviceNodes=nodes, mounts=mounts)))
    assert found == ["/etc is no device node", "/no/such, which is mounted, does not exist"]


@pytest.mark.parametrize("path", ["/dev/null/a", "/dev/a\0b", f"/dev/{'a' * 300}"])
def test_device_node_at_an_impossible_path_is_absent(path: str) -> None:
    assert list(absent(spec(deviceNodes=[{"path": path}]))) == [f"{path}, a device node, does not exist"]
    assert list(_host_faults(path)) == [f"{path} does not exist"]


def test_device_in_two_files_of_a_directory_is_not_declared(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        (folder / "a.json").write_text(json.dumps(spec(env=["A=1"])))
    assert declared(folders).names == {"a.example/b=0"}
    (folders[0] / "b.json").write_text(json.dumps(spec(env=["A=1"])))
    found = declared(folders)
    assert found.names == set()
    assert found.conflict("a.example/b=0") == "a.json and b.json both declare a.example/b=0: runtimes take neither"


def test_class_may_have_a_dot() -> None:
    assert QUALIFIED.fullmatch("a.example/b.c=0")
