"""CDI files of a claim are such as a runtime takes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from supervisor.conform.cdi import files_of, read_spec
from supervisor.conform.cdi_rules import faults_of
from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import CDI
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = (
    "A CDI file has a cdiVersion, and containerEdits for each device: env is NAME=VALUE, nodes have a path, mounts both"
    " paths, hooks a name and a path."
)
SOURCE = f"{CDI}; its pkg/cdi/container-edits.go"
ADVICE = "Put the file right: a runtime leaves out a file that has a fault, and says that its devices are unresolvable."


async def check(driver: DriverPeer) -> None:
    """Read the files that declare the CDI devices of a claim."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = await driver.cdi_of(claim)
        files, faults = await asyncio.to_thread(_read, driver.cdi, ids)
    if not files:
        raise NotApplicable("no file declares the CDI devices")
    if faults:
        raise Failed(several(faults))


def _read(folders: Sequence[Path], ids: set[str]) -> tuple[list[Path], list[str]]:
    files = [path for folder in folders for path in files_of(folder, ids)]
    return files, [f"{path.name}: {fault}" for path in files for fault in faults_of(read_spec(path))]
