"""Mistakes on the way of an event: watch cache, replicas, watches of the API server, informers."""

from tests.simulation.mutants.hook import Mutant

CACHE = "actors/watchcache/cache/resource_cache.py"
STATE = "actors/watchcache/cache/store_state.py"
FOLLOWER = "actors/watchcache/shell/store_follower.py"
REPLICA = "actors/apiserver/replica/replica.py"
OWN = "actors/apiserver/replica/own_writes.py"
WATCHER = "actors/apiserver/watch/watcher.py"
CHANNEL = "actors/apiserver/watch/channel.py"
INFORMER = "protocols/kubeclient/informer.py"

WATCH = (
    Mutant(
        "late",
        CACHE,
        old="        entries = self.window.since(mark)\n",
        new="        entries = self.window.since(mark + 1)\n",
        mistake="The watch cache resumes a follower one revision late.",
    ),
    Mutant(
        "edge",
        CACHE,
        old="        if entries is None:\n            return None\n",
        new="        entries = entries or []\n",
        mistake="The watch cache claims to have history that it has dropped.",
    ),
    Mutant(
        "window-floor",
        "actors/watchcache/cache/window.py",
        old="        self.floor = max(self.floor, entry.event.rv)\n",
        new="        self.floor = max(self.floor, entry.event.rv - 1)\n",
        mistake="The floor of the window is one revision below what was evicted.",
    ),
    Mutant(
        "progress-believed",
        "protocols/etcd/watch.py",
        old="            reached = events[-1].kv.mod_revision if events else response.header.revision\n",
        new="            reached = response.header.revision\n",
        mistake="The revision in the header of a watch response is believed before the events below it came.",
        commit="c03b35f3",
    ),
    Mutant(
        "start-from-now",
        STATE,
        old="        start, size = max(revision - self._options.resume_revisions, 0), 0\n",
        new="        return revision\n        start, size = 0, 0\n",
        mistake="A restarted watch cache begins at its list and reads no history: its followers cannot resume.",
        commit="f5eac33e",
    ),
    Mutant(
        "relist-silent",
        FOLLOWER,
        old="        self._begin_anew()\n",
        new="        self._publish([])\n",
        mistake="After a compaction the streams do not begin anew: followers keep the state of before.",
    ),
    Mutant(
        "restored-unseen",
        FOLLOWER,
        old="            if not self._proof.passed:\n                self._check_history(batch)\n",
        new="",
        mistake="A store restored from a backup that has grown past us is taken for the one we followed.",
        profile="restored",
        commit="351349d9",
    ),
    Mutant(
        "skipped-unmarked",
        "actors/watchcache/cache/store_state.py",
        old="            cache.position = max(cache.position, revision)\n",
        new="",
        mistake="A watch cache that skipped compacted history shows its list under an older revision.",
        profile="control",
        commit="4f5879b8",
    ),
    Mutant(
        "replica-gap",
        REPLICA,
        old="        if snapshot.floor <= self._settled:\n",
        new="        if snapshot.floor <= self._settled or snapshot.history:\n",
        mistake="A replica takes a history that begins after its mark for one without a gap.",
    ),
    Mutant(
        "replica-part",
        REPLICA,
        old="        if snapshot.floor <= self._settled:\n",
        new="        if snapshot.floor <= self.mark:\n",
        mistake="A replica with a part of a revision takes a history that begins after it, and never gets the rest.",
        commit="d06ff818",
    ),
    Mutant(
        "own-gap",
        OWN,
        old="        return self._lasts[at] if at >= 0 else revision\n",
        new="        return self._lasts[at] if at >= 0 else max(self._lasts, default=revision)\n",
        mistake="A replica applies an own write though a revision before it is not known.",
        profile="control",
    ),
    Mutant(
        "own-again",
        REPLICA,
        old="        return key in keys if rv == latest else rv <= max(latest, self.mark)\n",
        new="        return key in keys if rv == latest else rv <= self._unconfirmed.mark\n",
        mistake="A replica applies the watch cache's event of an own write a second time.",
        profile="control",
    ),
    Mutant(
        "own-dropped",
        OWN,
        old="        self._firsts, self._lasts = [], []\n        self.waiting.clear()\n",
        new="        self.waiting.clear()\n",
        mistake="Own writes that are dropped still count as known: later ones are applied over the gap.",
        profile="control",
    ),
    Mutant(
        "own-ahead",
        "actors/apiserver/replica/unconfirmed.py",
        old="        if not later or mark < self.mark:\n",
        new="        if later or mark < self.mark:\n",
        mistake="A replica that is ahead of a restarted watch cache takes its store for a restored one.",
        profile="control",
    ),
    Mutant(
        "read-stale",
        REPLICA,
        old="        if self.mark >= rv:\n            return\n",
        new="        if self.mark >= rv - 1:\n            return\n",
        mistake="A consistent read is served one revision too early.",
        profile="control",
    ),
    Mutant(
        "resume-edge",
        "actors/apiserver/watch/begin.py",
        old="    if start < replica.window.floor:\n",
        new="    if start < replica.window.floor - 1:\n",
        mistake="A watch may begin one revision below the window.",
        profile="control",
    ),
    Mutant(
        "gone-at-mark",
        "actors/apiserver/replica/resync.py",
        old="        gone_at = max(mark - 1, min(position + 1, mark))\n",
        new="        gone_at = mark\n",
        mistake="Deletions behind a gap share a revision with other events: a watch that ends between misses some.",
        profile="control",
    ),
    Mutant(
        "resume-again",
        "actors/apiserver/replica/window.py",
        old="        first = bisect_right(self._changes, rv, lo=self._first",
        new="        first = bisect_right(self._changes, rv - 1, lo=self._first",
        mistake="A watch that resumes gets the event that it had last once more.",
        profile="control",
    ),
    Mutant(
        "future-again",
        WATCHER,
        old="        if self.done or rv <= self.start:\n",
        new="        if self.done or rv < self.start:\n",
        mistake="A watch that is ahead of its new server gets the event at its start once more.",
        profile="control",
    ),
    Mutant(
        "bookmark-ahead",
        "actors/apiserver/watch/hub.py",
        old="        return watcher.bookmark(self.replica.mark, again=again)\n",
        new="        return watcher.bookmark(self.replica.mark + 1, again=again)\n",
        mistake="A bookmark covers one revision that was not sent.",
        profile="control",
    ),
    Mutant(
        "bookmark-first",
        WATCHER,
        old="        if live:\n            self.channel.catch_up(self)\n        self.position = rv\n",
        new="        self.position = rv\n",
        mistake="A bookmark leaves before the events that it covers.",
        profile="control",
    ),
    Mutant(
        "lagging-forgotten",
        CHANNEL,
        old="        self._remove(watcher)\n        self.lagging.add(watcher)\n",
        new="        self._remove(watcher)\n",
        mistake="A watch whose connection is congested leaves the channel, and gets nothing more.",
        profile="control",
    ),
    Mutant(
        "join-late",
        "actors/apiserver/watch/begin.py",
        old="""\
        watcher = hub.join(scope, replica.mark, options.bookmarks)
        return Opened(watcher, _whole(watcher, _state(""",
        new="""\
        watcher = hub.join(scope, replica.mark + 1, options.bookmarks)
        return Opened(watcher, _whole(watcher, _state(""",
        mistake="A watch that begins with the state misses the first change after it.",
        profile="control",
    ),
    Mutant(
        "bookmarks-rare",
        "actors/apiserver/watch/bookmarks.py",
        old="            abs(mark - self._revision) >= HISTORY_REVISIONS // SHARE\n            or ",
        new="            ",
        mistake="Under load the history that a restarted watch cache reads ends before the next bookmark.",
        commit="6c79423f",
        profile="control",
    ),
    Mutant(
        "lost-unwatch",
        INFORMER,
        old="""\
        elif event["type"] == "DELETED":
            self._delete(obj)
        self.failure = ""
""",
        new="""\
        elif event["type"] == "DELETED":
            self._delete(obj) if obj["metadata"].get("finalizers") else None
        self.failure = ""
""",
        mistake="An informer keeps what was deleted.",
        profile="control",
    ),
    Mutant(
        "recreated",
        INFORMER,
        old="""\
        if (old := self.items.get(key)) is not None and _uid(old) != _uid(obj):
            self._delete(old)
            old = None
""",
        new="        old = self.items.get(key)\n",
        mistake="An object deleted and created again under its name counts as the same: old uid for new.",
        profile="control",
    ),
    Mutant(
        "expired-resumed",
        "protocols/kubeclient/reflector.py",
        old='        self.position = ""\n        if lasted >= QUIET_S:\n',
        new="        if lasted >= QUIET_S:\n",
        mistake="An informer that got 410 goes on from its old position.",
        profile="control",
    ),
)
