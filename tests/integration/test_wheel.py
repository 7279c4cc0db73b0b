"""The wheel, in an environment that holds what it declares and nothing else: every command finds what it needs."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.plane import BIN, REPO, until

RESOURCE = "example.com/gpu"
KUBECTL = shutil.which("kubectl", path=f"{BIN}:{os.environ['PATH']}")
BENCH = "devices.registration"
"""The quickest one."""
MISSED = 1
"""Exit code of a bench whose figure misses its target, as it may beside other tests."""
pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling, which builds the wheel, is not installed"),
    pytest.mark.skipif(find_spec("pip") is None, reason="pip, which installs the wheel, is not installed"),
]


def declared(root: Distribution, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """Add the distributions that `root` requires without extras, and those that these require."""
    for text in root.requires or ():
        requirement = Requirement(text)
        if requirement.name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[requirement.name] = distribution(requirement.name)
        declared(found[requirement.name], found)
    return found


def link(each: Distribution, packages: Path) -> None:
    """Offer an installed distribution to another environment; nothing is downloaded."""
    for top in {file.parts[0] for file in each.files or () if file.parts[0] not in ("..", "__pycache__")}:
        place = packages / top
        if not place.exists():
            place.symlink_to(Path(str(each.locate_file(top))))


class Installed:
    """The commands of an environment, for a plane of its own."""

    def __init__(self, environment: Path, root: Path) -> None:
        self.nodeplane, self.root = environment / "bin" / "nodeplane", root
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.variables = {**kept, "NODEPLANE_ROOT": str(root), "KUBECONFIG": str(root / "kubeconfig")}

    def run(self, *words: str, codes: tuple[int, ...] = (0,), timeout: float = 60) -> str:
        done = subprocess.run(
            [self.nodeplane, *words],
            env=self.variables,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode in codes, f"nodeplane {words} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        with (self.root / f"{words[0]}.log").open("w") as log:
            command = [self.nodeplane, *words]
            return subprocess.Popen(command, env=self.variables, cwd=self.root, stdout=log, stderr=log)

    def kubectl(self, *words: str) -> str:
        command = [str(KUBECTL), *words]
        return subprocess.run(
            command, env=self.variables, capture_output=True, text=True, check=True, timeout=60
        ).stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """An environment with the wheel of this tree; its plane is stopped at the end."""
    place = tmp_path_factory.mktemp("wheel")
    python = sys.executable
    subprocess.run([python, "-m", "hatchling", "build", "-t", "wheel", "-d", place], cwd=REPO, check=True, timeout=60)
    environment = place / "venv"
    venv.create(environment)
    packages = next((environment / "lib").glob("python3*/site-packages"))
    target = ["--python", str(environment / "bin" / "python"), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([python, "-m", "pip", *target, *place.glob("*.whl")], check=True, timeout=60)
    wheel = next(iter(distributions(name="nodeplane", path=[str(packages)])))
    for each in declared(wheel, {}).values():
        link(each, packages)
    with tempfile.TemporaryDirectory(prefix="npw", dir="/tmp") as root:  # paths of sockets are short
        made = Installed(environment, Path(root))
        yield made
        subprocess.run([made.nodeplane, "down"], env=made.variables, check=False, timeout=60)


def test_the_wheel_runs_up_the_demo_a_bench_and_down(installed: Installed) -> None:
    installed.run("up", "--detach", "--port", "0", "--metrics-port", "0")
    plugin = installed.start("plugin", "--resource", RESOURCE, "--devices", "4", "--numa", "2")
    try:
        until("the devices", lambda: installed.run("devices", "-o", "json").count("gpu-") == 4)
        installed.kubectl("apply", "-f", str(REPO / "examples" / "gpu-pod.yaml"))
        installed.kubectl("wait", "pod/gpu-pod", "--for=condition=Ready", "--timeout=60s")
        held = [each for each in json.loads(installed.run("devices", "-o", "json")) if each["pod"]]
        assert [each["pod"] for each in held] == ["default/gpu-pod"] * 2
    finally:
        plugin.terminate()
        plugin.wait(10)
    rows = json.loads(installed.run("bench", BENCH, "-o", "json", codes=(0, MISSED), timeout=120))
    assert rows[0]["value"] > 0
    installed.run("down")
    assert (
        "no plane runs"
        in subprocess.run(
            [installed.nodeplane, "status"], env=installed.variables, capture_output=True, text=True, check=False
        ).stderr
    )
