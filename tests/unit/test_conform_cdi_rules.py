"""Faults of CDI files that runtimes can read and reject."""

from typing import Any

import pytest

from supervisor.conform.cdi_rules import faults_of


def spec(**edits: Any) -> dict[str, Any]:
    device = {"name": "0", "containerEdits": edits}
    return {"cdiVersion": "0.5.0", "kind": "a.example/b", "devices": [device]}


@pytest.mark.parametrize(
    "edits",
    [
        {"env": ["A=", "B=1=2"]},
        {"deviceNodes": [{"path": "/dev/null"}, {"path": "/dev/a", "type": "c", "permissions": "rw"}]},
        {"mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro"]}]},
        {"hooks": [{"hookName": "createContainer", "path": "/bin/true"}]},
        {"additionalGids": [44]},
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
        "cdiVersion is None",
        "the device 0 is there 2 times",
        "env has 'B', not NAME=VALUE",
    ]
