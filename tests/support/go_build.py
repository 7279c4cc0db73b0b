"""Build Go projects offline, with the sources of gRPC, protobuf and YAML that Debian ships.

Projects stay as users get them: they are built in GOPATH mode, and what Debian's old versions lack is added to these by
`go build -overlay`.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

SOURCES = Path("/usr/share/gocode/src")
GRPC = SOURCES / "google.golang.org" / "grpc"
MODULES = (GRPC, SOURCES / "google.golang.org" / "protobuf", SOURCES / "gopkg.in" / "yaml.v3")
TOOLS = ("go", "gofmt", "make", "protoc", "protoc-gen-go", "protoc-gen-go-grpc")
SHIMS = Path(__file__).parent / "go_shims"
FIRST_WITH_TOOLCHAINS = (1, 21)
"""The version of Go that downloads the one a go.mod asks for."""
DOWNLOAD_S = 60


def missing() -> str:
    """Return the first thing that a build needs and that is not installed, empty if all is there."""
    tools = [name for name in TOOLS if shutil.which(name) is None]
    return next(iter([*tools, *(str(path) for path in MODULES if not path.exists())]), "")


def go_environment(path: Path) -> dict[str, str]:
    """Return the variables of a build below GOPATH `path`. The build cache is the user's: gRPC is compiled once."""
    overlay = path / "overlay.json"
    overlay.write_text(json.dumps({"Replace": {str(file): str(shim) for file, shim in _overlays().items()}}))
    return {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": f"{path}:{SOURCES.parent}",
        "GOFLAGS": f"-trimpath -ldflags=-w -overlay={overlay}",
    }


def _overlays() -> dict[Path, Path]:
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, timeout=20, check=True)
    slices = Path(root.stdout.strip(), "src", "slices", "slices.go")
    found = {} if slices.exists() else {slices: SHIMS / "slices.go"}
    insecure = GRPC / "credentials" / "insecure" / "insecure.go"
    if not insecure.exists():
        found |= {insecure: SHIMS / "insecure.go", GRPC / "newclient.go": SHIMS / "newclient.go"}
        found |= {GRPC / "encoding" / "proto" / "proto.go": SHIMS / "codec.go"}
    return found


def modules_missing(project: Path) -> str:
    """Return why a project's modules cannot be had here, empty if they are downloaded."""
    shown = subprocess.run(["go", "version"], capture_output=True, text=True, timeout=20, check=True).stdout
    version = tuple(map(int, re.findall(r"\d+", shown)[:2]))
    if version < FIRST_WITH_TOOLCHAINS:
        return f"{shown.strip()} cannot build what go.mod asks for"
    download = ["go", "mod", "download"]
    try:
        done = subprocess.run(download, cwd=project, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        return f"modules were not downloaded within {DOWNLOAD_S} s"
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
