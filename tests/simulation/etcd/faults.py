"""Faults of the model etcd.

| kind | what happens | value |
|---|---|---|
| leader | there is none for up to 5 s; what waits is committed, lost, or committed without an answer | how long |
| member | a member ends, and starts again within 8 s | which and how long |
| silence | one member or all say nothing for 5 or 8 s, and go on with what arrived meanwhile | who and how long |
| compact | history up to a drawn revision is compacted | which revision |
| nospace | only deletions are taken for up to 5 s | how long |
| restore | once in a run: all members end, and start within 3 s from a backup of up to 100 revisions ago | how old |

In a half of the seeds `restore` waits for one of the next writes of a kind, and the backup is from right before it.
"""

import random
from typing import TYPE_CHECKING

import msgspec

from actors.store.model.types import Commit
from tests.simulation.etcd.cluster import Cluster
from tests.simulation.model import Fault
from tests.simulation.world import faults

if TYPE_CHECKING:
    from tests.simulation.world.world import World

ETCD_FAULTS = "leader", "member", "silence", "compact", "nospace", "restore"
LEADERLESS_S, AWAY_S, FULL_S, SILENT_S, HANG_S = 5.0, 8.0, 5.0, 5.0, 8.0
OLDEST, BUMP, RESTORE_S = 100, 1_000_000, 3.0
LOST = b"/registry/resourceclaims/", b"/registry/pods/", b"/registry/leases/", b"/registry/resourceslices/", b"/"
"""Below which prefix the write is that a backup lacks; one is drawn."""
FEW, WAIT_S, SOON_S = 8, 5.0, 0.03
"""Which of the next writes it is, at most; how long it is waited for; and seconds from the write to the restore.

Mostly these are a few thousandths: that long its writer may know of the write while no watch has shown it."""
ANSWERED_S, KNOWN_S = 0.008, 3.0
"""Seconds by which the writer mostly has its answer, and by which a restore is known."""


class Lost(msgspec.Struct, frozen=True):
    """The write that a backup lacks: the next but `number` - 1 below `prefix`, by what is in its value and what not."""

    prefix: bytes
    number: int = 1
    content: bytes = b""
    without: bytes | None = None
    writer: str = ""
    """The process whose next requests may be held back until the store is restored."""

    def has(self, key: bytes, value: bytes) -> bool:
        other = self.without is not None and self.without in value
        return key.startswith(self.prefix) and self.content in value and not other


ACTED_ON = {
    "allocation": Lost(b"/registry/resourceclaims/", content=b'"allocation"', writer="scheduler"),
    "binding": Lost(b"/registry/pods/", content=b'"nodeName"', without=b'"startTime"'),
    "devices": Lost(b"/registry/resourceslices/"),
}
"""Writes of which the writer takes no news before it goes on."""


class EtcdFaults:
    """Adds its kinds to those of the world. `bumps`: of a restored store's revision, one is drawn."""

    def __init__(self, cluster: Cluster, bumps: tuple[int, ...]) -> None:
        self._cluster = cluster
        self._restored = False
        self._bump = int(cluster.world.draw("etcd_bump", *bumps))
        faults.KINDS.update({kind: getattr(self, kind) for kind in (*ETCD_FAULTS, "backup", "lose")})

    def leader(self, world: "World", fault: Fault) -> None:
        self._cluster.lose_leader(0.05 + fault.value**2 * LEADERLESS_S)

    def member(self, world: "World", fault: Fault) -> None:
        number = int(fault.value * len(self._cluster.members))
        self._cluster.members[number].go_away(fault.value * 10 % 1 * AWAY_S)
        if world.random("faults/etcd").random() < 1 / len(self._cluster.members):  # it was the leader
            self._cluster.lose_leader(1.0 + fault.value)

    def silence(self, world: "World", fault: Fault) -> None:
        members = self._cluster.members
        number = int(fault.value * 4)
        seconds = HANG_S if fault.value * 40 % 1 < 0.2 else SILENT_S
        for member in members[number : number + 1] or members:
            member.silent_until = world.now + seconds

    def compact(self, world: "World", fault: Fault) -> None:
        state = self._cluster.state
        oldest, newest = state.index.compacted, state.revision
        self._cluster.compact(oldest + round((newest - oldest) * fault.value))

    def nospace(self, world: "World", fault: Fault) -> None:
        state = self._cluster.state
        state.full = True
        world.at(fault.value * FULL_S, None, lambda: setattr(state, "full", False))

    def restore(self, world: "World", fault: Fault) -> None:
        if self._restored:
            return
        self._restored = True
        chance = world.random("faults/restore")
        if chance.random() < 0.5:
            self._restore_before(Lost(chance.choice(LOST), chance.randint(1, FEW)), fault, chance)
        else:
            self.backup(world, fault)

    def backup(self, world: "World", fault: Fault) -> None:
        """Restore a backup at once."""
        self._restore(int(fault.value * OLDEST), fault)

    def lose(self, world: "World", fault: Fault) -> None:
        """Restore a backup from right before the next write of those that the target names, which no watch shows."""
        self._restore_before(ACTED_ON[fault.target], fault, world.random("faults/restore"), unshown=True)

    def _restore(self, back: int, fault: Fault) -> None:
        self._cluster.restore(back, self._bump, fault.value * 10 % 1 * RESTORE_S)

    def _restore_before(self, lost: Lost, fault: Fault, chance: random.Random, *, unshown: bool = False) -> None:
        """Restore a backup that ends right before one of the next writes of a kind, soon after that write."""
        cluster, left, since = self._cluster, lost.number, self._cluster.state.revision
        world, until = cluster.world, cluster.world.now + WAIT_S

        def committed(commit: Commit) -> None:
            nonlocal left
            left -= any(lost.has(change.kv.key, change.kv.value) for change in commit.changes)
            if not left or world.now > until:
                cluster.on_commit.remove(committed)
                kept = (commit.changes[0].kv.mod_revision if commit.changes else since) - 1
                soon = chance.uniform(ANSWERED_S, SOON_S) if unshown else chance.random() ** 3 * SOON_S
                if unshown:
                    self._hold_back(lost, world.now + soon, chance)
                world.at(soon, None, lambda: self._restore(cluster.state.revision - kept, fault))

        cluster.on_commit.append(committed)

    def _hold_back(self, lost: Lost, until: float, chance: random.Random) -> None:
        """Hold watches back, and in a half of the cases what the writer does next until all know of the restore."""
        self._cluster.shows_at = until
        if lost.writer and chance.random() < 0.5:
            world = self._cluster.world
            for server in (name for name in world.mortal if name.startswith("apiserver")):
                world.network.close_way(lost.writer, server, until + RESTORE_S + chance.uniform(0.0, KNOWN_S))
