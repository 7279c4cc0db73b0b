"""Sockets that --socket cannot judge: one error each, with the reason."""

import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import grpc
import pytest

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.plugins import GET_OPTIONS
from supervisor.cli.main import main
from supervisor.conform.dra.driver_kubelet import BY_CALLS
from supervisor.conform.scripts import PHASES
from supervisor.conform.served import LIFE, ServedLauncher, SocketUnusable, check_socket


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="np", dir="/tmp") as directory:
        yield Path(directory) / "plugin.sock"


def check(path: Path, seconds: float = 10.0) -> None:
    check_socket(path, GET_OPTIONS, pb.Empty(), "a device plugin", seconds)


def fault(path: Path, seconds: float = 10.0) -> str:
    with pytest.raises(SocketUnusable) as caught:
        check(path, seconds)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_absent_socket_does_not_exist(path: Path) -> None:
    assert "does not exist" in fault(path)
    assert "does not exist" in fault(path.parent / "no" / "such" / "directory.sock")


def test_file_is_not_a_socket(path: Path) -> None:
    path.touch()
    assert "is not a socket" in fault(path)


def test_socket_of_an_ended_program_has_no_listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    assert "nobody listens there" in fault(path)


@pytest.mark.parametrize("call", ["stat", "connect"])
def test_socket_of_another_user_is_not_permitted(path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        if call == "stat":
            monkeypatch.setattr("supervisor.conform.served.os.stat", Mock(side_effect=PermissionError))
        else:
            denied = Mock(AF_UNIX=socket.AF_UNIX)
            denied.socket.return_value.__enter__ = Mock(return_value=Mock(connect=Mock(side_effect=PermissionError)))
            denied.socket.return_value.__exit__ = Mock(return_value=None)
            monkeypatch.setattr("supervisor.conform.served.socket", denied)
        assert "permission denied; it belongs to " in fault(path)


def test_socket_that_answers_nothing_is_named_after_the_timeout(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        made.listen()
        assert "was not answered" in fault(path, 0.3)


class Answer(grpc.GenericRpcHandler):
    """Answers each method with a status; OK is an empty message."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def service(self, details: Any) -> Any:
        if self._code is grpc.StatusCode.UNIMPLEMENTED:
            return None
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, request: bytes, context: Any) -> bytes:
        if self._code is not grpc.StatusCode.OK:
            context.abort(self._code, "as the test orders")
        return b""


@pytest.mark.parametrize("code", [grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED])
def test_answer_of_the_right_service_is_judged_whatever_it_is(path: Path, code: grpc.StatusCode) -> None:
    server = grpc.server(ThreadPoolExecutor(1), handlers=[Answer(code)])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        if code is grpc.StatusCode.UNIMPLEMENTED:
            assert "is it the socket of a device plugin?" in fault(path)
        else:
            check(path)
    finally:
        server.stop(0).wait()


def test_only_phases_of_its_life_are_excluded(path: Path) -> None:
    plugin, driver = ServedLauncher(path, os.environ), ServedLauncher(path, os.environ, BY_CALLS)
    assert [phase for phase in PHASES if plugin.excluded("x", phase)] == [*LIFE]
    assert [phase for phase in PHASES if driver.excluded("x", phase)] == ["restarts", "end"]
    assert driver.excluded("kubelet-restarts", "restarts") == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--socket", "a.sock", "--", "true"), "one program is judged"),
        (("--kind", "agent", "--socket", "a.sock"), "an agent calls a server"),
        (("--socket", "/no/such.sock"), "/no/such.sock does not exist"),
    ],
)
def test_usage_error_ends_with_two(words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", *words]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["plugin", "dra", "agent"])
def test_behaviours_are_listed_for_programs_too(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--kind", kind, "--list", "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) > 10
    assert all(each["name"] and each["rule"] and each["source"] and each["advice"] for each in listed)
