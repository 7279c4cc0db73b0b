"""Keeps an etcd from growing for ever: forgets its history in steps, one control plane of all that use it at a time.

The key and its meaning are upstream's, so real API servers and other nodeplanes on the same etcd share the work.
"""

import asyncio
import logging

from protocols.etcd import Compacted, EtcdClient, EtcdError
from protocols.wire import etcd_pb2 as pb

KEY = b"compact_rev_key"
"""Its *version* counts compactions: who raises it from the number he knew has won this round."""

log = logging.getLogger("watchcache")


class Round:
    """What this process knows of the last round. Pure.

    A winner compacts to the revision of his own previous look, so history is kept for one to two intervals.
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
        """The revision to compact to; 0 = nothing to do in this round."""
        target = self.revision if answer.succeeded else 0
        if answer.succeeded:
            self.version += 1
        else:
            found = answer.responses[0].response_range.kvs
            self.version = found[0].version if found else 0
        self.revision = answer.header.revision
        return target


class Compactor:
    def __init__(self, client: EtcdClient, interval: float) -> None:
        self._client = client
        self._interval = interval
        self._round = Round()

    async def run(self) -> None:
        """For ever. The first look only learns where others are."""
        while True:
            try:
                await self.once()
            except EtcdError as error:
                log.warning("the store was not compacted: %s; trying again in %g s", error, self._interval)
            await asyncio.sleep(self._interval)

    async def once(self) -> int:
        target = self._round.learn(await self._client.txn(self._round.request()))
        if target:
            try:
                await self._client.compact(target)
            except Compacted:
                return 0  # somebody else went as far
            log.info("compacted the store to revision %d", target)
        return target
