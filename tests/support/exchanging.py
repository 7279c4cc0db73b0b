"""Somebody who exchanges two names in a directory as fast as the kernel goes."""

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_EXCHANGE = 2
_AT_FDCWD = -100


def exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))


@contextlib.contextmanager
def exchanging(one: Path, other: Path) -> Iterator[None]:
    """Both exist throughout, and each is now the one, now the other."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            exchange(one, other)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def tries(count: int, enough: Callable[[], object], within: float = 60.0) -> Iterator[int]:
    """Count at least so far, and on until it is enough: a busy machine may let the other one rest between two names."""
    deadline, number = time.monotonic() + within, 0
    while number < count or (not enough() and time.monotonic() < deadline):
        yield number
        number += 1
