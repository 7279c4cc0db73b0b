"""Compact the history of an etcd periodically, so that it does not grow without bound.

Of all control planes on the same etcd, one wins each round. Key and protocol are upstream's, so real API servers take
part in it.
"""

import asyncio
import logging

from protocols.etcd.client import EtcdClient
from protocols.etcd.errors import Compacted, EtcdError
from protocols.wire import etcd_pb2 as pb

KEY = b"compact_rev_key"
"""Its version counts compactions: the process whose compare-and-swap raises it wins the round."""

log = logging.getLogger("watchcache")


class CompactionRound:
    """State of the election. Pure.

    The winner compacts to the revision of its own previous round, so history is retained for one to two intervals.
    """

    def __init__(self) -> None:
        self.version = 0
        self.revision = 0

    def request(self) -> pb.TxnRequest:
        unchanged = pb.Compare(target=pb.Compare.VERSION, result=pb.Compare.EQUAL, key=KEY, version=self.version)
        put = pb.RequestOp(request_put=pb.PutRequest(key=KEY, value=str(self.revision).encode()))
        read = pb.RequestOp(request_range=pb.RangeRequest(key=KEY))
        return pb.TxnRequest(compare=[unchanged], success=[put], failure=[read])

    def learn(self, answer: pb.TxnResponse) -> int:
        """Read the answer of a round; return the revision to compact to, 0 if another process won."""
        target = self.revision if answer.succeeded else 0
        if answer.succeeded:
            self.version += 1
        else:
            kvs = answer.responses[0].response_range.kvs
            self.version = kvs[0].version if kvs else 0
        self.revision = answer.header.revision
        return target


class Compactor:
    """Compacts each `interval` seconds to the revision of the interval before."""

    def __init__(self, client: EtcdClient, interval: float) -> None:
        self._client = client
        self._interval = interval
        self._round = CompactionRound()

    async def run(self) -> None:
        """Run until cancelled. The first round only learns the current version."""
        while True:
            try:
                await self.once()
            except EtcdError as error:
                log.warning("compaction failed, will retry error=%s delay=%gs", error, self._interval)
            await asyncio.sleep(self._interval)

    async def once(self) -> int:
        target = self._round.learn(await self._client.txn(self._round.request()))
        if target:
            try:
                await self._client.compact(target)
            except Compacted:
                return 0  # another process compacted as far
            log.info("store compacted revision=%d", target)
        return target
