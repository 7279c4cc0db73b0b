"""`nodeplane check`: judge what this machine gives a plane, what will not work on it, and how to fix it."""

import argparse
import datetime
import os
import re
from collections.abc import Callable, Iterator

import msgspec

from protocols.process.namespaces import NAMESPACES
from supervisor.base.terminal import Table, print_json, show
from supervisor.machine.facts import CONTROLLERS, MachineFacts, machine

OK, LIMITED, FAILS = "ok", "limited", "fails"
"""States: works; a plane runs, but something does not work; no plane runs."""
MIB = 1 << 20
OLDEST_KERNEL, SEALING_KERNEL = (5, 3), (5, 12)
MEMORY, LEAST_MEMORY = 512 * MIB, 256 * MIB
DISK, LEAST_DISK = 256 * MIB, 32 * MIB
SHM = 16 * MIB
DESCRIPTORS, LEAST_DESCRIPTORS = 8192, 256
INSTANCES = 32
RESOLUTION_S = 0.001
YEAR = 2025


class Finding(msgspec.Struct, frozen=True):
    """One row of the report; `effect` says what does not work and how to fix it, "" if all does."""

    name: str
    found: str
    state: str = OK
    effect: str = ""


def findings(here: MachineFacts) -> list[Finding]:
    """Return all findings, in the order of the checks."""
    return [finding for check in CHECKS for finding in check(here)]


def fails(found: list[Finding]) -> bool:
    """Return True if a plane would not work on the machine."""
    return any(finding.state == FAILS for finding in found)


def _kernel(here: MachineFacts) -> Iterator[Finding]:
    kernel = f"{here.system} {here.kernel}"
    version = tuple(int(part) for part in re.findall(r"\d+", here.kernel)[:2])
    if here.system != "Linux" or version < OLDEST_KERNEL:
        yield Finding("kernel", kernel, FAILS, "nodeplane needs Linux 5.3 or newer")
    elif version < SEALING_KERNEL:
        yield Finding("kernel", kernel, LIMITED, "no recursiveReadOnly mounts: Linux 5.12 or newer has them")
    else:
        yield Finding("kernel", kernel)


def _user(here: MachineFacts) -> Iterator[Finding]:
    yield Finding("python", f"{here.python}, SQLite {here.sqlite}")
    if here.uid == 0:
        yield Finding("user", "root")
        return
    effect = "containers are processes of this user on the host's files: no images, mounts, users or capabilities"
    yield Finding("user", f"uid {here.uid}, not root", LIMITED, f"{effect}; run as root, or use --runtime")


def _namespaces(here: MachineFacts) -> Iterator[Finding]:
    missing = [name for name in NAMESPACES if name not in here.namespaces]
    namespaces = ", ".join(here.namespaces) or "none"
    reason = f"the kernel lacks {', '.join(missing)}" if missing else here.unshare_error
    if here.uid == 0 and not here.sys_admin:
        reason = "no CAP_SYS_ADMIN"
    if not reason:
        yield Finding("namespaces", namespaces)
        return
    effect = "containers are not isolated from the host, and see no volumes at their paths"
    mend = "run as root" if here.uid else "allow CAP_SYS_ADMIN and mounts (docker run --privileged)"
    yield Finding("namespaces", f"{namespaces}; cannot be made: {reason}", LIMITED, f"{effect}; {mend}")


def _cgroups(here: MachineFacts) -> Iterator[Finding]:
    have = here.cgroups
    cgroups = f"{' and '.join(have.versions) or 'not mounted'}, may write: {', '.join(have.writable) or 'none'}"
    missing = [name for name in CONTROLLERS if name not in have.writable]
    if not missing:
        yield Finding("cgroups", cgroups)
    else:
        effect = f"limits of {', '.join(missing)} are not enforced; run as root with a writable /sys/fs/cgroup"
        yield Finding("cgroups", cgroups, LIMITED, effect)


def _shm(here: MachineFacts) -> Iterator[Finding]:
    if here.shm >= SHM:
        yield Finding("/dev/shm", _mib(here.shm))
    else:
        size = _mib(here.shm) if here.shm >= 0 else "not mounted"
        effect = "programs in pods that share memory fail; mount a tmpfs there (docker run --shm-size)"
        yield Finding("/dev/shm", size, LIMITED, effect)


def _descriptors(here: MachineFacts) -> Iterator[Finding]:
    soft, hard = here.descriptors
    limits, most = f"{_limit(soft)}, at most {_limit(hard)}", hard if hard >= 0 else DESCRIPTORS
    mend = "raise the hard limit (ulimit -Hn, LimitNOFILE=)"
    if most < LEAST_DESCRIPTORS:
        yield Finding("open files", limits, FAILS, f"actors need {LEAST_DESCRIPTORS} or more; {mend}")
    elif most < DESCRIPTORS:
        effect = f"about {most} connections and watches of an API process, less for one user; {mend}"
        yield Finding("open files", limits, LIMITED, effect)
    else:
        yield Finding("open files", limits)


def _inotify(here: MachineFacts) -> Iterator[Finding]:
    instances, watches = here.inotify
    limits = f"{instances} instances, {watches} watches of a user"
    if instances >= INSTANCES:
        yield Finding("inotify", limits)
    else:
        effect = "registrations of plugins may go unseen; raise fs.inotify.max_user_instances (sysctl)"
        yield Finding("inotify", limits, LIMITED, effect)


def _clocks(here: MachineFacts) -> Iterator[Finding]:
    wall = datetime.datetime.fromtimestamp(here.wall_time, datetime.UTC)
    clock = f"{wall:%Y-%m-%dT%H:%M:%SZ}, resolution {here.clock_resolution:g} s, {here.clocksource or 'unknown source'}"
    if wall.year < YEAR:
        yield Finding("clocks", clock, FAILS, "certificates would not be valid; set the clock")
    elif here.clock_resolution > RESOLUTION_S:
        yield Finding("clocks", clock, LIMITED, "times of events and figures of bench are coarse")
    else:
        yield Finding("clocks", clock)


def _memory(here: MachineFacts) -> Iterator[Finding]:
    effect = "a plane of one node takes about 300 MiB; free some, or run `adopt` or a single group"
    state = FAILS if here.memory < LEAST_MEMORY else LIMITED if here.memory < MEMORY else OK
    yield Finding("memory", f"{_mib(here.memory)} available", state, effect if state != OK else "")


def _root(here: MachineFacts) -> Iterator[Finding]:
    if here.root_error:
        yield Finding("root", here.root, FAILS, here.root_error)
        return
    state = FAILS if here.disk < LEAST_DISK else LIMITED if here.disk < DISK else OK
    effect = "store, logs and images may fill the disk; free some space or use another --root" if state != OK else ""
    running = ", a plane runs there" if here.runs else ""
    yield Finding("root", f"{here.root}, {_mib(here.disk)} free{running}", state, effect)


def _ports(here: MachineFacts) -> Iterator[Finding]:
    if here.loopback_error:
        effect = f"the API listens on 127.0.0.1: {here.loopback_error}; bring up the interface lo"
        yield Finding("ports", "no loopback", FAILS, effect)
    elif here.ports_in_use:
        zero = " ".join(f"{flag} 0" for flag in here.ports_in_use)
        effect = f"`up` without flags finds its ports in use; give {zero} for free ones"
        yield Finding("ports", f"in use: those of {', '.join(here.ports_in_use)}", LIMITED, effect)
    else:
        yield Finding("ports", "the plane's own" if here.runs else "free")


def _runtimes(here: MachineFacts) -> Iterator[Finding]:
    others = [f"{name} {path}" for name, path in here.runtimes.items()]
    yield Finding("runtimes", ", ".join(("embedded", *others)))
    programs = ", ".join(here.programs) or "none"
    if "kubectl" in here.programs:
        yield Finding("programs", programs)
    else:
        yield Finding("programs", programs, LIMITED, "no kubectl on PATH; any Kubernetes client does")


CHECKS: tuple[Callable[[MachineFacts], Iterator[Finding]], ...] = (
    _kernel,
    _user,
    _namespaces,
    _cgroups,
    _shm,
    _descriptors,
    _inotify,
    _clocks,
    _memory,
    _root,
    _ports,
    _runtimes,
)


def _mib(size: int) -> str:
    return f"{size / MIB:.0f} MiB"


def _limit(value: int) -> str:
    return str(value) if value >= 0 else "unlimited"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("check", help="what this machine gives a plane", allow_abbrev=False)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.set_defaults(run=check)


def check(args: argparse.Namespace) -> int:
    """Print a row per fact; return 1 if no plane can run here."""
    root = getattr(args, "root", "") or os.environ.get("NODEPLANE_ROOT", "")
    all_findings = findings(machine(root))
    if args.output == "json":
        print_json(all_findings)
    else:
        rows = [(finding.name, finding.state, finding.found) for finding in all_findings]
        show(Table(("CHECK", "STATE", "FOUND"), rows), *summary(all_findings))
    return 1 if fails(all_findings) else 0


def summary(found: list[Finding]) -> list[str]:
    """Return the effects, the worst first, or one line that there are none."""
    lines = [
        f"{finding.name}: {finding.effect}" for state in (FAILS, LIMITED) for finding in found if finding.state == state
    ]
    if not lines:
        return ["everything works here"]
    title = "no plane runs here:" if fails(found) else "a plane runs here, but:"
    return ["\n".join([title, *(f"  {line}" for line in lines)])]
