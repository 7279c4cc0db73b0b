"""The root directory of an image's container: the image below, what the container changes above it, by overlay.

The kernel's file systems and the host's names and addresses are there as on the host: a pod has its network.
"""

import os
from typing import NamedTuple

from actors.runtime.shim import mounts, system

_SHARED = ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname")
_TREES = ("/dev", "/sys")


class Root(NamedTuple):
    image: str
    """Directory with the image's files; never changed."""
    own: str
    """Directory of the container's own: `upper` holds what it changes."""


def prepare(given: Root) -> str:
    """Mounted and furnished, but not yet entered: its path. Raises RuntimeError."""
    top = f"{given.own}/merged"
    for part in ("upper", "work", "merged"):
        os.makedirs(f"{given.own}/{part}", 0o755, exist_ok=True)
    options = f"lowerdir={_quoted(given.image)},upperdir={_quoted(given.own)}/upper,workdir={_quoted(given.own)}/work"
    mounts.checked("the image's root (overlay)", lambda: system.mount("overlay", top, 0, "overlay", options))
    mounts.make_directory(top, "/proc")
    for tree in _TREES:
        mounts.bind(mounts.Mount(tree, tree, readonly=False), top)
    for file in _SHARED:
        if os.path.isfile(file):
            mounts.bind(mounts.Mount(os.path.realpath(file), file, readonly=False), top)
    return top


def turn_to(top: str) -> None:
    """From here on `top` is all there is. Raises RuntimeError."""
    os.chdir(top)
    mounts.checked("the image's root", system.pivot_root_here)
    os.chdir("/")


def _quoted(path: str) -> str:
    r"""A comma or colon would end the option: `\,`."""
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
