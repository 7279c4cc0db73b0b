"""Names of `nodeplane plugin`, `dra-driver` and their sockets when nobody gives one, and their health file."""

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from actors.simulator import actor
from actors.simulator.engine.files import HealthFileInvalid, follow_file, health_text
from actors.simulator.engine.instances import instance_name, remove_dead
from protocols.process.tasks import awaited, cancel
from supervisor.cli.commands import parser_of
from tests.support.waiting import until_true


@pytest.mark.parametrize(("words", "resource"), [([], "example.com/gpu"), (["--resource", "a.b/c"], "a.b/c")])
def test_plugin_without_resource_has_the_one_of_the_help(words: list[str], resource: str) -> None:
    assert actor.plugin_script(parser_of([actor]).parse_args(["plugin", *words])).resource == resource


@pytest.mark.parametrize(("words", "driver"), [([], "gpu.example.com"), (["--driver", "a.b"], "a.b")])
def test_driver_without_name_has_the_one_of_the_help(words: list[str], driver: str) -> None:
    assert actor.driver_script(parser_of([actor]).parse_args(["dra-driver", *words])).driver == driver


def test_socket_is_named_by_its_pod_or_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_UID", "8f14e45f-ceea-467f-a8a1-2b3c4d5e6f70")
    assert instance_name() == "8f14e45f"
    monkeypatch.delenv("POD_UID")
    assert len({instance_name() for _ in range(3)}) == 3


def test_sockets_of_dead_instances_are_removed_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most 107 characters
    (tmp_path / "a-file.sock").touch()
    with ExitStack() as listening:
        for name in ("a-dead.sock", "a-live.sock", "b-dead.sock"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(name)
            listener.listen()
            listening.callback(listener.close) if "live" in name else listener.close()
        remove_dead(Path(), "a-*.sock")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file.sock", "a-live.sock", "b-dead.sock"]


async def test_health_file_that_cannot_be_read_is_reported_once(tmp_path: Path) -> None:
    """Each change of another file in its directory repeated the error, and /dev/zero was read for ever."""
    file, applied, said = tmp_path / "health", list[str](), list[str]()
    file.write_bytes(b"gpu-0 Unhealthy\n\xff")
    task = awaited(follow_file(file, applied.append, said.append))
    try:
        await until_true(lambda: len(said) == 1)
        for _ in range(3):
            (tmp_path / "other").write_text("x")
            await asyncio.sleep(0.05)
        file.write_text("")
        await until_true(lambda: applied == [""])
    finally:
        await cancel(task)
    assert said == [f"cannot read {file}: byte 16 is no UTF-8; the health read before stays"]
    with pytest.raises(HealthFileInvalid, match="File too large"):
        health_text(Path("/dev/zero"))
