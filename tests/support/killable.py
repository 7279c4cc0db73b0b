"""Our store and Debian's etcd as servers that a test kills and starts again on their data."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.support.ports import free_port
from tests.support.store_lab import Lab, answers, etcd_command, lab, listened_at, short_directory, until


class Killable(Protocol):
    target: str

    def start(self) -> None: ...

    def kill(self) -> None:
        """SIGKILL; it is dead when this returns."""
        ...


class OurStore:
    def __init__(self, made: Lab, target: str) -> None:
        self._lab, self.target = made, target

    def start(self) -> None:
        self._lab.start("store")

    def kill(self) -> None:
        self._lab.kill("store")


class Etcd:
    def __init__(self, binary: str, data: Path) -> None:
        port = free_port()
        self.target = f"127.0.0.1:{port}"
        self._command = etcd_command(binary, data, port, free_port())
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)


@contextmanager
def our_store(door: bool = False) -> Iterator[Killable]:
    """`door`: its clients come through the second door."""
    with lab("store", store_sync="full") as made:
        until("the store listens", lambda: listened_at(made.socket))
        yield OurStore(made, made.door if door else made.target)


@contextmanager
def debian_etcd(binary: str) -> Iterator[Killable]:
    with short_directory() as root:
        etcd = Etcd(binary, root / "data")
        etcd.start()
        try:
            until("etcd answers", lambda: answers(etcd.target))
            yield etcd
        finally:
            etcd.kill()
