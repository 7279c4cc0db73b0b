"""The script of a simulated ("hollow") container, from annotations of its pod. Pure."""

from collections.abc import Mapping

import msgspec

from protocols.kube import times
from protocols.lifecycle.errors import HollowInvalid

HOLLOW = "nodeplane.dev/hollow"
DURATION = "nodeplane.dev/hollow-duration"
EXIT_CODE = "nodeplane.dev/hollow-exit-code"
OOM = "nodeplane.dev/hollow-oom"
LOG = "nodeplane.dev/hollow-log"
OOM_CODE, MOST_DIGITS = 137, 3
LONGEST_NS, LONGEST = 2**63 - 1, 64
"""Nanoseconds and characters of a duration."""


class HollowScript(msgspec.Struct, frozen=True):
    """Script of a simulated container."""

    duration_ns: int = 0
    """0 = until it is stopped."""
    exit_code: int = 0
    oom_killed: bool = False
    """Ends as if the kernel had killed it for lack of memory."""
    log: tuple[str, ...] = ()
    """Lines it logs as it starts."""


def parse_duration(text: str) -> int:
    """Parse a positive Go duration (`1h2m3.5s`, `300ms`) into nanoseconds. Raises HollowInvalid."""
    if len(text) > LONGEST or not times.DURATION.fullmatch(text):
        raise HollowInvalid(f"{text!r:.64} is not a duration; write it like 1m30s or 250ms")
    nanoseconds = times.duration_ns(text)
    if not 0 < nanoseconds <= LONGEST_NS:
        raise HollowInvalid(f"duration {text!r:.64} is out of range")
    return nanoseconds


def read_hollow(annotations: Mapping[str, str], *, simulated: bool) -> HollowScript | None:
    """Return the script, None for a real container. Raises HollowInvalid.

    `simulated`: it has no process unless an annotation says otherwise.
    """
    requested = annotations.get(HOLLOW)
    if requested != "true" and not (requested is None and simulated):
        return None
    duration, oom_killed = annotations.get(DURATION, ""), annotations.get(OOM) == "true"
    return HollowScript(
        duration_ns=parse_duration(duration) if duration else 0,
        exit_code=_exit_code(annotations.get(EXIT_CODE, str(OOM_CODE) if oom_killed else "0")),
        oom_killed=oom_killed,
        log=tuple(annotations.get(LOG, "").splitlines()),
    )


def _exit_code(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS and int(text) <= 255):
        raise HollowInvalid(f"annotation {EXIT_CODE}: {text!r:.64} is not an exit code from 0 to 255")
    return int(text)
