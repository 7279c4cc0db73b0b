"""One image with this Python and the programs of the charts, as `docker save` writes it.

Its entrypoint is the device plugin.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import google.protobuf
import grpc

from tests.support.charts.programs import PROGRAMS
from tests.support.images import LINKS, busybox, entry

REPO = Path(__file__).parents[3]
NEEDED = ("protocols/wire", "tests/support/charts", "tests/support/stubs.py")
SKIPPED = re.compile(
    r"/(test|tests|idlelib|ensurepip|lib2to3|tkinter|turtledemo|pydoc_data|dist-packages|site-packages)$|/config-3"
)
CONFIG = {"Entrypoint": ["/bin/nvidia-device-plugin"], "Env": ["PATH=/usr/bin:/bin"], "WorkingDir": "/"}


def chart_image(path: Path, name: str) -> Path:
    with tarfile.open(path, "w") as out:
        _add(out, "layer.tar", _layer())
        _add(out, "config.json", json.dumps({"architecture": "amd64", "config": CONFIG}).encode())
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
        _add(out, "manifest.json", json.dumps(manifest).encode())
    return path


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    member, _ = entry(name, data, mode)
    tar.addfile(member, io.BytesIO(data))


def _layer() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        python = Path(sys.executable).resolve()
        extensions = Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("_ssl*.so")
        binaries = [python, next(Path(grpc.__file__).parent.rglob("cygrpc*.so")), *extensions]
        for file in sorted({python, *(library for binary in binaries for library in _libraries(binary))}):
            tar.add(file.resolve(), str(file))
        tar.add(sysconfig.get_path("stdlib"), filter=_kept)
        for package in (Path(grpc.__file__).parent, Path(google.protobuf.__file__).parents[1]):
            tar.add(package, f"/opt/site/{package.name}", filter=_kept)
        tar.add(Path(grpc.__file__).parents[1] / "typing_extensions.py", "/opt/site/typing_extensions.py")
        for folder in NEEDED:
            tar.add(REPO / folder, f"/opt/site/{folder}", filter=_kept)
        tar.add(REPO / "protocols/__init__.py", "/opt/site/protocols/__init__.py")
        for command in PROGRAMS:
            run = f'exec {python} -m tests.support.charts.programs {command} "$@"'
            script = f"#!/bin/sh\nexport PYTHONPATH=/opt/site\n{run}\n"
            _add(tar, f"bin/{command}", script.encode(), 0o755)
        _add(tar, "bin/busybox", busybox(), 0o755)
        _add(tar, "bin/bash", b'#!/bin/sh\nexec /bin/sh "$@"\n', 0o755)
        for link in LINKS:
            member, _ = entry(f"bin/{link}", type=tarfile.SYMTYPE, linkname="busybox")
            tar.addfile(member)
    return out.getvalue()


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Keep bytecode: without it, each start of a program compiles what it imports, for seconds."""
    return None if SKIPPED.search(member.name) else member


def _libraries(binary: Path) -> Iterator[Path]:
    shown = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=True).stdout
    for found in re.findall(r"(/\S+) \(0x", shown):
        yield Path(found)


def usable() -> bool:
    """An imported image needs root."""
    return os.geteuid() == 0 and shutil.which("busybox") is not None
