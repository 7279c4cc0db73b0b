"""Debian's containerd as the tests' own process: own root, own socket, images made here, no network plugin needed."""

import asyncio
import functools
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec

from protocols.process.settings import Settings
from protocols.wire import cri_pb2 as pb
from tests.support.runtime import RuntimeProcess, using
from tests.support.waiting import until_async

CONFIG = """version = 2
root = "{root}/root"
state = "{root}/state"
[grpc]
  address = "{root}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "nodeplane.test/pause:1"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
"""
BUSYBOX = "nodeplane.test/busybox:1"
EVENTS_SINCE = (1, 7)
"""Older ones have no GetContainerEvents."""


def why_not() -> str:
    """Why containerd cannot be used here; empty when it can."""
    missing = [name for name in ("containerd", "runc", "ctr", "busybox") if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (make test installs them where it is root)"
    return "" if os.geteuid() == 0 else "containerd needs root"


@functools.cache
def pleg_mode() -> str:
    """Of a node on the containerd that is installed here (none stamps its statuses)."""
    told = subprocess.run(["containerd", "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    major, minor = (int(part) for part in told.split()[2].lstrip("v").split(".")[:2])
    return "hint" if (major, minor) >= EVENTS_SINCE else "generic"


class Containerd(RuntimeProcess):
    """`async with Containerd() as runtime:`; the same calls as RuntimeProcess."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="nc", dir="/tmp"))
        self.socket = self.home / "containerd.sock"
        self.settings: Settings = _with(self.settings, runtime_endpoint=f"unix://{self.socket}", runtime_embedded=False)

    async def __aenter__(self) -> "Containerd":
        await self.start()
        for name, command in (("pause", ["sleep", "2147483647"]), ("busybox", ["sh"])):
            await asyncio.to_thread(self._import, f"nodeplane.test/{name}:1", command)
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        try:
            for item in (await self.call("ListPodSandbox")).items:
                await self.call("StopPodSandbox", pod_sandbox_id=item.id)
                await self.call("RemovePodSandbox", pod_sandbox_id=item.id)
            await self.stop()
        finally:
            for pid in using(self.home):
                os.kill(pid, signal.SIGKILL)
            _unmount(self.home)
            for path in (self.home, self.root):
                shutil.rmtree(path, ignore_errors=True)

    def _spawn(self) -> None:
        config = self.home / "config.toml"
        config.write_text(CONFIG.format(root=self.home))
        with open(self.root / "runtime.err", "ab") as log:
            command = ["containerd", "--config", str(config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _import(self, name: str, command: list[str]) -> None:
        archive = self.home / "image.tar"
        archive.write_bytes(image(name, command))
        ctr = ["ctr", "-a", str(self.socket), "-n", "k8s.io", "images", "import", str(archive)]
        done = subprocess.run(ctr, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr

    async def create(self, sandbox: str, *command: str, image: str = BUSYBOX, **fields: Any) -> str:
        """containerd wants the sandbox's config as well."""
        name = fields.pop("name", "main")
        status = (await self.call("PodSandboxStatus", pod_sandbox_id=sandbox)).status
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image=image),
            command=command,
            log_path=f"{name}.log",
            linux=pb.LinuxContainerConfig(security_context=pb.LinuxContainerSecurityContext(namespace_options=_node())),
        )
        around = pb.PodSandboxConfig(metadata=status.metadata, log_directory=str(self.logs / status.metadata.name))
        reply = await self.call("CreateContainer", pod_sandbox_id=sandbox, config=config, sandbox_config=around)
        return str(reply.container_id)

    async def ready(self) -> None:
        await until_async("containerd is ready", self._is_ready, every=0.05, errors=(grpc.aio.AioRpcError,))

    async def _is_ready(self) -> bool:
        conditions = (await self.call("Status")).status.conditions
        return any(item.type == "RuntimeReady" and item.status for item in conditions)


def image(name: str, command: list[str]) -> bytes:
    """A docker archive with one layer: busybox and links to it."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for directory in ("bin", "tmp", "proc", "sys", "dev", "etc"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        tar.add(str(shutil.which("busybox")), "bin/busybox")
        for applet in ("sh", "sleep", "true", "false", "cat", "echo", "ls"):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(config).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    return _tar({"manifest.json": json.dumps(manifest).encode(), "config.json": text, "layer.tar": layer.getvalue()})


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def _node() -> Any:
    return pb.NamespaceOption(network=pb.NODE)


def _with(settings: Settings, **changes: Any) -> Settings:
    return msgspec.structs.replace(settings, **changes)


def _unmount(home: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((path for path in mounts if path.startswith(str(home))), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
