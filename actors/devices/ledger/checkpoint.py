"""The device manager's memory on disk: kubelet's checkpoint, and ours with what that one has no place for.

Both are replaced as a whole, ours first. The methods block: call them in a thread once the loop runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from actors.devices.ledger import kubelet_checkpoint as kubelet
from actors.devices.ledger.kubelet_checkpoint import EntryTexts
from actors.devices.ledger.recovery import KUBELETS, OURS, Recovered, recover
from actors.devices.ledger.state import State, encode
from actors.devices.model.go_checksum import Constant
from protocols.files import sweep_once, write_atomic
from protocols.sealed import digest
from protocols.sockets import DIRECTORY_MODE, prepare_directory


@dataclass(frozen=True)
class Snapshot:
    """What is to be on disk."""

    state: State
    healthy: Mapping[str, list[str]]
    """Healthy ids of every resource that is registered, sorted."""


class CheckpointFiles:
    def __init__(self, ours: Path, kubelets: Path) -> None:
        """Directories: our own, and the one of the plugins' sockets."""
        self.ours = ours / "checkpoint.json"
        self.kubelets = kubelets / kubelet.NAME
        self._texts = EntryTexts()
        self._registered: tuple[Mapping[str, list[str]], Constant] = ({}, kubelet.registered_text({}))
        self._written = ""

    def load(self) -> Recovered:
        """What holds now, and lines to tell; a file that cannot be used is kept aside under another name."""
        for path, mode in ((self.ours, 0o700), (self.kubelets, DIRECTORY_MODE)):
            prepare_directory(path.parent, mode)
            sweep_once(path.parent)
        ours, kubelets = _read(self.ours), _read(self.kubelets)
        found = recover(ours, kubelets)
        self._written = digest(kubelets) if kubelets is not None else ""
        raw = {OURS: ours or b"", KUBELETS: kubelets or b""}
        lines = [self._keep_aside(whose, raw[whose], why) for whose, why in found.damaged.items()]
        return Recovered(found.state, found.registered, (*lines, *found.lines), found.lost, found.foreign)

    def save(self, snapshot: Snapshot) -> None:
        """Raises OSError; then the next save writes both again."""
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

    def _keep_aside(self, whose: str, raw: bytes, why: str) -> str:
        """A copy, since the next save replaces the file itself; both in our own directory, one of each."""
        path = self.ours if whose == OURS else self.kubelets
        aside = self.ours.with_name(f"{path.name}.corrupt")
        write_atomic(aside, raw, mode=0o600)
        if whose == OURS:
            path.unlink(missing_ok=True)
        return f"checkpoint {path} is corrupt: {why}; kept as {aside}"


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
