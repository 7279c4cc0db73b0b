"""Build deploy/Containerfile without a registry or an index: on the files of this machine's Debian packages.

The last stage is built as it stands. What the first would install from an index is taken from this environment: the
distributions that pyproject.toml names, and theirs, and the tree.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement

REPO = Path(__file__).parents[2]
CONTAINERFILE = REPO / "deploy" / "Containerfile"
PACKAGES = ("python3", "libstdc++6", "libc-bin", "dash", "coreutils", "base-files")
SYSTEM_PYTHON = "/usr/bin/python3"
UNNEEDED = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/info", "/usr/share/lintian")
LEFT_OUT = {"cel-expr-python", "textual", "textual-serve"}
"""Large, and loaded by no process that a test starts: CEL with the first expression, textual with the console."""
TREE = ("protocols", "actors", "supervisor")


def why_not() -> str:
    """Return the reason why no image can be built here; "" if one can."""
    if os.geteuid() != 0:
        return "only root can build an image without user namespaces"
    missing = [name for name in ("buildah", "dpkg-query") if not shutil.which(name)]
    if missing:
        return f"{missing[0]} is not installed (Debian: {missing[0]})"
    if Path(sys.executable).resolve() != Path(SYSTEM_PYTHON).resolve():
        return "the environment does not use Debian's Python"
    return ""


class Images:
    """buildah with a store of its own below `where`; nothing needs a daemon, a network or a container runtime."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._store = ["--root", str(where / "store"), "--runroot", str(where / "run"), "--storage-driver", "overlay"]

    def buildah(self, *words: str, timeout: float = 120) -> str:
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, f"buildah {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def command(self, *words: str) -> list[str]:
        return ["buildah", *self._store, *words]

    def unusable(self) -> str:
        """Return the reason why no image can be stored here, as on a file system that overlay does not take."""
        done = subprocess.run(self.command("info"), capture_output=True, text=True, timeout=60, check=False)
        return f"buildah cannot store images here: {done.stderr.strip()}" if done.returncode else ""

    def build(self, name: str) -> None:
        """Build the image of the last stage on an image of Debian's files."""
        debian = self.buildah("from", "scratch")
        mounted = Path(self.buildah("mount", debian))
        copy_packages(mounted)
        self.buildah("umount", debian)
        self.buildah("commit", "--quiet", debian, "localhost/debian")
        head, _, last = CONTAINERFILE.read_text().rpartition("FROM ")
        argument = next(line for line in head.splitlines() if line.startswith("ARG BASE="))
        (self._where / "Containerfile").write_text(f"{argument}\nFROM {last}")
        installed = self._where / "build"
        install(installed / "opt" / "nodeplane")
        (installed / "empty").mkdir()
        options = ["--quiet", "--isolation", "chroot", "--build-arg", "BASE=localhost/debian", "--pull-never"]
        files = ["--format", "docker", "--file", str(self._where / "Containerfile"), "--tag", name]
        self.buildah("build", *options, "--build-context", f"build={installed}", *files, str(REPO))

    def remove(self) -> None:
        self.buildah("rm", "--all")
        self.buildah("rmi", "--all", "--force")


def limits() -> list[str]:
    """Return options for limits that this process may set: newer versions of buildah ask for more, which takes a right.

    Older ones have lowered the number of processes to that of the kernel before.
    """
    files, processes = (resource.getrlimit(each)[1] for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    if not 0 <= processes <= most:
        processes = most
    return ["--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"]


def copy_packages(root: Path) -> None:
    """Copy the files of the packages and of what they depend on, as they are installed here."""
    listed = subprocess.run(
        ["dpkg-query", "--listfiles", *sorted(_closure(PACKAGES))], capture_output=True, text=True, check=True
    )
    names = {line for line in listed.stdout.splitlines() if line.startswith("/") and not line.startswith(UNNEEDED)}
    names |= {cache_from_source(name) for name in names if name.endswith(".py")}  # written by the packages' scripts
    files = [name for name in sorted(names) if os.path.islink(name) or os.path.isfile(name)]
    for link in ("bin", "lib", "lib64", "sbin"):  # Debian's merged /usr
        if os.path.islink(f"/{link}"):
            (root / link).symlink_to(os.readlink(f"/{link}"))
            (root / "usr" / link).mkdir(parents=True, exist_ok=True)
    listing = "\0".join(name.lstrip("/") for name in files).encode()
    packed = subprocess.run(
        ["tar", "-C", "/", "--null", "-T", "-", "-cf", "-"], input=listing, capture_output=True, check=True
    )
    subprocess.run(["tar", "-C", str(root), "--keep-directory-symlink", "-xf", "-"], input=packed.stdout, check=True)
    (root / "tmp").mkdir(mode=0o1777, exist_ok=True)
    (root / "tmp").chmod(0o1777)


def _closure(packages: Iterable[str]) -> set[str]:
    shown = "${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    told = subprocess.run(["dpkg-query", "-W", "-f", shown], capture_output=True, text=True, check=True).stdout
    needs: dict[str, list[list[str]]] = {}
    provider: dict[str, str] = {}
    for package, depends, provides in (line.split("\t") for line in told.splitlines()):
        needs[package] = [_names(group, "|") for group in depends.split(",")]
        provider.update(dict.fromkeys(_names(provides, ","), package) | {package: package})
    found: set[str] = set()
    pending = list(packages)
    while pending:
        package = provider.get(pending.pop(), "")
        if package and package not in found:
            found.add(package)
            pending += [next((name for name in group if name in provider), "") for group in needs[package]]
    return found


def _names(text: str, between: str) -> list[str]:
    return [re.split(r"[ (:]", item.strip())[0] for item in text.split(between) if item.strip()]


def install(venv: Path) -> None:
    """Make the environment that the first stage would make."""
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", "--symlinks", str(venv)], check=True)
    site = next(venv.glob("lib/python3*/site-packages"))
    here = Path(sysconfig.get_path("purelib"))
    for name in _distributions("nodeplane"):
        _copy_distribution(metadata.distribution(name), here, site)
    about = next(here.glob("nodeplane-*.dist-info"))
    shutil.copytree(about, site / about.name)
    for folder in TREE:
        shutil.copytree(REPO / folder, site / folder)
    # as pip does; what the tree has already is skipped
    command = [SYSTEM_PYTHON, "-m", "compileall", "-q", "-j", "0", *(str(site / folder) for folder in TREE)]
    subprocess.run(command, check=False)
    for script in ("nodeplane", "honcho"):
        text = (Path(sys.executable).parent / script).read_text()
        (venv / "bin" / script).write_text(f"#!/opt/nodeplane/bin/python\n{text.partition(chr(10))[2]}")
        (venv / "bin" / script).chmod(0o755)


def _copy_distribution(found: metadata.Distribution, here: Path, site: Path) -> None:
    tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        source = here / top
        if source.is_dir():
            shutil.copytree(source, site / top, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy2(source, site / top)


def _distributions(root: str) -> set[str]:
    """Return the distributions that `root` needs to run, without itself."""
    found: set[str] = set()
    pending = [root]
    while pending:
        for text in metadata.distribution(pending.pop()).requires or ():
            need = Requirement(text)
            wanted = need.marker is None or need.marker.evaluate({"extra": ""})
            if wanted and need.name not in found | LEFT_OUT:
                found.add(need.name)
                pending.append(need.name)
    return found
