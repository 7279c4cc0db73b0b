"""A program that runs already and serves at a socket: its answers are judged, its start and its end are not."""

import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import Message

from protocols.process.sockets import answers
from protocols.wire.methods import CLIENT_OPTIONS, Method
from supervisor.base.errors import UsageError, owner_of
from supervisor.conform.program import END_S, Program
from supervisor.conform.verdict import NotApplicable

NOT_OURS = "the program runs already (--socket): conform neither starts nor ends it"
NO_REGISTER = "the program has registered already (--socket): conform did not see its Register"
LIFE = ("registration", "restarts", "end")
"""Phases about the start and the end of a program."""


class SocketUnusable(UsageError, grpc="UNAVAILABLE"):
    """Raised when nothing at the socket of --socket can be judged: it is absent, not permitted, or does not answer."""


class ServedProgram(Program):
    """A program that somebody else runs; it counts as running while something listens at its socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def start(self) -> None:
        """Do nothing: the program runs already."""

    @property
    def runs(self) -> bool:
        return answers(self._path)

    @property
    def end(self) -> str:
        return "it runs" if self.runs else f"nothing listens at {self._path} any more"

    async def terminate(self, seconds: float = END_S) -> bool:
        raise NotApplicable(NOT_OURS)

    async def kill(self) -> None:
        """Leave it alone."""

    def processes(self) -> list[Path]:
        raise NotApplicable("the program runs already (--socket): conform does not know its processes")

    def printed(self) -> tuple[str, ...]:
        return ()


class ServedLauncher(NamedTuple):
    """`by_calls` are LIFE phases, and behaviours of them, that need nothing but calls."""

    socket: Path
    environment: Mapping[str, str]
    by_calls: tuple[str, ...] = ()

    def program(self) -> Program:
        return ServedProgram(self.socket)

    def excluded(self, name: str, phase: str) -> str:
        if phase not in LIFE or name in self.by_calls or phase in self.by_calls:
            return ""
        return NO_REGISTER if phase == "registration" else NOT_OURS


def check_socket(path: Path, method: Method[Any, Any], request: Message, subject: str, seconds: float) -> None:
    """Call a method that changes nothing. Raises SocketUnusable if there is no answer, or another service's."""
    _check_file(path)
    _check_listener(path)
    with grpc.insecure_channel(f"unix:{path}", options=CLIENT_OPTIONS) as channel:
        try:
            channel.unary_unary(method.path, method.request.SerializeToString)(request, timeout=seconds)
        except grpc.RpcError as error:
            if why := _silence(error.code(), str(error.details()), method, subject, seconds):
                raise SocketUnusable(f"{path}: {why}") from None


def _check_file(path: Path) -> None:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise SocketUnusable(f"{path} does not exist; has the program started, and is that where it serves?") from None
    except PermissionError:
        raise _not_permitted(path) from None
    if not stat.S_ISSOCK(mode):
        raise SocketUnusable(f"{path} is not a socket")


def _check_listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(os.fspath(path))
        except PermissionError:
            raise _not_permitted(path) from None
        except ConnectionRefusedError:
            raise SocketUnusable(f"{path}: nobody listens there; the program that made it has ended") from None
        except OSError as error:
            raise SocketUnusable(f"{path} cannot be connected to: {error.strerror or error}") from None


def _not_permitted(path: Path) -> SocketUnusable:
    return SocketUnusable(f"{path}: permission denied; it belongs to {owner_of(path)}, run conform as that user")


def _silence(code: grpc.StatusCode, details: str, method: Method[Any, Any], subject: str, seconds: float) -> str:
    """Return why nothing can be judged after this error; empty if the right service answered with it."""
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"it does not serve {method.service}/{method.name}; is it the socket of {subject}?"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"{method.name} was not answered within {seconds:g} s"
    if code is grpc.StatusCode.UNAVAILABLE:
        return f"{method.name} was not answered: {details}"
    return ""
