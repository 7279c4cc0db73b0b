"""Image names, written short or in full. Pure."""

import re

from actors.runtime.model.errors import InvalidRequest

HUB, LIBRARY, LATEST = "docker.io", "library", "latest"
_NAME = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_HOST = re.compile(r"[A-Za-z0-9]+(?:[.-]+[A-Za-z0-9]+)*(?::[0-9]{1,5})?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def full_name(text: str) -> str:
    """`busybox` is docker.io/library/busybox:latest; a digest behind the name is left out. Raises InvalidRequest."""
    name, _, tag = _split(text.partition("@")[0])
    host, _, rest = name.partition("/")
    if not rest or not ("." in host or ":" in host or host == "localhost"):
        host, rest = HUB, name if "/" in name else f"{LIBRARY}/{name}"
    if not _HOST.fullmatch(host) or not _NAME.fullmatch(rest) or not _TAG.fullmatch(tag):
        raise InvalidRequest(f'"{text}" is no image name; write it like busybox, team/app:v1 or localhost/app')
    return f"{host}/{rest}:{tag}"


def short_name(name: str) -> str:
    """As a person writes it."""
    return name.removeprefix(f"{HUB}/{LIBRARY}/").removeprefix(f"{HUB}/")


def _split(text: str) -> tuple[str, str, str]:
    head, slash, last = text.rpartition("/")
    name, colon, tag = last.partition(":")
    return head + slash + name, colon, tag or LATEST
