import contextlib
import os
import time
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid
from actors.podworker.pods.environment.env_files import parse_env_file
from actors.podworker.pods.environment.variables import build_environment
from actors.podworker.pods.volumes.env_files import LARGEST, read_env_files
from protocols.lifecycle.pods.types import PodSpec, read_pod
from tests.support.podworker_fakes import container, pod

TEXT = """
# comment = 'x'
  A='one'
B = 'two # words'\t
MULTI='line 1
# line 2'
EMPTY=''
A='again'"""


def variable(text: str, name: str) -> str | None:
    return parse_env_file(text).find(name)


def test_find_variable_reads_upstreams_syntax() -> None:
    values = {name: variable(TEXT, name) for name in ("A", "B", "MULTI", "EMPTY", "NONE")}
    assert values == {"A": "one", "B": "two # words", "MULTI": "line 1\n# line 2", "EMPTY": "", "NONE": None}
    assert variable("A='x'\r\nB='y'\r\n", "B") == "y"
    assert variable("", "A") is None


@pytest.mark.parametrize(
    "line", ["A=x", 'A="x"', "A='x''y'", "A='x'$B", "A='x", "A", "='x'", "export", "A='x' # no", "A=${B}"]
)
def test_find_variable_other_forms_are_rejected(line: str) -> None:
    with pytest.raises(ContainerConfigInvalid, match="line 2 of the env file is not of the form NAME='value'"):
        variable(f"OK='1'\n{line}\n", "B")


@given(st.text(st.characters(exclude_characters="'", exclude_categories=["Cs"])), st.text("AB_ \t\n#='x", max_size=30))
def test_find_variable_values_are_literal_and_noise_is_an_error_or_ignored(value: str, noise: str) -> None:
    assert variable(f"N='{value}'\n{noise}", "N") == value
    with contextlib.suppress(ContainerConfigInvalid):
        variable(noise, "N")


def test_parse_env_file_hostile_text_takes_linear_time() -> None:
    began = time.monotonic()
    for text in ("a" + " " * LARGEST, "#\n" * (LARGEST // 2), "a='" * (LARGEST // 3), "\t" * LARGEST, "a=\n" * 9):
        parse_env_file(text)
    assert time.monotonic() - began < 20


def referring(path: str = "a.env", key: str = "K", optional: bool = False, volume: str = "v", **more: Any) -> PodSpec:
    source = {"fileKeyRef": {"volumeName": volume, "path": path, "key": key, "optional": optional}}
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/"}}]
    return read_pod(pod(container("a", env=[{"name": "X", "valueFrom": source}], **more), volumes=volumes))


def environment(spec: PodSpec, root: Path) -> dict[str, str]:
    files = read_env_files(spec, spec.containers[0], root)
    return build_environment(spec, spec.containers[0], NodeFields("n1"), {}, files=files)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "pods" / "uid-1" / "volumes" / "empty-dir" / "v"
    path.mkdir(parents=True)
    return path


def test_environment_takes_variables_of_files(tmp_path: Path, volume: Path) -> None:
    (volume / "a.env").write_text("K='value'\n")
    assert environment(referring(), tmp_path) == {"X": "value"}
    (volume / "link.env").symlink_to("/a.env")
    assert environment(referring("link.env"), tmp_path) == {"X": "value"}
    assert environment(referring(key="NO", optional=True), tmp_path) == {}
    assert environment(referring("no.env", optional=True), tmp_path) == {}


def test_environment_file_faults_are_config_errors(tmp_path: Path, volume: Path) -> None:
    (volume / "a.env").write_text("K='value'\n")
    (volume / "large.env").write_bytes(b"#" * (LARGEST + 1))
    (volume / "nul.env").write_bytes(b"K='\0'")
    (volume / "out.env").symlink_to("../../../../../../../etc/passwd")
    os.mkfifo(volume / "pipe.env")
    for spec, words in (
        (referring(key="NO"), 'environment variable key "NO" not found in file "a.env"'),
        (referring("no.env"), "not found in file"),
        (referring("large.env"), "is larger than"),
        (referring("nul.env"), "NUL byte"),
        (referring("pipe.env"), "is no regular file"),
        (referring("out.env"), "not found in file"),
        (referring(volume="w"), 'cannot find the volume "w" referenced by FileKeyRef'),
        (referring(volume="h"), "must be an emptyDir"),
    ):
        with pytest.raises(ContainerConfigInvalid, match=words):
            environment(spec, tmp_path)
