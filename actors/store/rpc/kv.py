"""etcd's KV service."""

from functools import partial

from actors.store.engine.compactor import Compactor
from actors.store.engine.core import Core
from actors.store.file.history import PastView
from actors.store.mvcc.index import KeySnapshot
from actors.store.mvcc.operations import check_range, compact, delete_range, evaluate_range, is_plain, put, txn
from actors.store.mvcc.request_checks import check_delete, check_put, check_size, check_txn
from protocols.wire import etcd_pb2 as pb

IN_TURN = 5000
"""Keys of a range that is answered in one turn of the loop: about 25 ms. More are put together in the reader thread."""


class KvService:
    """Reads use the index, or the file for past revisions; writes go through the group commit."""

    def __init__(self, core: Core, compactor: Compactor) -> None:
        self._core, self._compactor = core, compactor

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        check_range(request)
        self._core.check_revision(request.revision)
        header = self._core.header()
        if request.revision <= 0 or request.revision == header.revision:
            response = await self._current(request)
        else:
            response = await self._core.read(lambda db: evaluate_range(request, PastView(db, request.revision)))
            # Rows of this revision may have been compacted and swept during the read.
            self._core.check_revision(request.revision)
        response.header.CopyFrom(header)
        return response

    async def _current(self, request: pb.RangeRequest) -> pb.RangeResponse:
        index = self._core.index
        page = is_plain(request) and 0 < request.limit <= IN_TURN
        if page or request.count_only or len(index.keys(request.key, request.range_end)) <= IN_TURN:
            return evaluate_range(request, index)
        snapshot = KeySnapshot(index, request.key, request.range_end)
        return await self._core.read(lambda _: evaluate_range(request, snapshot))

    async def put(self, request: pb.PutRequest) -> pb.PutResponse:
        check_size(request, self._core.options.request_bytes)
        check_put(request)
        response = await self._core.writer.submit(partial(put, request), request.ByteSize())
        response.header.CopyFrom(self._core.header(response.header.revision))
        return response

    async def delete_range(self, request: pb.DeleteRangeRequest) -> pb.DeleteRangeResponse:
        check_size(request, self._core.options.request_bytes)
        check_delete(request)
        response = await self._core.writer.submit(partial(delete_range, request), request.ByteSize())
        response.header.CopyFrom(self._core.header(response.header.revision))
        return response

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        check_size(request, self._core.options.request_bytes)
        check_txn(request, self._core.options.txn_operations)
        evaluate = partial(txn, request, history=self._core.past)
        response = await self._core.writer.submit(evaluate, request.ByteSize())
        response.header.CopyFrom(self._core.header(response.header.revision))
        return response

    async def compact(self, request: pb.CompactionRequest) -> pb.CompactionResponse:
        await self._core.writer.submit(partial(compact, request.revision))
        if request.physical:
            await self._compactor.sweep()
        else:
            self._compactor.wake()
        return pb.CompactionResponse(header=self._core.header())
