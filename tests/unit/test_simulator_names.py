"""Names of `nodeplane plugin`, `dra-driver` and their sockets when nobody gives one."""

import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from actors.simulator import actor
from actors.simulator.driver.options import DriverOptions
from actors.simulator.driver.server import remove_dead
from supervisor.cli.commands import parser_of


@pytest.mark.parametrize(("words", "resource"), [([], "example.com/gpu"), (["--resource", "a.b/c"], "a.b/c")])
def test_plugin_without_resource_has_the_one_of_the_help(words: list[str], resource: str) -> None:
    assert actor.plugin_script(parser_of([actor]).parse_args(["plugin", *words])).resource == resource


@pytest.mark.parametrize(("words", "driver"), [([], "gpu.example.com"), (["--driver", "a.b"], "a.b")])
def test_driver_without_name_has_the_one_of_the_help(words: list[str], driver: str) -> None:
    assert actor.driver_script(parser_of([actor]).parse_args(["dra-driver", *words])).driver == driver


def test_socket_of_a_driver_is_named_by_its_pod_or_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_UID", "8f14e45f-ceea-467f-a8a1-2b3c4d5e6f70")
    assert actor.driver_instance() == "8f14e45f"
    monkeypatch.delenv("POD_UID")
    assert len({actor.driver_instance() for _ in range(3)}) == 3


def test_driver_removes_sockets_of_dead_instances_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most 107 characters
    options = DriverOptions("gpu.example.com", 1, "n1", Path(), Path(), None, instance="new")
    dead, live = (replace(options, instance=name) for name in ("dead", "live"))
    other = replace(dead, driver="other.example.com")
    with ExitStack() as listening:
        for each in (dead, other, live):
            for path in (each.socket, each.registrar):
                path.parent.mkdir(parents=True, exist_ok=True)
                listener = socket.socket(socket.AF_UNIX)
                listener.bind(str(path))
                listener.listen()
                listening.callback(listener.close) if each is live else listener.close()
        remove_dead(options)
        left = {each.instance for each in (dead, live) for path in (each.socket, each.registrar) if path.exists()}
        assert left == {"live"}
        assert other.socket.exists()
        assert other.registrar.exists()
