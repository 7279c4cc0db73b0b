"""Mistakes between processes: the bus, calls of the store, the supervisor."""

from tests.simulation.mutants.hook import Mutant

FOLLOWER = "protocols/bus/follower.py"
STREAM = "protocols/bus/stream.py"
CLIENT = "protocols/etcd/client.py"
GUARDED = "protocols/etcd/guarded.py"
POLICY = "supervisor/tree/policy.py"

BUS = (
    Mutant(
        "gap",
        FOLLOWER,
        old="        if not self.synced or frame.seq != self.seq + 1 or frame.epoch != self.epoch:\n",
        new="        if not self.synced or frame.seq <= self.seq or frame.epoch != self.epoch:\n",
        mistake="A follower does not notice lost messages.",
    ),
    Mutant(
        "epoch-ignored",
        STREAM,
        old="        if sync.epoch == self.epoch and sync.seq <= self.seq:\n",
        new="        if sync.seq <= self.seq:\n",
        mistake="An owner takes a position in its predecessor's stream for one in its own.",
    ),
    Mutant(
        "ring-wrong-end",
        STREAM,
        old="        return [self._events[index] for index in range(-count, 0)]\n",
        new="        return [self._events[index] for index in range(count)]\n",
        mistake="The ring is read from the wrong end.",
    ),
    Mutant(
        "tick-unheeded",
        FOLLOWER,
        old="        elif tick.epoch > self.epoch or tick.seq > self.seq:\n",
        new="        elif tick.epoch > self.epoch:\n",
        mistake="A follower that lost the last message waits for the next one.",
    ),
    Mutant(
        "mark-unsettled",
        FOLLOWER,
        old="self.epoch, self.seq, self._settled)",
        new="self.epoch, self.seq, self.mark)",
        mistake="A follower that has a part of a revision resumes after it.",
    ),
    Mutant(
        "partial-replay",
        FOLLOWER,
        old="        skip, mark = self._partial, self.mark\n",
        new="        skip, mark = self._partial + 1, self.mark\n",
        mistake="Of a revision that is replayed one event too many is skipped.",
    ),
    Mutant(
        "mark-from-source",
        STREAM,
        old="        if mark <= 0 or 0 < self.mark < mark:\n",
        new="        if mark <= 0:\n",
        mistake="A follower that is ahead of a restored store gets nothing instead of a snapshot.",
        profile="restored",
    ),
    Mutant(
        "ticks-stop",
        "protocols/bus/host.py",
        old="        self._send_tick()\n        self._desk.expire(self._loop.time())\n",
        new="        self._desk.expire(self._loop.time())\n",
        mistake="Positions are reported only with changes: nobody notices a lost last message.",
    ),
    Mutant(
        "silence-unnoticed",
        FOLLOWER,
        old="        return self.synced and now - self._heard_at > self._options.stale_after\n",
        new="        return False\n",
        mistake="A replica whose owner is silent still counts as fresh.",
    ),
    Mutant(
        "write-repeated",
        CLIENT,
        old="await call(self._txn, request, self._timeout(timeout), retry=False)\n",
        new="await call(self._txn, request, self._timeout(timeout), retry=True)\n",
        mistake="A creation whose answer was lost is sent again: it creates what another client deleted since.",
    ),
    Mutant(
        "lost-is-conflict",
        CLIENT,
        old="            if proven is None:\n                raise\n",
        new="            if proven is None:\n                return Written(False, 0)\n",
        mistake="A write whose answer was lost, and that no read proves, is reported as a conflict.",
        commit="99a745c7",
    ),
    Mutant(
        "lost-is-own",
        GUARDED,
        old="    if current is None or current.value != value or current.mod_revision <= guard:\n",
        new="    if current is None or current.mod_revision <= guard:\n",
        mistake="After a lost answer somebody else's write is taken for our own.",
    ),
    Mutant(
        "deletion-unguarded",
        GUARDED,
        old="    request = _guarded(key, revision)\n    removal",
        new="    request = _guarded(key, revision)\n    request.compare[0].result = pb.Compare.NOT_EQUAL\n    removal",
        mistake="A deletion removes what was written since its revision.",
    ),
    Mutant(
        "dead-connection",
        "protocols/etcd/transport/private_connection.py",
        old="        return self._transport is None or self._transport.is_closing()\n",
        new="        return self._transport is not None and self._transport.is_closing()\n",
        mistake="A connection that breaks before its channel holds it is kept: every call of the process times out.",
        commit="b11fe5fb",
    ),
    Mutant(
        "member-unconnected",
        "protocols/etcd/client.py",
        old="        await members.channels[member].stands(timeout)\n",
        new="        pass\n",
        mistake="A member is asked for its status without connecting, which is left to other calls.",
        profile="restored",
        commit="6b71e944",
    ),
    Mutant(
        "restart-forgotten",
        POLICY,
        old="        if self.state is ChildState.BACKOFF:\n            return self._spawn(now)\n",
        new="",
        mistake="A child that waits for its restart is never started.",
    ),
    Mutant(
        "restart-stops",
        POLICY,
        old="        self._again = True\n        self.reason = why\n",
        new="        self.reason = why\n",
        mistake="An ordered restart stops a child and leaves it so.",
    ),
    Mutant(
        "hang-unnoticed",
        POLICY,
        old="        limit = limits.beat_s if self.beat else limits.start_s\n",
        new="        limit = limits.start_s * 1000\n",
        mistake="A process without heartbeats is left alone.",
    ),
    Mutant(
        "ordered-counted",
        POLICY,
        old="        if self._excused(now):\n            return self._spawn(now)\n",
        new="",
        mistake="Ordered kills count against the budget of restarts: a process that is killed on purpose stays down.",
    ),
    Mutant(
        "repeated-by-client",
        "protocols/kubeclient/client.py",
        old="                sent = body is not None and not isinstance(error, NotSent)\n",
        new="                sent = False\n",
        mistake="The client repeats a PUT whose answer was lost: its caller gets a conflict with its own write.",
        profile="control",
        commit="8eb77552",
    ),
)
