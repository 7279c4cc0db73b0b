"""`nodeplane version`: the release, its commit, the libraries it runs on and the documents it implements."""

import argparse
import json
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import msgspec

from protocols.process.settings import GATES
from protocols.process.texts import printable
from protocols.version import installed_version
from supervisor.base.terminal import print_json

PACKAGE = "nodeplane"
TREE = Path(__file__).parents[2]
BUILT = Path(__file__).with_name("built.json")
"""Written into a distribution by deploy/build.py; a clone asks git instead."""
GIT_S = 5.0
REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
DOCUMENTS = {
    "pod resources watch": ("KubeletPodResourcesWatch", "KubeletPodResourcesListUseActivePods"),
    "KEP-4680 device health": ("ResourceHealthStatus", "ResourceHealthStatusMessage"),
    "KEP-5027 admin-controlled device attributes": ("DRAAdminControlledDeviceAttributes", "DRADeviceTaints"),
    "KEP-1904 watch resumption": ("EfficientWatchResumption",),
    "KEP-3386 evented PLEG": ("EventedPLEG",),
}
"""The documents that nodeplane implements, with the feature gates that turn their parts off."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of `nodeplane version -o json`."""

    version: str
    commit: str
    """Empty where neither git nor the build knows it."""
    changed: bool
    """The clone has uncommitted changes."""
    python: str
    interpreter: str
    libraries: dict[str, str]
    documents: dict[str, tuple[str, ...]]
    """Feature gates by document; those of no document under "others"."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("version", help="print the version and what it is made of", allow_abbrev=False)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.set_defaults(run=_print_version)


def _print_version(args: argparse.Namespace) -> int:
    info = version()
    if args.output == "json":
        print_json(info)
    else:
        print("\n".join(map(printable, lines(info))))
    return 0


def version() -> Version:
    """Return the release and what it is made of; asks git in a clone."""
    commit, changed = commit_of(TREE, BUILT)
    return Version(
        version=installed_version(),
        commit=commit,
        changed=changed,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        interpreter=sys.executable,
        libraries=libraries(),
        documents=documents(),
    )


def lines(found: Version) -> list[str]:
    """Return the text of the command; the first line is the version alone, for scripts."""
    commit = (found.commit or "unknown") + (", with uncommitted changes" if found.changed else "")
    gates = [f"  {name}: {', '.join(gates)}" for name, gates in found.documents.items()]
    return [
        f"nodeplane {found.version}",
        f"commit: {commit}",
        f"python: {found.python} ({found.interpreter})",
        "libraries: " + ", ".join(f"{name} {number}" for name, number in found.libraries.items()),
        "documents and their feature gates:",
        *gates,
    ]


def libraries() -> dict[str, str]:
    """Return the installed versions of the libraries that nodeplane requires, by name."""
    try:
        required = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return {}
    names = [REQUIREMENT.match(text) for text in required if "extra ==" not in text]
    return {name.group(): _installed(name.group()) for name in names if name}


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def documents() -> dict[str, tuple[str, ...]]:
    """Return the feature gates by the KEP they come from, `others` last."""
    named = {gate for gates in DOCUMENTS.values() for gate in gates}
    return {**DOCUMENTS, "others": tuple(gate for gate in GATES if gate not in named)}


def commit_of(tree: Path, built: Path) -> tuple[str, bool]:
    """Return the commit of a clone, with True if it has uncommitted changes, or the one that was built."""
    if (tree / ".git").exists():
        head = _git(tree, "rev-parse", "HEAD")
        return head, bool(head and _git(tree, "status", "--porcelain", "--untracked-files=no"))
    try:
        return str(json.loads(built.read_text())["commit"]), False
    except (OSError, ValueError, KeyError):
        return "", False


def _git(tree: Path, *words: str) -> str:
    try:
        command = ["git", "-C", str(tree), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
