"""What a client of etcd sees, exactly: every test runs against our store and against Debian's etcd."""

import hashlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2
from tests.integration.etcd_fixture import backend
from tests.support.store_lab import Api, read, serialize

__all__ = ["backend"]  # a fixture

GONE = ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted")
FUTURE = ("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision")
NO_KEY = ("INVALID_ARGUMENT", "etcdserver: key is not provided")
DUPLICATE = ("INVALID_ARGUMENT", "etcdserver: duplicate key given in txn request")
NO_LEASE = ("NOT_FOUND", "etcdserver: requested lease not found")


@pytest.fixture
async def api(backend: str) -> AsyncIterator[Api]:
    """Calls of one of the servers."""
    made = Api(backend)
    yield made
    await made.close()


async def put(api: Api, key: bytes, value: bytes = b"v", **more: Any) -> int:
    return int((await api.put(pb.PutRequest(key=key, value=value, **more))).header.revision)


def op(request: Any) -> pb.RequestOp:
    names = {pb.RangeRequest: "request_range", pb.PutRequest: "request_put", pb.TxnRequest: "request_txn"}
    return pb.RequestOp(**{names.get(type(request), "request_delete_range"): request})


def mod_is(key: bytes, revision: int) -> pb.Compare:
    return pb.Compare(target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=key, mod_revision=revision)


def keys(response: pb.RangeResponse) -> list[bytes]:
    return [kv.key for kv in response.kvs]


async def test_put_counts_versions_and_gives_the_key_before(api: Api) -> None:
    first = await put(api, b"put/a", b"1")
    answer = await api.put(pb.PutRequest(key=b"put/a", value=b"2", prev_kv=True))
    assert answer.header.revision == first + 1
    assert (answer.prev_kv.value, answer.prev_kv.version) == (b"1", 1)
    kv = (await api.range(pb.RangeRequest(key=b"put/a"))).kvs[0]
    assert (kv.create_revision, kv.mod_revision, kv.version, kv.value) == (first, first + 1, 2, b"2")


async def test_put_keeps_value_or_lease_when_asked(api: Api) -> None:
    missing = api.put(pb.PutRequest(key=b"keep/none", ignore_value=True))
    assert await api.fails(missing) == ("INVALID_ARGUMENT", "etcdserver: key not found")
    await put(api, b"keep/a", b"1")
    both = api.put(pb.PutRequest(key=b"keep/a", value=b"x", ignore_value=True))
    assert await api.fails(both) == ("INVALID_ARGUMENT", "etcdserver: value is provided")
    leased = api.put(pb.PutRequest(key=b"keep/a", lease=7, ignore_lease=True))
    assert await api.fails(leased) == ("INVALID_ARGUMENT", "etcdserver: lease is provided")
    await api.put(pb.PutRequest(key=b"keep/a", ignore_value=True))
    kv = (await api.range(pb.RangeRequest(key=b"keep/a"))).kvs[0]
    assert (kv.value, kv.version) == (b"1", 2)
    assert await api.fails(api.put(pb.PutRequest(key=b"keep/a", lease=99))) == NO_LEASE
    assert await api.fails(api.put(pb.PutRequest(value=b"x"))) == NO_KEY


async def test_range_limits_counts_and_sorts(api: Api) -> None:
    for name, value in ((b"r/a", b"3"), (b"r/b", b"1"), (b"r/c", b"2"), (b"r/b", b"0")):
        await put(api, name, value)
    scope: dict[str, Any] = {"key": b"r/", "range_end": b"r0"}
    limited = await api.range(pb.RangeRequest(**scope, limit=2))
    assert (keys(limited), limited.more, limited.count) == ([b"r/a", b"r/b"], True, 3)
    counted = await api.range(pb.RangeRequest(**scope, count_only=True))
    assert (len(counted.kvs), counted.count) == (0, 3)
    bare = await api.range(pb.RangeRequest(**scope, keys_only=True))
    assert [kv.value for kv in bare.kvs] == [b"", b"", b""]
    orders = {
        (pb.RangeRequest.KEY, pb.RangeRequest.DESCEND): [b"r/c", b"r/b", b"r/a"],
        (pb.RangeRequest.VALUE, pb.RangeRequest.ASCEND): [b"r/b", b"r/c", b"r/a"],
        (pb.RangeRequest.MOD, pb.RangeRequest.NONE): [b"r/a", b"r/c", b"r/b"],
        (pb.RangeRequest.CREATE, pb.RangeRequest.DESCEND): [b"r/c", b"r/b", b"r/a"],
        (pb.RangeRequest.VERSION, pb.RangeRequest.DESCEND): [b"r/b", b"r/a", b"r/c"],
    }
    for (target, order), expected in orders.items():
        request = pb.RangeRequest(**scope, sort_target=target, sort_order=order)
        assert keys(await api.range(request)) == expected
    top = await api.range(
        pb.RangeRequest(**scope, sort_target=pb.RangeRequest.MOD, sort_order=pb.RangeRequest.DESCEND, limit=1)
    )
    assert (keys(top), top.more, top.count) == ([b"r/b"], True, 3)


async def test_range_filters_by_revision_and_reads_the_past(api: Api) -> None:
    first = await put(api, b"p/a", b"1")
    second = await put(api, b"p/b", b"1")
    await api.delete_range(pb.DeleteRangeRequest(key=b"p/a"))
    scope: dict[str, Any] = {"key": b"p/", "range_end": b"p0"}
    assert keys(await api.range(pb.RangeRequest(**scope))) == [b"p/b"]
    assert keys(await api.range(pb.RangeRequest(**scope, revision=first))) == [b"p/a"]
    past = await api.range(pb.RangeRequest(**scope, revision=second, limit=1))
    assert (keys(past), past.more, past.count) == ([b"p/a"], True, 2)
    assert past.header.revision == second + 1
    late = pb.RangeRequest(**scope, revision=second, min_mod_revision=second)
    assert keys(await api.range(late)) == [b"p/b"]
    early = pb.RangeRequest(**scope, revision=second, max_create_revision=first)
    assert keys(await api.range(early)) == [b"p/a"]
    assert await api.fails(api.range(pb.RangeRequest(**scope, revision=second + 100_000))) == FUTURE
    assert await api.fails(api.range(pb.RangeRequest())) == NO_KEY


async def test_range_ends_reach_end_or_nothing(api: Api) -> None:
    await put(api, b"~z/1")
    await put(api, b"~z/2")
    rest = await api.range(pb.RangeRequest(key=b"~z/2", range_end=b"\0"))
    assert keys(rest) == [b"~z/2"]
    inverted = await api.range(pb.RangeRequest(key=b"~z/2", range_end=b"~z/1"))
    assert (keys(inverted), inverted.count) == ([], 0)


async def test_delete_nothing_makes_no_revision(api: Api) -> None:
    revision = await put(api, b"d/a", b"1")
    await put(api, b"d/b", b"2")
    none = await api.delete_range(pb.DeleteRangeRequest(key=b"d/none"))
    assert (none.deleted, none.header.revision) == (0, revision + 1)
    both = await api.delete_range(pb.DeleteRangeRequest(key=b"d/", range_end=b"d0", prev_kv=True))
    assert (both.deleted, both.header.revision) == (2, revision + 2)
    assert [kv.value for kv in both.prev_kvs] == [b"1", b"2"]
    again = await put(api, b"d/a")
    kv = (await api.range(pb.RangeRequest(key=b"d/a"))).kvs[0]
    assert (kv.create_revision, kv.version) == (again, 1)


async def test_txn_is_one_revision_and_sees_its_own_writes(api: Api) -> None:
    before = await put(api, b"t/base")
    request = pb.TxnRequest(
        compare=[mod_is(b"t/a", 0)],
        success=[
            op(pb.PutRequest(key=b"t/a", value=b"1")),
            op(pb.PutRequest(key=b"t/b", value=b"2")),
            op(pb.RangeRequest(key=b"t/", range_end=b"t0")),
            op(pb.DeleteRangeRequest(key=b"t/base")),
        ],
    )
    answer = await api.txn(request)
    assert (answer.succeeded, answer.header.revision) == (True, before + 1)
    ranged = answer.responses[2].response_range
    assert keys(ranged) == [b"t/a", b"t/b", b"t/base"]
    assert [r.WhichOneof("response") for r in answer.responses][3] == "response_delete_range"
    assert {kv.mod_revision for kv in ranged.kvs if kv.key != b"t/base"} == {before + 1}
    failed = await api.txn(request)
    assert (failed.succeeded, failed.header.revision, len(failed.responses)) == (False, before + 1, 0)


async def test_txn_reads_an_older_revision_without_its_own_writes(api: Api) -> None:
    revision = await put(api, b"tp/a")
    writes = [op(pb.PutRequest(key=b"tp/b"))]
    old = op(pb.RangeRequest(key=b"tp/", range_end=b"tp0", revision=revision))
    answer = await api.txn(pb.TxnRequest(success=[*writes, old]))
    assert keys(answer.responses[1].response_range) == [b"tp/a"]
    own = op(pb.RangeRequest(key=b"tp/b", revision=revision + 2))
    assert await api.fails(api.txn(pb.TxnRequest(success=[*writes, own]))) == FUTURE


def _unknown(**numbers: Any) -> pb.Compare:
    """Return a comparison with a result or target that no version of etcd defines."""
    return pb.Compare(**numbers)


async def test_txn_compares_everything_it_can(api: Api) -> None:
    revision = await put(api, b"c/a", b"m")
    kinds = pb.Compare
    cases: list[tuple[pb.Compare, bool]] = [
        (kinds(key=b"c/a", target=kinds.VALUE, result=kinds.EQUAL, value=b"m"), True),
        (kinds(key=b"c/a", target=kinds.VALUE, result=kinds.GREATER, value=b"a"), True),
        (kinds(key=b"c/a", target=kinds.VALUE, result=kinds.LESS, value=b"a"), False),
        (kinds(key=b"c/a", target=kinds.VERSION, result=kinds.EQUAL, version=1), True),
        (kinds(key=b"c/a", target=kinds.CREATE, result=kinds.NOT_EQUAL, create_revision=revision), False),
        (kinds(key=b"c/a", target=kinds.LEASE, result=kinds.EQUAL, lease=0), True),
        (kinds(key=b"c/none", target=kinds.VERSION, result=kinds.EQUAL, version=0), True),
        (kinds(key=b"c/none", target=kinds.VALUE, result=kinds.NOT_EQUAL, value=b"x"), False),
        (kinds(key=b"c/", range_end=b"c0", target=kinds.MOD, result=kinds.GREATER, mod_revision=0), True),
        (_unknown(key=b"c/a", result=9, target=kinds.VERSION, version=7), True),
        (_unknown(key=b"c/none", result=9, target=kinds.VALUE), False),
        (_unknown(key=b"c/a", target=9, result=kinds.EQUAL), True),
        (_unknown(key=b"c/a", target=9, result=kinds.GREATER), False),
    ]
    for compare, expected in cases:
        assert (await api.txn(pb.TxnRequest(compare=[compare]))).succeeded is expected, compare


async def test_txn_nested_decides_before_it_writes(api: Api) -> None:
    inner = pb.TxnRequest(
        compare=[mod_is(b"n/a", 0)],
        success=[op(pb.PutRequest(key=b"n/inner", value=b"absent"))],
        failure=[op(pb.PutRequest(key=b"n/inner", value=b"present"))],
    )
    answer = await api.txn(pb.TxnRequest(success=[op(pb.PutRequest(key=b"n/a")), op(inner)]))
    assert answer.responses[1].response_txn.succeeded
    assert (await api.range(pb.RangeRequest(key=b"n/inner"))).kvs[0].value == b"absent"


async def test_txn_bad_requests_are_refused(api: Api) -> None:
    one = op(pb.PutRequest(key=b"x/a"))
    assert await api.fails(api.txn(pb.TxnRequest(success=[one, one]))) == DUPLICATE
    cleared = op(pb.DeleteRangeRequest(key=b"x/", range_end=b"x0"))
    assert await api.fails(api.txn(pb.TxnRequest(success=[one, cleared]))) == DUPLICATE
    nested = op(pb.TxnRequest(success=[one], failure=[one]))
    assert await api.fails(api.txn(pb.TxnRequest(success=[nested, one]))) == DUPLICATE
    assert (await api.txn(pb.TxnRequest(success=[nested]))).succeeded
    many = [op(pb.PutRequest(key=b"x/%d" % n)) for n in range(129)]
    limit = ("INVALID_ARGUMENT", "etcdserver: too many operations in txn request")
    assert await api.fails(api.txn(pb.TxnRequest(success=many))) == limit
    deep = pb.TxnRequest(success=[*many[:100], op(pb.TxnRequest(success=many[100:]))])
    assert await api.fails(api.txn(deep)) == limit
    assert await api.fails(api.txn(pb.TxnRequest(success=[op(pb.PutRequest())]))) == NO_KEY
    future = op(pb.RangeRequest(key=b"x/a", revision=10**9))
    assert await api.fails(api.txn(pb.TxnRequest(success=[future]))) == FUTURE
    revision = await put(api, b"x/lease")
    bad = pb.TxnRequest(success=[op(pb.PutRequest(key=b"x/good")), op(pb.PutRequest(key=b"x/bad", lease=987))])
    assert await api.fails(api.txn(bad)) == NO_LEASE
    found = await api.range(pb.RangeRequest(key=b"x/good"))
    assert (found.count, found.header.revision) == (0, revision)


async def test_request_too_large_is_refused(api: Api) -> None:
    await put(api, b"big/ok", b"x" * (1 << 20))
    error = await api.fails(api.put(pb.PutRequest(key=b"big/no", value=b"x" * (1700 << 10))))
    assert error == ("INVALID_ARGUMENT", "etcdserver: request is too large")


def create(key: bytes, **more: Any) -> pb.WatchRequest:
    return pb.WatchRequest(create_request=pb.WatchCreateRequest(key=key, **more))


async def events(stream: Any, count: int) -> list[mvcc_pb2.Event]:
    """The next `count` events, whatever responses they come in."""
    found: list[mvcc_pb2.Event] = []
    while len(found) < count:
        found.extend((await read(stream)).events)
    assert len(found) == count
    return found


async def test_watch_starts_in_the_past_and_goes_on(api: Api) -> None:
    first = await put(api, b"w/a", b"1")
    await put(api, b"w/a", b"2")
    stream = api.watch()
    await stream.write(create(b"w/", range_end=b"w0", start_revision=first, prev_kv=True))
    created = await read(stream)
    assert (created.created, created.watch_id, len(created.events)) == (True, 0, 0)
    assert created.header.revision == first + 1
    past = await events(stream, 2)
    assert [(e.kv.value, e.prev_kv.value) for e in past] == [(b"1", b""), (b"2", b"1")]
    await api.delete_range(pb.DeleteRangeRequest(key=b"w/a"))
    gone = (await events(stream, 1))[0]
    assert gone.type == mvcc_pb2.Event.DELETE
    assert gone.kv == mvcc_pb2.KeyValue(key=b"w/a", mod_revision=first + 2)
    assert gone.prev_kv.value == b"2"
    stream.cancel()


async def test_watch_with_filters_sends_matching_events(api: Api) -> None:
    stream = api.watch()
    kinds = pb.WatchCreateRequest
    await stream.write(create(b"f/a", filters=[kinds.NOPUT]))
    await stream.write(create(b"f/a", filters=[kinds.NODELETE]))
    assert [(await read(stream)).watch_id for _ in range(2)] == [0, 1]
    await put(api, b"f/a", b"1")
    await put(api, b"f/ab", b"other")
    await api.delete_range(pb.DeleteRangeRequest(key=b"f/a"))
    got = sorted([(r.watch_id, r.events[0].type) for r in [await read(stream), await read(stream)]])
    assert got == [(0, mvcc_pb2.Event.DELETE), (1, mvcc_pb2.Event.PUT)]
    stream.cancel()


async def test_watch_bad_requests_are_canceled(api: Api) -> None:
    stream = api.watch()
    await stream.write(create(b"e/b", range_end=b"e/a"))
    refused = await read(stream)
    assert (refused.created, refused.canceled, refused.watch_id) == (True, True, -1)
    assert refused.cancel_reason == "mvcc: watcher range is empty"
    await stream.write(create(b"e/a", watch_id=5))
    assert (await read(stream)).watch_id == 5
    await stream.write(create(b"e/a", watch_id=5))
    twice = await read(stream)
    assert (twice.watch_id, twice.cancel_reason) == (-1, "mvcc: duplicate watch ID provided on the WatchStream")
    await stream.write(pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=5)))
    ended = await read(stream)
    assert (ended.watch_id, ended.canceled, ended.created, ended.cancel_reason) == (5, True, False, "")
    stream.cancel()


async def test_watches_of_one_stream_are_independent(api: Api) -> None:
    stream = api.watch()
    for key in (b"m/a", b"m/b"):
        await stream.write(create(key))
    await stream.write(create(b"m/b", watch_id=7))
    assert [(await read(stream)).watch_id for _ in range(3)] == [0, 1, 7]
    for unknown in (99, 0):
        await stream.write(pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=unknown)))
    assert (await read(stream)).canceled
    await put(api, b"m/a")
    await put(api, b"m/b")
    assert sorted([(await read(stream)).watch_id for _ in range(2)]) == [1, 7]
    await stream.write(create(b"m/a"))
    assert (await read(stream)).watch_id == 2
    stream.cancel()


async def test_watch_future_revision_waits(api: Api) -> None:
    revision = await put(api, b"fu/a")
    stream = api.watch()
    await stream.write(create(b"fu/a", start_revision=revision + 2))
    assert (await read(stream)).created
    await put(api, b"fu/a", b"early")
    await put(api, b"fu/a", b"late")
    assert [event.kv.value for event in await events(stream, 1)] == [b"late"]
    stream.cancel()


async def test_watch_large_revision_is_fragmented_on_request(api: Api) -> None:
    names = [b"fr/%d" % number for number in range(4)]
    for name in names:
        await put(api, name, b"x" * 1_000_000)
    stream = api.watch()
    await stream.write(create(b"fr/", range_end=b"fr0", fragment=True, prev_kv=True))
    await read(stream)
    await api.delete_range(pb.DeleteRangeRequest(key=b"fr/", range_end=b"fr0"))
    pieces = [await read(stream)]
    while pieces[-1].fragment:
        pieces.append(await read(stream))
    assert len(pieces) > 1
    assert [event.kv.key for piece in pieces for event in piece.events] == names
    stream.cancel()


async def test_hash_differs_between_histories(api: Api) -> None:
    revision = await put(api, b"h/a")
    first = await api.hash_kv(pb.HashKVRequest(revision=revision))
    await put(api, b"h/b")
    again, now = await api.hash_kv(pb.HashKVRequest(revision=revision)), await api.hash_kv(pb.HashKVRequest())
    assert first.hash == again.hash != now.hash
    assert await api.fails(api.hash_kv(pb.HashKVRequest(revision=revision + 1000))) == FUTURE
    assert (await api.hash(pb.HashRequest())).hash
    assert (await api.hash_kv(pb.HashKVRequest(revision=-5))).compact_revision == -1


async def test_snapshot_ends_with_digest(api: Api) -> None:
    await put(api, b"sn/a", b"x" * 100_000)
    stub = api.channel.unary_stream("/etcdserverpb.Maintenance/Snapshot", serialize, pb.SnapshotResponse.FromString)
    pieces = [piece async for piece in stub(pb.SnapshotRequest(), timeout=30)]
    whole = b"".join(piece.blob for piece in pieces)
    assert hashlib.sha256(whole[:-32]).digest() == whole[-32:]
    left = [piece.remaining_bytes for piece in pieces]
    assert (left[-1], left == sorted(left, reverse=True), len(whole) % 512) == (0, True, 32)


async def test_health_checks_are_answered(api: Api) -> None:
    check = api.channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)
    assert await check(b"", timeout=30) == b"\x08\x01"


async def test_watch_events_of_one_revision_come_together(api: Api) -> None:
    stream = api.watch()
    await stream.write(create(b"g/", range_end=b"g0"))
    await read(stream)
    puts = [op(pb.PutRequest(key=b"g/%02d" % n)) for n in range(20)]
    revision = (await api.txn(pb.TxnRequest(success=puts))).header.revision
    response = await read(stream)
    assert [e.kv.key for e in response.events] == [b"g/%02d" % n for n in range(20)]
    assert {e.kv.mod_revision for e in response.events} == {revision}
    stream.cancel()


async def test_watch_progress_is_sent_on_request_and_by_itself(api: Api) -> None:
    revision = await put(api, b"pr/other")
    stream = api.watch()
    await stream.write(create(b"pr/a", progress_notify=True))
    await read(stream)
    ask = pb.WatchRequest(progress_request=pb.WatchProgressRequest())
    await stream.write(ask)
    asked = await read(stream)
    while asked.watch_id == 0:  # what comes by itself may come first
        asked = await read(stream)
    assert (asked.watch_id, asked.header.revision, len(asked.events)) == (-1, revision, 0)
    revision = await put(api, b"pr/other")
    told = await read(stream)
    while told.header.revision < revision:
        told = await read(stream)
    assert (told.watch_id, told.created, told.canceled, len(told.events)) == (0, False, False, 0)
    stream.cancel()


async def test_compaction_past_revision_is_an_error(api: Api) -> None:
    first = await put(api, b"k/a", b"1")
    second = await put(api, b"k/a", b"2")
    third = await put(api, b"k/a", b"3")
    await api.compact(pb.CompactionRequest(revision=second, physical=True))
    assert await api.fails(api.range(pb.RangeRequest(key=b"k/a", revision=first))) == GONE
    assert (await api.range(pb.RangeRequest(key=b"k/a", revision=second))).kvs[0].value == b"2"
    assert await api.fails(api.compact(pb.CompactionRequest(revision=second))) == GONE
    assert await api.fails(api.compact(pb.CompactionRequest(revision=third + 1000))) == FUTURE
    stream = api.watch()
    await stream.write(create(b"k/a", start_revision=first))
    assert (await read(stream)).created
    gone = await read(stream)
    assert (gone.canceled, gone.compact_revision, gone.cancel_reason) == (True, second, "")
    assert gone.header.revision == 0
    await stream.write(create(b"k/a", start_revision=second, prev_kv=True))
    assert (await read(stream)).created
    left = await events(stream, 2)
    assert [(e.kv.value, e.HasField("prev_kv")) for e in left] == [(b"2", False), (b"3", True)]
    stream.cancel()


async def test_leases_granted_are_listed_and_revoked(api: Api) -> None:
    granted = await api.grant(pb.LeaseGrantRequest(TTL=600))
    assert (granted.TTL, granted.error, granted.ID > 0) == (600, "", True)
    exists = await api.fails(api.grant(pb.LeaseGrantRequest(TTL=5, ID=granted.ID)))
    assert exists == ("FAILED_PRECONDITION", "etcdserver: lease already exists")
    too_long = await api.fails(api.grant(pb.LeaseGrantRequest(TTL=9_000_000_001)))
    assert too_long == ("OUT_OF_RANGE", "etcdserver: too large lease TTL")
    await put(api, b"l/b", lease=granted.ID)
    await put(api, b"l/a", lease=granted.ID)
    left = await api.time_to_live(pb.LeaseTimeToLiveRequest(ID=granted.ID, keys=True))
    assert (left.grantedTTL, sorted(left.keys), 500 < left.TTL < 600) == (600, [b"l/a", b"l/b"], True)
    assert granted.ID in [lease.ID for lease in (await api.leases(pb.LeaseLeasesRequest())).leases]
    revision = await put(api, b"l/b")  # the lease lets go of it
    revoked = await api.revoke(pb.LeaseRevokeRequest(ID=granted.ID))
    assert revoked.header.revision == revision + 1
    assert keys(await api.range(pb.RangeRequest(key=b"l/", range_end=b"l0"))) == [b"l/b"]
    assert await api.fails(api.revoke(pb.LeaseRevokeRequest(ID=granted.ID))) == NO_LEASE
    none = await api.time_to_live(pb.LeaseTimeToLiveRequest(ID=granted.ID))
    assert (none.TTL, none.grantedTTL) == (-1, 0)


async def test_leases_expire_and_are_kept_alive(api: Api) -> None:
    assert (await api.grant(pb.LeaseGrantRequest(TTL=1))).TTL == 2, "none lives for less"
    watch = api.watch()
    await watch.write(create(b"ex/", range_end=b"ex0", filters=[pb.WatchCreateRequest.NOPUT]))
    await read(watch)
    kept = await api.grant(pb.LeaseGrantRequest(TTL=20))
    await put(api, b"ex/kept", lease=kept.ID)
    short = await api.grant(pb.LeaseGrantRequest(TTL=3))
    await put(api, b"ex/short", lease=short.ID)
    alive = api.stream("Lease/LeaseKeepAlive", pb.LeaseKeepAliveResponse)
    await alive.write(pb.LeaseKeepAliveRequest(ID=12345))
    assert ((await read(alive)).TTL) == 0
    gone = (await events(watch, 1))[0]
    assert (gone.type, gone.kv.key) == (mvcc_pb2.Event.DELETE, b"ex/short")
    asked = time.monotonic()
    await alive.write(pb.LeaseKeepAliveRequest(ID=kept.ID))
    assert (await read(alive)).TTL == 20
    left = (await api.time_to_live(pb.LeaseTimeToLiveRequest(ID=kept.ID))).TTL
    assert left >= 19 - (time.monotonic() - asked), "its time begins anew"
    alive.cancel()
    watch.cancel()


async def test_maintenance_reports_status_and_members(api: Api) -> None:
    status = await api.status(pb.StatusRequest())
    assert status.version.startswith("3.")
    assert status.leader == status.header.member_id
    assert len((await api.members(pb.MemberListRequest())).members) == 1
    assert len((await api.alarm(pb.AlarmRequest())).alarms) == 0
