"""Image archives of one busybox, as `docker save` and as an OCI layout writes them."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

LINKS = ("sh", "cat", "ls", "sleep", "id", "pwd", "hostname", "env", "ps", "touch", "echo", "test")
CONFIG = {
    "Entrypoint": ["/bin/sh", "-c"],
    "Cmd": ["echo $GREETING from $(pwd) as $(id -un)"],
    "Env": ["PATH=/bin", "GREETING=hello"],
    "WorkingDir": "/home/box",
    "User": "box",
}
Entries = list[tuple[tarfile.TarInfo, bytes]]


def busybox() -> bytes:
    path = shutil.which("busybox")
    assert path is not None
    return Path(path).read_bytes()


def entry(name: str, data: bytes = b"", mode: int = 0o755, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    for field, value in fields.items():
        setattr(member, field, value)
    return member, data


def layer(entries: Entries) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for member, data in entries:
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def base() -> bytes:
    passwd = b"root:x:0:0::/root:/bin/sh\nbox:x:1234:1234::/home/box:/bin/sh\n"
    return layer(
        [
            entry("bin/", type=tarfile.DIRTYPE),
            entry("bin/busybox", busybox()),
            *(entry(f"bin/{name}", type=tarfile.SYMTYPE, linkname="busybox") for name in LINKS),
            entry("etc/", type=tarfile.DIRTYPE),
            entry("etc/passwd", passwd, 0o644),
            entry("old/", type=tarfile.DIRTYPE),
            entry("old/gone", b"x", 0o644),
            entry("old/stays", b"x", 0o644),
        ]
    )


def top() -> bytes:
    return layer([entry("old/.wh.gone"), entry("etc/made-in", b"two layers\n", 0o644)])


def docker_archive(path: Path, name: str = "box:1", config: dict[str, Any] | None = None) -> Path:
    blobs = {"base.tar": base(), "top.tar": gzip.compress(top())}
    blobs["config.json"] = json.dumps({"architecture": "amd64", "config": config or CONFIG}).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["base.tar", "top.tar"]}]
    return _written(path, {**blobs, "manifest.json": json.dumps(manifest).encode()})


def oci_archive(path: Path, name: str = "", config: dict[str, Any] | None = None) -> Path:
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    layers = [blob(gzip.compress(data), "layer.v1.tar+gzip") for data in (base(), top())]
    made = blob(json.dumps({"config": config or CONFIG}).encode(), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "config": made, "layers": layers}).encode(), "manifest.v1+json")
    if name:
        manifest["annotations"] = {"org.opencontainers.image.ref.name": name}
    blobs["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()
    blobs["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    return _written(path, blobs)


def _written(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member, _ = entry(name, data, 0o644)
            tar.addfile(member, io.BytesIO(data))
    return path
