"""kubelet's files `cpu_manager_state` and `memory_manager_state`.

They are copies of the ledger, written before an admission is answered. They are read once at start: for allocations
that a kubelet made, and for the policy they were made under.
"""

import os
from pathlib import Path

import msgspec

from actors.devices.cpu import state_file as cpu_file
from actors.devices.cpu.pool import Holdings as CpuHoldings
from actors.devices.memory import state_file as memory_file
from actors.devices.memory.nodes import Holdings as MemoryHoldings
from actors.devices.model.errors import StateFileCorrupt
from protocols.process.files import make_directory, read_state, set_aside, sweep_once, write_atomic


class LoadedState(msgspec.Struct):
    """Content of the files; empty without a file."""

    cpu_policy: str = ""
    memory_policy: str = ""
    cpus: CpuHoldings = msgspec.field(default_factory=dict)
    memory: MemoryHoldings = msgspec.field(default_factory=dict)
    warnings: list[str] = msgspec.field(default_factory=list)
    """Lines to log."""


class StateFiles:
    """Its methods block; `save` is called in a thread once the event loop runs."""

    def __init__(self, directory: Path) -> None:
        self.cpu = directory / cpu_file.NAME
        self.memory = directory / memory_file.NAME
        self._written: dict[Path, bytes] = {}

    def load(self) -> LoadedState:
        make_directory(self.cpu.parent, 0o700)
        sweep_once(self.cpu.parent)
        loaded = LoadedState()
        if raw := self._read(self.cpu, loaded):
            try:
                loaded.cpu_policy, loaded.cpus = cpu_file.decode(raw)
            except StateFileCorrupt as error:
                loaded.warnings.append(self._set_aside(self.cpu, error))
        if raw := self._read(self.memory, loaded):
            try:
                loaded.memory_policy, loaded.memory, sound = memory_file.decode(raw)
                if not sound:
                    loaded.warnings.append(
                        f"{self.memory}: its checksum is of another version or wrong; its content is used"
                    )
            except StateFileCorrupt as error:
                loaded.warnings.append(self._set_aside(self.memory, error))
        return loaded

    def save(self, cpu: bytes, memory: bytes) -> None:
        """Write the files that differ. Raises OSError."""
        for path, data in ((self.cpu, cpu), (self.memory, memory)):
            if self._written.get(path) != data:
                self._written.pop(path, None)  # a failed write leaves unknown content
                write_atomic(path, data, mode=0o600)
                self._written[path] = data

    def _read(self, path: Path, found: LoadedState) -> bytes:
        """Return the content, or b"" without a readable file."""
        try:
            raw = read_state(path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            found.warnings.append(self._set_aside(path, StateFileCorrupt(str(error.strerror).lower())))
            return b""
        self._written[path] = raw
        return raw or b"{}"

    def _set_aside(self, path: Path, error: StateFileCorrupt) -> str:
        self._written.pop(path, None)
        try:
            aside = set_aside(path)
        except OSError as fault:
            return f"{path} is corrupt: {error}; it cannot be moved aside: {os.strerror(fault.errno or 0).lower()}"
        return f"{path} is corrupt: {error}; kept as {aside}, rebuilt from what the pods hold"
