"""Control files of cgroups."""

import os
from pathlib import Path


def write_control(path: Path, value: str) -> None:
    """Never creates: a file the kernel has not made is an error. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
