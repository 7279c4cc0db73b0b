"""Tell hatchling the version, the commit and the modules of a distribution (pyproject.toml names this file).

- The version is that of the git tag `vX.Y.Z`; beyond a tag it is the next one's `.devN+gCOMMIT`. A source distribution
  has its version in PKG-INFO; a packager without either sets NODEPLANE_VERSION.
- `nodeplane bench` needs tests/bench and what that imports of tests/support, and no other test: a wheel has these below
  supervisor/benches, so that it installs no package called `tests`.
"""

import ast
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parents[1]
UNTAGGED = "0.2.0"
"""The version under development where git knows no tag: a shallow clone."""
BUILT = "supervisor/machine/built.json"
BENCHES = "supervisor/benches"
TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)-(\d+)-g([0-9a-f]+)(-dirty)?")
GIT_S = 10


def version(root: Path = ROOT, packager: str | None = None) -> str:
    """Return the version of this tree: the packager's, else that of PKG-INFO, git, or no release at all."""
    chosen = os.environ.get("NODEPLANE_VERSION", "") if packager is None else packager
    metadata = root / "PKG-INFO"
    if not chosen and metadata.exists():
        chosen = HeaderParser().parsestr(metadata.read_text())["Version"]
    return chosen or _git_version(root) or f"{UNTAGGED}.dev0"


def _git_version(root: Path) -> str:
    described = git(root, "describe", "--tags", "--long", "--dirty", "--abbrev=9", "--match", "v[0-9]*")
    match = TAG.fullmatch(described)
    if match:
        return version_of(*match.groups())
    count, sha = git(root, "rev-list", "--count", "HEAD"), git(root, "rev-parse", "--short=9", "HEAD")
    return f"{UNTAGGED}.dev{count}+g{sha}" if count and sha else ""


def version_of(major: str, minor: str, patch: str, distance: str, sha: str, dirty: str | None) -> str:
    """Return the version for `git describe`: the tag's own, or the next one under development."""
    if distance == "0" and not dirty:
        return f"{major}.{minor}.{patch}"
    return f"{major}.{int(minor) + 1}.0.dev{distance}+g{sha}{'.dirty' if dirty else ''}"


def git(root: Path, *words: str) -> str:
    """Return git's answer, or "" where `root` is no repository of its own or git is missing."""
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def bench_modules(root: Path) -> list[str]:
    """Return tests/bench and what it imports below tests, as paths relative to the root."""
    modules: set[Path] = set()
    todo = list((root / "tests" / "bench").glob("*.py"))
    while todo:
        path = todo.pop()
        if path not in modules:
            modules.add(path)
            todo += [root / named for named in _imported(path) if (root / named).is_file()]
    packages = {path.parent / "__init__.py" for path in modules}
    return sorted(str(path.relative_to(root)) for path in modules | packages if path.is_file())


def _imported(path: Path) -> Iterator[Path]:
    """Yield the modules below tests that a file imports, or names as text to start them (`python -m NAME`)."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        yield from (Path(*name.split(".")).with_suffix(".py") for name in names if name.startswith("tests."))


class Hook(BuildHookInterface[Any]):
    """Add to a distribution what pyproject.toml cannot name: the commit, and the modules of the benches."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root, added = Path(self.root), build_data["force_include"]
        below = "" if self.target_name == "sdist" else f"{BENCHES}/"
        added.update({str(root / name): below + name for name in bench_modules(root)})
        if not (root / BUILT).exists():
            self._directory = tempfile.TemporaryDirectory()  # until the build has ended
            built = Path(self._directory.name) / "built.json"
            built.write_text(json.dumps({"commit": git(root, "rev-parse", "HEAD")}))
            built.chmod(0o644)  # whatever the umask of the packager
            added[str(built)] = BUILT
