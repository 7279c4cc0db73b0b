"""Facts of a release: what Go's declarations say, in our notation, and what Go does not know stays."""

from pathlib import Path

import pytest

from protocols.kinds import generate
from protocols.kinds.from_go import Release
from protocols.kinds.generate import fresh_text, line_of, main

CORE = """package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type Mode string
type Amounts map[Mode]resource.Quantity
type Extra []string

// Room is rented.
// +structType=atomic
type Room struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// +patchMergeKey=port
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	Doors []Door `json:"doors" patchStrategy:"merge" patchMergeKey:"port" protobuf:"bytes,3,rep,name=doors"`
	// +optional
	Mode *Mode `json:"mode,omitempty" protobuf:"bytes,2,opt,name=mode"`
	// +optional
	// +mapType=atomic
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,4,rep,name=labels"`
	Amounts Amounts `json:"amounts,omitempty" protobuf:"bytes,5,rep,name=amounts"`
	// +listType=set
	Names []string `json:"names,omitempty" protobuf:"bytes,6,rep,name=names"`
	Seen *metav1.Time `json:"seen" protobuf:"bytes,7,opt,name=seen"`
	Since metav1.Time `json:"since,omitempty" protobuf:"bytes,8,opt,name=since"`
	Lock `json:",inline" protobuf:"bytes,9,opt,name=lock"`
	Extra map[string]Extra `json:"extra,omitempty" protobuf:"bytes,10,rep,name=extra"`
	// +patchStrategy=retainKeys
	Plan Door `json:"plan,omitempty,omitzero" patchStrategy:"retainKeys" protobuf:"bytes,11,opt,name=plan"`
	hidden string
}

type Lock struct {
	Size int32 `json:"size,omitempty" protobuf:"varint,1,opt,name=size"`
}

type Door struct {
	Port int32 `json:"port" protobuf:"varint,1,opt,name=port"`
	// +optional
	// +default="TCP"
	Protocol string `json:"protocol,omitempty" protobuf:"bytes,2,opt,name=protocol"`
}
"""
ROOM = (
    "Room*: 1:metadata@:meta.ObjectMeta 2:mode?:str 3:doors!@:[Door]=port,protocol 4:labels:{str}*"
    " 5:amounts:{quantity}\n"
    "    6:names:[str]=set^none 7:seen!-:time 8:since@:time 9:lock&:Lock 10:extra:{[str]}|{strings} 11:plan:Door^retain"
)
META = """package v1
type Time struct {
}
type ObjectMeta struct {
	Name string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder, text in (("api/core", CORE), ("apimachinery/pkg/apis/meta", META)):
        (tmp_path / "staging/src/k8s.io" / folder / "v1").mkdir(parents=True)
        (tmp_path / "staging/src/k8s.io" / folder / "v1/types.go").write_text(text)
    return tmp_path


def test_a_type(tree: Path) -> None:
    room = Release(tree).type_of("core.v1", "Room")
    assert room is not None
    assert line_of(room) == ROOM
    door = Release(tree).type_of("core.v1", "Door")
    assert door is not None
    assert line_of(door) == "Door: 1:port!@:int32 2:protocol:str/TCP"


def test_a_new_field_brings_its_types_and_what_is_ours_stays(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    (facts / "core.v1.txt").write_text("Room*+: 1:metadata@:meta.ObjectMeta :ours:str\nOurs: 1:name:str\n")
    monkeypatch.setattr(generate, "FACTS", facts)
    monkeypatch.setattr(generate, "packages", lambda: ("core.v1",))
    lines = fresh_text("core.v1", Release(tree)).replace("\n    ", " ").splitlines()
    assert lines[0] == f"{ROOM} :ours:str".replace("Room*:", "Room*+:").replace("\n    ", " ")
    assert lines[1:] == ["Ours: 1:name:str", "Door: 1:port!@:int32 2:protocol:str/TCP", "Lock: 1:size:int32"]
    assert main([str(tree)]) == 0
    assert "+Lock: 1:size:int32" in capsys.readouterr().out
    assert "Lock" not in (facts / "core.v1.txt").read_text(), "a difference is printed first"
    assert main([str(tree), "--write"]) == 0
    assert (facts / "core.v1.txt").read_text() == fresh_text("core.v1", Release(tree))


def test_the_facts_are_as_written() -> None:
    assert main(["--check"]) == 0


def test_a_tree_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "name a checkout" in capsys.readouterr().err
    assert main([]) == 2
    assert main([str(tmp_path), "--nope"]) == 2
