"""Mistakes in the store: what is on disk, what a watch reads, what a compaction or a restart leaves."""

from tests.simulation.mutants.hook import Mutant

WRITER = "actors/store/engine/writer.py"
SESSION = "actors/store/watch/session.py"
HUB = "actors/store/watch/hub.py"
UPKEEP = "actors/store/file/upkeep.py"
FILE_CHECK = "actors/store/file/file_check.py"
LOG = "actors/store/file/object_log.py"

STORE = (
    Mutant(
        "ack",
        WRITER,
        old="""\
        try:
            if not commit.empty or commit.compacted != self._index.compacted:
                self._log.commit(commit)
        except StoreError as error:
            return error
        return BatchResult(commit, draft.revision, answers)

    def _apply_outcome(self, batch: list[PendingWrite], outcome: BatchResult | StoreError) -> None:
""",
        new="""\
        return BatchResult(commit, draft.revision, answers)

    def _apply_outcome(self, batch: list[PendingWrite], outcome: BatchResult | StoreError) -> None:
        if isinstance(outcome, BatchResult) and not outcome.commit.empty:
            self._thread.do(partial(self._log.commit, outcome.commit), lambda answer, error: None)
""",
        mistake="A write is answered before it is on disk.",
    ),
    Mutant(
        "unsynced",
        LOG,
        old='f"PRAGMA synchronous = {self._options.sync.upper()}"',
        new='"PRAGMA synchronous = OFF"',
        mistake="Commits are not fsynced: a power cut takes back what was acknowledged.",
    ),
    Mutant(
        "wal-shown-unsynced",
        LOG,
        old="                sync_wal(path)\n",
        new="                pass\n",
        mistake="A killed store shows commits that are not on disk; a power cut gives their revisions to others.",
        commit="6aa95aba",
    ),
    Mutant(
        "watch-unheard",
        "actors/store/server/private_endpoint.py",
        old="        except NodeplaneError as error:\n            # The end of a watch",
        new="        except NodeplaneError as error:\n            raise\n            # The end of a watch",
        mistake="A watch whose history cannot be read ends unheard.",
        commit="0d2c8846",
    ),
    Mutant(
        "half-commit",
        LOG,
        old="""\
        self.db.execute(f"{INSERT} {places}", [value for row in rows for value in row])
""",
        new="""\
        for row in rows:
            self.db.execute(f"{INSERT} (?, ?, ?, ?, ?, ?, ?)", row)
""",
        mistake="A commit of several keys is a statement for each: a kill between them leaves a part.",
    ),
    Mutant(
        "failed-commit-applied",
        WRITER,
        old="""\
        except StoreError as error:
            return error
        return BatchResult""",
        new="""\
        except StoreError:
            pass
        return BatchResult""",
        mistake="A commit that failed (disk full, EIO) is answered and shown as done.",
    ),
    Mutant(
        "guard-weak",
        "actors/store/mvcc/operations.py",
        old="pb.Compare.EQUAL: operator.eq",
        new="pb.Compare.EQUAL: operator.ge",
        mistake="A guard on an older revision holds: one writer overwrites what another has just written.",
    ),
    Mutant(
        "batch-blind",
        "actors/store/mvcc/index.py",
        old="        return self._keys[key] if key in self._keys else self.index.get(key)\n",
        new="        return self.index.get(key)\n",
        mistake="Writes of one group commit do not see each other: two guarded writes both succeed.",
    ),
    Mutant(
        "sweep-newest",
        UPKEEP,
        old='SUPERSEDED = "DELETE FROM log WHERE key = ? AND id < ?"',
        new='SUPERSEDED = "DELETE FROM log WHERE key = ? AND id <= ?"',
        mistake="The sweep after a compaction removes the newest row of a key, too.",
    ),
    Mutant(
        "sweep-tombstone",
        UPKEEP,
        old="    db.executemany(SUPERSEDED, [(key, row) for row, key, _ in rows])\n",
        new="",
        mistake="Tombstones are swept, older rows of their keys are not: deleted keys are back after a restart.",
    ),
    Mutant(
        "watch-past",
        SESSION,
        old="""\
        watcher.synced = watcher.next_revision > self.revision
        self.watchers[watcher.id] = watcher
""",
        new="        watcher.synced = True\n        self.watchers[watcher.id] = watcher\n",
        mistake="A watch from a past revision gets new changes only.",
    ),
    Mutant(
        "queue-full",
        SESSION,
        old="            watcher.synced = False\n            return\n",
        new="            return\n",
        mistake="A batch that does not fit into a slow watch's queue is dropped.",
    ),
    Mutant(
        "caught-up",
        SESSION,
        old="""\
        self._send(watcher, watcher.wanted(changes), complete)
        watcher.synced = watcher.next_revision > self.revision
""",
        new="        self._send(watcher, watcher.wanted(changes), complete)\n        watcher.synced = True\n",
        mistake="A watch that read a part of its history counts as up to date.",
    ),
    Mutant(
        "recent-floor",
        HUB,
        old="        if watcher.next_revision <= self._floor:\n",
        new="        if watcher.next_revision < self._floor:\n",
        mistake="The newest changes in memory are believed to reach one revision further back.",
    ),
    Mutant(
        "history-page",
        "actors/store/file/history.py",
        old="        return list(_with_previous(db, whole)), cut - 1\n",
        new="        return list(_with_previous(db, whole)), cut\n",
        mistake="A page of history claims the revision at which it was cut.",
    ),
    Mutant(
        "progress-early",
        SESSION,
        old="        if self.watchers and up_to_date and not self.full:\n",
        new="        if self.watchers:\n",
        mistake="A progress request is answered although events are still to come.",
    ),
    Mutant(
        "compacted-meanwhile",
        "actors/store/rpc/watch.py",
        old="        if batch is None or watcher.next_revision < hub.compacted:\n",
        new="        if batch is None:\n",
        mistake="History that was compacted while it was read is sent as if it were whole.",
    ),
    Mutant(
        "lease-clock",
        "actors/store/mvcc/lease_table.py",
        old="""\
            self._add(record)
            self.extend(record.id, now + record.ttl)
        for kv in current:
""",
        new="""\
            self._add(record)
            self.extend(record.id, now + record.expires - __import__("time").time())
        for kv in current:
""",
        mistake="Leases go by the wall clock over a restart: a jump of the clock, or a long stop, ends them all.",
        commit="1564d213",
    ),
    Mutant(
        "lease-keys",
        "actors/store/mvcc/lease_table.py",
        old="""\
        for kv in current:
            if kv.lease in self._keys:
                self._keys[kv.lease].add(kv.key)
""",
        new="",
        mistake="After a restart the store no longer knows which keys a lease holds: they outlive it.",
    ),
    Mutant(
        "unread-kept",
        FILE_CHECK,
        old="    cut_off(wal, taken)\n",
        new="",
        mistake="What two crashes left behind each other counts as damage, and the store does not start.",
        commit="19ae8b28",
    ),
    Mutant(
        "directory-unsynced",
        "protocols/process/files.py",
        old="        each.mkdir(exist_ok=True)\n        sync_directory(each.parent)\n",
        new="        each.mkdir(exist_ok=True)\n",
        mistake="A new directory is not synced into its parent: a power cut removes it with all that was acknowledged.",
        commit="446f1759",
    ),
)
