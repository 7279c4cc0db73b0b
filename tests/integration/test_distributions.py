"""Wheel and sdist: built from the tree, installed with the libraries that pyproject.toml allows, and used."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from tests.conftest import FUZZ
from tests.support.plane import BIN, REPO, until

RESOURCE = "example.com/gpu"
KUBECTL = shutil.which("kubectl", path=f"{BIN}:{os.environ['PATH']}")
UV = shutil.which("uv", path=f"{BIN}:{os.environ['PATH']}")
BENCH = "devices.registration"
"""The quickest one."""
MISSED = 1
"""Exit code of a bench whose figure misses its target, as it may beside other tests."""
OURS = {"actors", "protocols", "supervisor"}
LOCKED, LOWEST, HIGHEST = "locked", "lowest-direct", "highest"
"""Versions: those of this environment, which are the newest of the day of the lock; the lowest that pyproject.toml
allows; the newest of today, with NODEPLANE_FUZZ, since an index that changes makes no reproducible test."""
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling, which builds, is not installed"),
    pytest.mark.skipif(find_spec("pip") is None, reason="pip, which installs the wheel, is not installed"),
]


class Built(NamedTuple):
    wheel: Path
    sdist: Path
    wheel_of_sdist: Path


def build(tree: Path, target: Path, *kinds: str) -> None:
    words = [word for kind in kinds for word in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", *words, "-d", str(target)]
    subprocess.run(command, cwd=tree, check=True, timeout=120, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both distributions of this tree, and the wheel that somebody else builds from the sdist, without git."""
    place = tmp_path_factory.mktemp("dist")
    build(REPO, place, "sdist", "wheel")
    [sdist], [wheel] = place.glob("*.tar.gz"), place.glob("*.whl")
    subprocess.run(["tar", "xzf", sdist, "-C", place], check=True, timeout=60)
    build(place / sdist.name.removesuffix(".tar.gz"), place / "again", "wheel")
    return Built(wheel, sdist, next((place / "again").glob("*.whl")))


def contents(wheel: Path) -> dict[str, int]:
    """Return the checksums of its files; that of the list of files depends on their order."""
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.CRC for each in archive.infolist() if not each.filename.endswith("/RECORD")}


def test_wheel_and_wheel_of_the_sdist_hold_the_same_files_and_no_tests(built: Built) -> None:
    files = contents(built.wheel)
    assert files == contents(built.wheel_of_sdist)
    assert built.wheel.name == built.wheel_of_sdist.name
    tops = {name.split("/")[0] for name in files}
    assert tops - OURS == {f"{built.wheel.name.rsplit('-', 3)[0]}.dist-info"}
    tests = [name for name in files if "/test_" in name or name.endswith("conftest.py")]
    assert [name for name in tests if not name.startswith("supervisor/begin/templates/")] == []
    assert "protocols/wire/podresources_v1.proto" in files
    assert "actors/fleet/profiles/builtin/gpus.yaml" in files
    assert "supervisor/benches/tests/bench/main.py" in files
    assert {"protocols/py.typed", "supervisor/py.typed"} <= files.keys()  # types of what pytest-nodeplane returns


def test_sdist_holds_no_tests_but_the_benches(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = ["/".join(name.split("/")[1:]) for name in archive.getnames()]
    tested = {"/".join(name.split("/")[:2]) for name in names if name.startswith("tests/")}
    assert tested == {"tests/bench", "tests/simulation", "tests/support"}, "one bench measures the simulation"
    assert {"LICENSE", "README.md", "PKG-INFO", "pyproject.toml", "deploy/build.py"} <= set(names)


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
            return subprocess.Popen([self.nodeplane, *words], env=self.variables, cwd=self.root, stdout=log, stderr=log)

    def kubectl(self, *words: str) -> str:
        command = [str(KUBECTL), *words]
        return subprocess.run(
            command, env=self.variables, capture_output=True, text=True, check=True, timeout=60
        ).stdout


@pytest.fixture(params=[LOCKED, LOWEST, *([HIGHEST] if FUZZ else [])])
def installed(request: pytest.FixtureRequest, built: Built, tmp_path: Path) -> Iterator[Installed]:
    """An environment with a wheel of this tree and the libraries it names; its plane is stopped at the end."""
    environment = tmp_path / "venv"
    venv.create(environment)
    if request.param == LOCKED:
        link_locked(built.wheel_of_sdist, environment)
    else:
        resolve(built.wheel, environment, request.param)
    with tempfile.TemporaryDirectory(prefix="npw", dir="/tmp") as root:  # paths of sockets are short
        made = Installed(environment, Path(root))
        yield made
        subprocess.run([made.nodeplane, "down"], env=made.variables, check=False, timeout=60, capture_output=True)


def link_locked(wheel: Path, environment: Path) -> None:
    """Install a wheel beside links to what it requires, as this environment has it: nothing is downloaded."""
    packages = next((environment / "lib").glob("python3*/site-packages"))
    target = ["--python", str(environment / "bin" / "python"), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", *target, str(wheel)], check=True, timeout=60)
    nodeplane = next(iter(distributions(name="nodeplane", path=[str(packages)])))
    for each in declared(nodeplane, {}).values():
        link(each, packages)


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
    """Offer an installed distribution to another environment."""
    for top in {file.parts[0] for file in each.files or () if file.parts[0] not in ("..", "__pycache__")}:
        place = packages / top
        if not place.exists():
            place.symlink_to(Path(str(each.locate_file(top))))


def resolve(wheel: Path, environment: Path, resolution: str) -> None:
    """Let uv choose the versions of what the wheel requires, as `uv tool install` does."""
    if UV is None:
        pytest.skip("uv, which chooses the lowest versions, is not installed")
    command = [UV, "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
    done = subprocess.run(
        [*command, "--resolution", resolution, "--compile-bytecode", str(wheel)],
        env={**os.environ, "UV_HTTP_TIMEOUT": "10", "UV_HTTP_RETRIES": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if done.returncode and any(word in done.stderr for word in ("Failed to fetch", "error sending request", "dns")):
        pytest.skip(f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


def test_an_installed_distribution_runs_up_apply_devices_a_bench_and_down(installed: Installed) -> None:
    about = json.loads(installed.run("version", "-o", "json"))
    assert len(about["commit"]) == 40 or not (REPO / ".git").exists()
    assert "missing" not in about["libraries"].values()
    installed.run("up", "--detach", "--port", "0", "--metrics-port", "0", "--healthz-port", "0")
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
    gone = subprocess.run(
        [installed.nodeplane, "status"], env=installed.variables, capture_output=True, text=True, check=False
    )
    assert "no plane runs" in gone.stderr
