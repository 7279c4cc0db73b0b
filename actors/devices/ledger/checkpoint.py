"""The device manager's files: kubelet's checkpoint, and ours with the state that has no place in that one.

Both are replaced as a whole, ours first. The methods block: call them in a thread once the event loop runs.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from actors.devices.ledger import kubelet_checkpoint as kubelet
from actors.devices.ledger.kubelet_checkpoint import EntryTexts
from actors.devices.ledger.recovery import KUBELETS, OURS, RecoveredState, recover
from actors.devices.ledger.state import LedgerState, encode
from actors.devices.model.go_checksum import Constant
from protocols.process.files import NotAFile, digest, make_directory, read_state, set_aside, sweep_once, write_atomic
from protocols.process.sockets import DIRECTORY_MODE


class Snapshot(msgspec.Struct, frozen=True):
    """State to be written."""

    state: LedgerState
    healthy: Mapping[str, list[str]]
    """Sorted healthy ids of every registered resource."""


class CheckpointFiles:
    """Both files. Blocks; one writer at a time."""

    def __init__(self, ours: Path, kubelets: Path) -> None:
        """Use our own directory, and that of the plugins' sockets for kubelet's checkpoint."""
        self.ours = ours / "checkpoint.json"
        self.kubelets = kubelets / kubelet.NAME
        self._texts = EntryTexts()
        self._registered: tuple[Mapping[str, list[str]], Constant] = ({}, kubelet.registered_text({}))
        self._written = ""

    def load(self) -> RecoveredState:
        """Return the recovered state with warnings. A file that cannot be used is copied aside."""
        for path, mode in ((self.ours, 0o700), (self.kubelets, DIRECTORY_MODE)):
            make_directory(path.parent, mode)
            sweep_once(path.parent)
        ours, kubelets = _read(self.ours), _read(self.kubelets)
        recovered = recover(ours, kubelets)
        self._written = digest(kubelets) if kubelets is not None else ""
        raw = {OURS: ours or b"", KUBELETS: kubelets or b""}
        warnings = [self._copy_aside(whose, raw[whose], why) for whose, why in recovered.damaged.items()]
        return RecoveredState(
            recovered.state, recovered.registered, (*warnings, *recovered.warnings), recovered.lost, recovered.foreign
        )

    def save(self, snapshot: Snapshot) -> None:
        """Raises OSError; then the next save writes both files again."""
        raw = self._kubelets(snapshot)
        now, before = digest(raw), self._written
        write_atomic(self.ours, encode(msgspec.structs.replace(snapshot.state, kubelet=now, before=before)), mode=0o600)
        if now != before:
            write_atomic(self.kubelets, raw, mode=0o600)
            self._written = now

    def _kubelets(self, snapshot: Snapshot) -> bytes:
        entries, texts = self._texts.of(snapshot.state.pods)
        if snapshot.healthy != self._registered[0]:
            self._registered = snapshot.healthy, kubelet.registered_text(snapshot.healthy)
        data = kubelet.Data(tuple(entries) or None, dict(snapshot.healthy))
        return kubelet.seal(data, kubelet.sign(texts or None, self._registered[1]))

    def _copy_aside(self, whose: str, raw: bytes, why: str) -> str:
        """Copy a corrupt file into our directory, since the next save replaces it; at most one copy of each."""
        path = self.ours if whose == OURS else self.kubelets
        if not raw:
            return f"checkpoint {path} is corrupt: it is empty, or was no file and has the suffix .corrupt now"
        aside = self.ours.with_name(f"{path.name}.corrupt")
        write_atomic(aside, raw, mode=0o600)
        if whose == OURS:
            path.unlink(missing_ok=True)
        return f"checkpoint {path} is corrupt: {why}; copied to {aside}"


def _read(path: Path) -> bytes | None:
    try:
        return read_state(path)
    except FileNotFoundError:
        return None
    except NotAFile:
        set_aside(path)
        return b""
