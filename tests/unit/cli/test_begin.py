"""`nodeplane new` and `nodeplane protos`: names, files that are there, and what is written."""

import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.begin.project import APIS, FOLDER, PROTOS, TEMPLATES, proto_files
from supervisor.cli.main import main
from tests.support.product import ROOT as REPO

OTHERS = {"cri.proto", "etcd.proto", "mvcc.proto"}
KINDS = [(kind, f"--{language}") for kind, language in PROTOS]


def files(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_protos_are_written_and_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [main(["protos", str(tmp_path / "p")]) for _ in range(2)] == [0, 0]
    assert files(tmp_path / "p") == proto_files()
    assert capsys.readouterr().out.count("\n") == 2 * len(APIS)
    assert "nodeplane-snapshot" not in (tmp_path / "p" / "dra_v1.proto").read_text()
    assert "rpc ListAndWatch(" in (tmp_path / "p" / "podresources_v1.proto").read_text()
    assert set(proto_files()) == {path.name for path in FOLDER.glob("*.proto")} - OTHERS, (
        "all that plugins and agents speak"
    )
    assert "rpc WatchDevicesStatus(" in (tmp_path / "p" / "nodehealth_v1alpha1.proto").read_text()


def test_protos_import_no_other_file() -> None:
    assert [name for name, text in proto_files().items() if "\nimport " in text] == []


@pytest.mark.parametrize("words", [("protos",), ("new", "plugin")])
def test_file_with_other_contents_is_kept_without_force(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "mine"
    first = target / ("dra_v1.proto" if words == ("protos",) else "plugin.py")
    target.mkdir()
    first.write_text("mine")
    assert main([*words, str(target)]) == 1
    assert "exist with other contents; --force overwrites them" in capsys.readouterr().err
    assert files(target) == {first.name: "mine"}, "nothing was written"
    assert main([*words, str(target), "--force"]) == 0
    assert first.read_text() != "mine"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plugin", "No_Name"], "'No_Name' names no project"),
        (["plugin", ""], "DIR is empty"),
        (["plugin", "x", "--resource", "gpu"], "--resource 'gpu' is no DOMAIN/NAME"),
        (["plugin", "x", "--resource", "kubernetes.io/gpu"], "is no DOMAIN/NAME"),
        (["plugin", "x", "--driver", "a.b"], "--driver is not for a project of kind plugin; its name is --resource"),
        (["agent", "x", "--driver", "a.b"], "--driver is not for a project of kind agent"),
        (["dra-driver", "x", "--resource", "a.b/c"], "--resource is not for a project of kind dra-driver"),
        (["dra-driver", "x", "--driver", "A"], "--driver 'A' is no DNS name"),
        (["dra-driver", "x", "--driver", "a" * 64], "is no DNS name"),
    ],
)
def test_wrong_name_is_a_usage_error(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", *words]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("kind", "language"), KINDS)
def test_project_has_the_given_names_and_none_of_the_defaults(kind: str, language: str, tmp_path: Path) -> None:
    words = ["--driver", "acme.test"] if kind == "dra-driver" else ["--resource", "gpu.example.com/fpga"]
    assert main(["new", kind, language, str(tmp_path / "our-thing"), *words]) == 0
    written = files(tmp_path / "our-thing")
    program = {name: text for name, text in written.items() if not name.startswith("protos/")}
    texts = "\n".join(program.values())
    assert "our-thing" in written["README.md"]
    assert ("acme.test" if kind == "dra-driver" else "gpu.example.com/fpga") in texts
    assert [word for word in ("example.com/gpu", "example.com-gpu", "my-project") if word in texts] == []
    assert {"README.md", "Makefile", ".gitignore", ".github/workflows/test.yaml"} <= written.keys()
    assert written["README.md"].count("\n    ") == 3, "three commands"


@pytest.mark.parametrize(("kind", "language"), KINDS)
def test_project_needs_nothing_of_ours_to_run_and_its_job_is_yaml(kind: str, language: str, tmp_path: Path) -> None:
    assert main(["new", kind, language, str(tmp_path / "x")]) == 0
    written = files(tmp_path / "x")
    [job] = yaml.safe_load(written[".github/workflows/test.yaml"])["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step][-2:] == ["nodeplane check", "make test"]
    programs = [text for name, text in written.items() if name.endswith((".py", ".go")) and "test" not in name]
    ours = [
        name for name in ("supervisor", "protocols", "actors", "pytest_nodeplane") for text in programs if name in text
    ]
    assert ours == []
    for name in ("pyproject.toml",):
        assert language == "--go" or tomllib.loads(written[name])["project"]["name"] == "x"
    recipe = ["make", "-n", "test"]
    subprocess.run(recipe, cwd=tmp_path / "x", check=True, capture_output=True, timeout=20)


def test_devices_that_cannot_be_read_do_not_end_the_stream(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "deviceplugin_v1beta1_pb2", pb)
    monkeypatch.setitem(sys.modules, "deviceplugin_v1beta1_pb2_grpc", SimpleNamespace(DevicePluginServicer=object))
    spec = spec_from_file_location("kubelet", TEMPLATES / "plugin-python" / "kubelet.py")
    assert spec is not None
    assert spec.loader is not None
    kubelet = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "kubelet", kubelet)
    spec.loader.exec_module(kubelet)
    monkeypatch.setattr(kubelet, "RETRY_S", 0)
    answers: list[Any] = [OSError("busy"), [pb.Device(ID="a", health="Healthy")]]
    devices = Mock(side_effect=answers)
    stream = kubelet.Plugin("a.b/c", devices, None).ListAndWatch(pb.Empty(), Mock())
    assert [device.ID for device in next(stream).devices] == ["a"]
    assert "devices not read: OSError('busy')" in capsys.readouterr().out


EDITED = {"plugin": "plugin", "dra-driver": "driver", "agent": "agent"}
MAX_EDITED, MAX_KUBELET = 60, 400


@pytest.mark.parametrize(("kind", "language"), KINDS)
def test_author_edits_one_short_file_beside_one_that_need_not_be(kind: str, language: str) -> None:
    folder, suffix = TEMPLATES / f"{kind}-{language.removeprefix('--')}", {"--python": "py", "--go": "go"}[language]
    programs = {path.name: path.read_text() for path in folder.glob(f"*.{suffix}") if "test" not in path.name}
    assert programs.keys() == {f"{EDITED[kind]}.{suffix}", f"kubelet.{suffix}"}
    assert len(programs[f"{EDITED[kind]}.{suffix}"].splitlines()) <= MAX_EDITED
    head, *lines = programs[f"kubelet.{suffix}"].splitlines()
    assert "You need not edit this." in " ".join([head, *lines[:3]])
    assert len(lines) < MAX_KUBELET


@pytest.mark.parametrize(
    ("page", "program"),
    [
        ("write-a-device-plugin.md", "plugin-python/plugin.py"),
        ("write-a-dra-driver.md", "dra-driver-python/driver.py"),
    ],
)
def test_page_shows_the_program_that_is_written(page: str, program: str) -> None:
    assert f"```python\n{(TEMPLATES / program).read_text()}```\n" in (REPO / "docs" / "how-to" / page).read_text()


def test_page_shows_the_files_that_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "plugin", "--resource", "example.com/gpu", "my-plugin"]) == 0
    shown = "".join(f"    {line}\n" for line in capsys.readouterr().out.splitlines())
    assert shown in (REPO / "docs" / "how-to" / "begin-a-plugin.md").read_text()
