"""Mistakes on the node: files, events of the runtime, devices, pods, health, the front door."""

from tests.simulation.mutants.hook import Mutant

COMMITTER = "actors/devices/ledger/committer.py"
MANAGER = "actors/devices/manager.py"
ADMISSION = "actors/devices/admission/admission.py"
CONNECTIONS = "actors/devices/plugins/connections.py"
PREPARER = "actors/devices/dra/claim_preparer.py"
TERMINATION = "actors/podworker/pods/workers/termination.py"
PLEG = "actors/pleg/actor.py"
CACHE = "actors/pleg/state_machine/status_cache.py"
FRONTDOOR = "actors/frontdoor/actor.py"
PODS = "actors/frontdoor/feeds/pod_feed.py"
TABLE = "protocols/lifecycle/devices/status_table.py"

NODE = (
    Mutant(
        "answer-first",
        COMMITTER,
        old="""\
        try:
            await asyncio.to_thread(self._options.save, self._snapshot(events))
        except OSError as error:
""",
        new="""\
        snapshot = self._snapshot(events)
        self._acknowledge(batch, events)
        batch, events = [], []
        try:
            await asyncio.to_thread(self._options.save, snapshot)
        except OSError as error:
""",
        mistake="Devices are given before the checkpoint is on disk.",
        profile="node",
    ),
    Mutant(
        "release-unwritten",
        ADMISSION,
        old="            await self._options.committer.change(record, deleted=True)\n",
        new="            self._options.placer.release(uid)\n",
        mistake="A release is not written: after a restart the devices belong to a pod that is gone.",
        profile="node",
    ),
    Mutant(
        "admitted-twice",
        ADMISSION,
        old="            if known is not None and self._is_current(pod, known):\n",
        new="            if known is not None and self._options.ledger.release(pod.uid) is None:\n",
        mistake="A repeated admission chooses devices anew.",
        profile="node",
    ),
    Mutant(
        "released-again-early",
        ADMISSION,
        old="            await self._options.committer.wait_pod_written(uid)\n",
        new="            pass\n",
        mistake="A second release of a pod is answered while the first is still being written.",
        profile="node",
        commit="20dd5389",
    ),
    Mutant(
        "release-mid-admission",
        ADMISSION,
        old="""\
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._free(uid)
""",
        new="        await self._free(uid)\n",
        mistake="A pod that is released while it is admitted keeps the devices for ever.",
        profile="node",
    ),
    Mutant(
        "resource-forgotten",
        CONNECTIONS,
        old="            await self._options.wait_written()\n            self._unwritten",
        new="            self._unwritten",
        mistake="A resource that is new to the node is on disk only after its registration was answered.",
        profile="node",
        commit="b2c77506",
    ),
    Mutant(
        "claims-unwritten",
        PREPARER,
        old="                await self._options.writer.write()\n                await self._call_drivers(claims,",
        new="                await self._call_drivers(claims,",
        mistake="A driver is called before the claim is on disk: a kill leaves it prepared for ever.",
        profile="node",
    ),
    Mutant(
        "claims-answered-early",
        MANAGER,
        old="""\
            await self.committer.change(record, update=True)
        else:
            await self.committer.wait_pod_written(uid)
""",
        new="            await self.committer.change(record, update=True)\n",
        mistake="A pod's claims that are asked for again are answered while the first answer is still being written.",
        profile="node",
        commit="c58e0cf1",
    ),
    Mutant(
        "status-unwritten",
        TERMINATION,
        old="            if not await self._status_persisted(status):\n                return False\n",
        new="",
        mistake="Devices of a finished pod are free before its status shows them.",
        profile="node",
        commit="79230978",
    ),
    Mutant(
        "released-while-running",
        TERMINATION,
        old="""\
            self._stop_some(status)
            return False
        if await self._stop_sandboxes(status):
""",
        new="""\
            self._stop_some(status)
        elif await self._stop_sandboxes(status):
""",
        mistake="Devices are free while the containers that use them are still ending.",
        profile="node",
    ),
    Mutant(
        "grace-ignored",
        TERMINATION,
        old="            self._stop_some(status)\n            return False\n",
        new="            self._stop_some(status)\n",
        mistake="The sandbox is stopped, and with it each container is killed, before their grace period is over.",
        profile="node",
    ),
    Mutant(
        "directories-last",
        TERMINATION,
        old="await asyncio.to_thread(remove_directories, self._deps.node_info, self._state.spec)",
        new="pass",
        mistake="A pod's directories stay when it is gone.",
        profile="node",
        commit="580910cf",
    ),
    Mutant(
        "devices-kept",
        TERMINATION,
        old="            self._state.released = True\n",
        new="            self._state.released = bool(self._state.held)\n",
        mistake="The end of a pod without devices is never reported.",
        profile="node",
    ),
    Mutant(
        "status-from-before",
        "actors/podworker/pods/workers/context.py",
        old="        self._min_ns = max(self._obey_clock(), self._min_ns + 1)\n        self._confirmed = None\n",
        new="        self._confirmed = None\n",
        mistake="A pod acts on a status from before its last action: it creates again what is there already.",
        profile="node",
    ),
    Mutant(
        "clock-unheeded",
        CACHE,
        old="        if self.newest <= now + STEP_NS:\n            return False\n",
        new="        return False\n",
        mistake="After a step of the clock back every status counts as newer than any change.",
        profile="node",
        commit="a3833eb6",
    ),
    Mutant(
        "newest-lost",
        PLEG,
        old="        if self._lost.missing(newest) and runtime.streaming:\n",
        new="        if False and runtime.streaming:\n",
        mistake="The loss of the newest event of a quiet node shows with the next relist only, minutes later.",
        profile="node",
        commit="d4cc6600",
    ),
    Mutant(
        "gap-kept",
        "actors/pleg/state_machine/status_merger.py",
        old="fresh + differing + uninspectable",
        new="fresh + uninspectable",
        mistake="After a gap in the events only new pods are inspected: the others keep what was known before.",
        profile="node",
    ),
    Mutant(
        "relist-early",
        "actors/pleg/shell/relister.py",
        old="        self._merger.cache.completed(stamp)\n",
        new="        self._merger.cache.completed(time.time_ns())\n",
        mistake="A relist counts as known up to its end: what happened while it ran is missed.",
        profile="node",
    ),
    Mutant(
        "tombstone-ignored",
        CACHE,
        old="        if stamp <= self.tombstones.get(status.uid, -1) or (\n",
        new="        if stamp <= -1 or (\n",
        mistake="A late event brings a removed pod back.",
        profile="node",
    ),
    Mutant(
        "inspection-forgotten",
        CACHE,
        old="""\
        return max(self._relisted_until(uid), self._observed_until(uid))

    def newer_than(self, uid: str, minimum: int) -> bool:
        \"\"\"Return True if the pod is known up to a time strictly later than `minimum`.\"\"\"
        return self.known_until(uid) > minimum
""",
        new="""\
        entry = self.entries.get(uid)
        return max(self._relisted_until(uid), entry.observed if entry else 0)

    def newer_than(self, uid: str, minimum: int) -> bool:
        return max(self._relisted_until(uid), self._observed_until(uid)) > minimum
""",
        mistake="An event of a pod that an inspection has not found counts as older than that: its sandbox stays.",
        profile="node",
        commit="fa6758ce",
    ),
    Mutant(
        "remains-kept",
        "actors/podworker/pods/manager.py",
        old="            self._end_remains(uid)\n",
        new="",
        mistake="A sandbox that appears after the end of its pod stays when the API forgets the pod.",
        profile="node",
        commit="de81ed58",
    ),
    Mutant(
        "remains-unseen",
        "actors/podworker/pods/manager.py",
        old="            if await worker.remains():",
        new="            if False and await worker.remains():",
        mistake="A sandbox that appears while the API removes its pod stays.",
        profile="node",
    ),
    Mutant(
        "status-lost",
        "actors/podworker/pods/status_manager.py",
        old="        if entry.is_lost(spec):\n",
        new="        if False:\n",
        mistake="A status that a restored backup lacks is never sent again.",
        profile="backup",
        commit="88783b8c",
    ),
    Mutant(
        "status-older",
        "actors/podworker/pods/status_manager.py",
        old="(self.gone or version < self.version or other)",
        new="(self.gone or other)",
        mistake="The watch's older version of a pod counts as one that will still be followed by the acknowledged.",
        profile="backup",
    ),
    Mutant(
        "deletion-lost",
        "actors/podworker/pods/manager.py",
        old="            elif self._finished.get(uid, math.inf) <= ended_by:\n",
        new="            elif False:\n",
        mistake="A pod whose deletion a restored backup lacks is never deleted again.",
        profile="backup",
        commit="8a8a9aa5",
    ),
    Mutant(
        "step-of-events",
        CACHE,
        old="""\
        self.newest = max(self.newest, observed, stamp)
        self.entries[status.uid] = CachedStatus(status, stamp, observed, rank)
        return True

    def drop(self, uid: str, stamp: int, rank: Rank) -> bool:
        \"\"\"Remove a pod that was gone from the runtime at `stamp`; return False if something newer is known.\"\"\"
        entry = self.entries.get(uid)
        if (entry and stamp < entry.modified) or (rank is Rank.EVENT and stamp <= self._relisted_until(uid)):
            return False
        self.entries.pop(uid, None)
        self.uninspectable.pop(uid, None)
        self.newest = max(self.newest, stamp)
""",
        new="""\
        self.newest = max(self.newest, observed)
        self.entries[status.uid] = CachedStatus(status, stamp, observed, rank)
        return True

    def drop(self, uid: str, stamp: int, rank: Rank) -> bool:
        \"\"\"Remove a pod that was gone from the runtime at `stamp`; return False if something newer is known.\"\"\"
        entry = self.entries.get(uid)
        if (entry and stamp < entry.modified) or (rank is Rank.EVENT and stamp <= self._relisted_until(uid)):
            return False
        self.entries.pop(uid, None)
        self.uninspectable.pop(uid, None)
""",
        mistake="A step of the clock back that only the time of an event shows is not seen.",
        profile="node",
        commit="25e21953",
    ),
    Mutant(
        "snapshot-changes",
        "protocols/podresources/session.py",
        old="        self._snapshot = [] if self._options.snapshot and not resumed else None\n",
        new="        self._snapshot = None\n",
        mistake="The snapshot of a watch counts as changes: pods that were released meanwhile stay.",
        profile="node",
        commit="cd1aa1bb",
    ),
    Mutant(
        "events-unsubscribed",
        "actors/cri/event_stream.py",
        old="""\
        self.failures += 1
        self.phase = Phase.BROKEN
        return retry_delay(self.failures)
""",
        new="        self.failures += 1\n        self.phase = Phase.BROKEN\n        return 3600.0\n",
        mistake="The event stream of the runtime is not opened again after it broke.",
        profile="node",
        commit="903aefb2",
    ),
    Mutant(
        "door-early",
        FRONTDOOR,
        old="        await self._fetch_history()\n        await self._server.start()\n",
        new="        await self._server.start()\n",
        mistake="The front door lets clients in before it knows the past: those that resume are refused.",
        profile="node",
        commit="13538de9",
    ),
    Mutant(
        "missed-release",
        PODS,
        old="        changes: list[Change] = [(uid, None) for uid in self.pods if uid not in fresh]\n",
        new="        changes: list[Change] = []\n",
        mistake="The front door keeps pods that were released while it did not listen.",
        profile="node",
    ),
    Mutant(
        "health-kept",
        TABLE,
        old="        for uid in self._holders.of(key):\n            if uid in self._deferred:\n",
        new="""\
        for uid in self._holders.of(key):
            if uid in self.published:
                continue
            if uid in self._deferred:
""",
        mistake="A pod whose health was published once never changes.",
        profile="node",
    ),
    Mutant(
        "deferred-dropped",
        TABLE,
        old="            del self._deferred[uid]\n            self._dirty.add(uid)\n",
        new="            del self._deferred[uid]\n",
        mistake="A change of health that had to wait for its pod's rate is dropped.",
        profile="node",
    ),
    Mutant(
        "plugin-left",
        CONNECTIONS,
        old="            self._record_end(connection, status, why)\n            self._on_stream_end(connection)\n",
        new="            self._record_end(connection, status, why)\n",
        mistake="A plugin that went away still counts as connected: its devices stay healthy.",
        profile="node",
    ),
)
