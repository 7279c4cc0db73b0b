"""`nodeplane completion`: what each shell offers after TAB."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.cli import candidates as live
from supervisor.cli.commands import COMMANDS
from supervisor.cli.completion import DIRECTORIES, FILES, SCRIPTS, candidates
from supervisor.cli.main import main


def offered(line: str) -> list[str]:
    return [candidate.word for candidate in candidates(line.split(" "))]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", list(COMMANDS)),
        ("st", ["status"]),
        ("--root /r st", ["status"]),
        ("--ro", ["--root"]),
        ("--root ", [DIRECTORIES]),
        ("--root=/t", [DIRECTORIES]),
        ("--root = /t", [DIRECTORIES]),
        ("status -o ", ["text", "wide", "json"]),
        ("status --output=w", ["wide"]),
        ("status --st", ["--streams"]),
        ("image ", ["import", "alias", "ls", "rm"]),
        ("image import ", [FILES]),
        ("image import --name x ", [FILES]),
        ("image import F ", []),
        ("image import --n", ["--name"]),
        ("chaos device a.b/c ", ["unhealthy", "healthy", "unknown", "clear"]),
        ("chaos device a.b/c gpu-0 un", ["unhealthy", "unknown"]),
        ("--root status ", list(COMMANDS)),
        ("chaos runtime d", ["drop-events", "duplicate-events", "disconnect"]),
        ("chaos script ", [FILES]),
        ("scale ", ["watcher", "node"]),
        ("scale watcher ", []),
        ("top --watch p", ["pods"]),
        ("kubeconfig --for kube-", ["kube-scheduler", "kube-controller-manager", "kube-proxy"]),
        ("up --join ", [FILES]),
        ("up --detach --pleg", ["--pleg-mode"]),
        ("up --pleg-mode ", ["auto", "evented", "hint", "generic"]),
        ("up --leader-elect=t", ["true"]),
        ("bench w", ["writes", "writes.processes"]),
        ("image alias old ", []),
        ("bench writes pleg", ["pleg", "pleg-idle", "pleg-idle.many"]),
        ("--root /nowhere trace pod/", []),
        ("--root /nowhere why node/", ["node/"]),
        ("why x", []),
        ("--root /nowhere chaos device ", []),
        ("completion z", ["zsh"]),
        ("nothing --x ", []),
    ],
)
def test_candidates_fit_the_place(line: str, words: list[str]) -> None:
    found = offered(line)
    assert found == words


def test_candidates_of_every_command_are_found() -> None:
    for name in COMMANDS:
        assert {"--root", "--help"} <= set(offered(f"{name} -")), name
        offered(f"{name} ")


def test_actors_are_those_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("store", "pleg", "audit", "supervisor"):
        (tmp_path / "logs" / f"{name}.log").touch()
    root = f"--root {tmp_path}"
    assert offered(f"chaos kill {root} ") == offered(f"{root} restart ") == ["pleg", "store"]
    assert offered(f"logs {root} s") == ["store", "supervisor"]


STREAMS = {
    "objects/core/pods": ["default/a", "default/b", "other/c"],
    "health": ["example.com/gpu gpu-0", "example.com/gpu gpu-1", "example.com/nic n"],
    "dra_health": ["d.example.com/n1/x"],
    "devices": ["example.com/gpu"],
    "dra_drivers": ["d.example.com"],
    "objects/core/nodes": ["n1", "@0/n1"],
    "objects/resource.k8s.io/resourceclaims": ["default/c", "@0/default/old"],
}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("trace pod/", ["pod/a", "pod/b"]),
        ("trace -n other ", ["pod/c"]),
        ("devices --why ", ["a", "b"]),
        ("why p", ["pod/", "plugin/"]),
        ("why po", ["pod/a", "pod/b"]),
        ("why -n other pod/", ["pod/c"]),
        ("why device/example.com/gpu/", ["device/example.com/gpu/gpu-0", "device/example.com/gpu/gpu-1"]),
        ("why plugin/d", ["plugin/d.example.com"]),
        ("why node/", ["node/n1"]),
        ("why c", ["claim/c"]),
        ("chaos device ", ["d.example.com/n1/x", "example.com/gpu", "example.com/nic"]),
        ("chaos device example.com/gpu g", ["gpu-0", "gpu-1"]),
        ("chaos device example.com/gpu gpu-0 u", ["unhealthy", "unknown"]),
        ("chaos device d.example.com/n1/x c", ["clear"]),
    ],
)
def test_pods_and_devices_are_those_of_the_plane(line: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_keys", lambda where, owner, stream: STREAMS[stream])
    assert offered(line) == words


@pytest.mark.parametrize(
    ("shell", "line"),
    [("bash", "status"), ("zsh", "status:every actor"), ("fish", "status\tevery actor")],
)
def test_candidates_have_the_form_of_the_shell(shell: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell, "--words", "stat"]) == 0
    assert capsys.readouterr().out.startswith(line)


@pytest.mark.parametrize(("shell", "word"), [("zsh", r"0000\:3b\:00.0"), ("fish", "0000:3b:00.0")])
def test_colon_in_an_id_does_not_end_the_word(
    shell: str, word: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_keys", lambda where, owner, stream: ["a.example/nic 0000:3b:00.0"])
    assert main(["completion", shell, "--words", "chaos", "device", "a.example/nic", "0"]) == 0
    assert capsys.readouterr().out == f"{word}\n"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_script_is_valid(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    subprocess.run([shell, "-n", script], check=True)


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        (["0000", ":", "3"], ["3b:00.0"]),
        (["0000", ":"], ["3b:00.0", "5e:00.0"]),
        (["0000", ":", "3b", ":", "0"], ["00.0"]),
        (["0000:3"], ["0000:3b:00.0"]),
        (["00"], ["0000:3b:00.0", "0000:5e:00.0"]),
    ],
)
def test_bash_gets_the_rest_of_a_word_that_it_splits_at_colons(
    words: list[str], rest: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "device_words", lambda where, given: ["0000:3b:00.0", "0000:5e:00.0"])
    assert main(["completion", "bash", "--words", "chaos", "device", "a.b/gpu", *words]) == 0
    assert capsys.readouterr().out.split() == rest


def test_bash_completes(tmp_path: Path) -> None:
    """The function as bash calls it, with words split at `=`."""
    command = tmp_path / "nodeplane"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m supervisor.cli.main "$@"\n')
    command.chmod(0o755)
    (tmp_path / "some where").mkdir()
    asked = (
        'COMPREPLY=(); COMP_WORDS=(nodeplane {}); COMP_CWORD={}; _nodeplane; printf "%s\\n" "${{COMPREPLY[@]}}"; echo -'
    )
    lines = [
        "source <(nodeplane completion bash)",
        asked.format("image im", 2),
        asked.format(f"--root = '{tmp_path}/so'", 3),
        asked.format("status -o ''", 3),
    ]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(["bash", "-c", "\n".join(lines)], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n-\n")[:3] == ["import", f"{tmp_path}/some where", "text\nwide\njson"]
