"""A systemd that boots in a container over this machine's own files (systemd-nspawn on an overlay), and runs a script.

Nothing of the machine is changed: the overlay is in memory, in a mount namespace that ends with the container.
"""

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

REPO = Path(__file__).parents[2]
BOOT_S = 90
MISSING = "{} is not installed (Debian: systemd-container)"

ENTER = """
set -e
for group in $CGROUPS; do mkdir "$group"; echo $$ >"$group/cgroup.procs"; done
mount --make-rprivate /
mount -t tmpfs none "$WORK"
mkdir "$WORK/upper" "$WORK/work" "$WORK/root"
mount -t overlay none -o "lowerdir=/,upperdir=$WORK/upper,workdir=$WORK/work" "$WORK/root"
cp -r "$GIVEN/." "$WORK/root/"
mkdir -p "$WORK/root/opt/nodeplane" "$WORK/root/opt/source" "$WORK/root/results"
exec systemd-nspawn --quiet --register=no --keep-unit --directory="$WORK/root" --machine="$NAME" --private-network \
    --bind="$VENV:/opt/nodeplane" --bind="$REPO:/opt/source" --bind="$RESULTS:/results" \
    --boot systemd.unit=script.target systemd.show_status=no
"""

TARGET = """
[Unit]
Requires=basic.target script.service
After=basic.target
AllowIsolate=yes
"""

SERVICE = """
[Unit]
After=basic.target
[Service]
Type=oneshot
Environment=PATH=/opt/nodeplane/bin:/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/opt/source
ExecStart=/bin/sh -c 'sh -eux /script >/results/output 2>&1; echo $? >/results/code; systemctl poweroff --force --force'
TimeoutStartSec=infinity
"""


def why_not() -> str:
    """Return the reason why no systemd can boot here; "" if one can."""
    if os.geteuid() != 0:
        return "only root can boot a systemd in a container"
    if not shutil.which("systemd-nspawn"):
        return MISSING.format("systemd-nspawn")
    probe = subprocess.run(["unshare", "-m", "sh", "-c", _PROBE], capture_output=True, text=True, timeout=20)
    if probe.returncode:
        return f"no overlay can be mounted here: {probe.stderr.strip()}"
    return "" if _cgroups() and all(os.access(group, os.W_OK) for group in _cgroups()) else "no cgroup is writable here"


_PROBE = """mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/m &&
mount -t overlay none -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/m"""


def _cgroups() -> list[Path]:
    """Return this process's cgroup in the hierarchies that systemd uses: version 2, and its own of version 1."""
    base, found = Path("/sys/fs/cgroup"), []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "name=systemd":
            found.append(base / "systemd" / path.lstrip("/"))
        elif not controllers:
            whole = (base / "cgroup.controllers").exists()
            found.append((base if whole else base / "unified") / path.lstrip("/"))
    return [group for group in found if group.is_dir()]


def _remove(group: Path) -> None:
    for below in sorted(group.rglob("*"), key=lambda path: -len(path.parts)):
        if below.is_dir():
            below.rmdir()
    group.rmdir()


def run(script: str, files: dict[str, str], where: Path) -> tuple[int, str]:
    """Boot with these files added, run the script as root, power off; return its exit code and output."""
    given, results = where / "given", where / "results"
    (where / "mount").mkdir()
    results.mkdir()
    everything = {
        **files,
        "script": script,
        "etc/systemd/system/script.target": TARGET,
        "etc/systemd/system/script.service": SERVICE,
        "etc/machine-id": uuid.uuid4().hex + "\n",
    }
    for name, text in everything.items():
        (given / name).parent.mkdir(parents=True, exist_ok=True)
        (given / name).write_text(text)
    environment = {
        **os.environ,
        "WORK": str(where / "mount"),
        "GIVEN": str(given),
        "RESULTS": str(results),
        "REPO": str(REPO),
        "VENV": sys.prefix,
        "NAME": (name := f"np-{uuid.uuid4().hex[:8]}"),
        "CGROUPS": " ".join(str(group / name) for group in _cgroups()),
    }
    command = ["unshare", "-m", "sh", "-c", ENTER]
    console = subprocess.run(
        command, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=BOOT_S, check=False
    )
    for group in _cgroups():
        _remove(group / name)
    if not (results / "code").exists():
        return 1, (console.stdout + console.stderr).decode(errors="replace")
    return int((results / "code").read_text()), (results / "output").read_text()
