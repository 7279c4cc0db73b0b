"""The Maintenance and Cluster services, as far as a store of one member has something to say."""

from actors.store import upkeep
from actors.store.core import Core
from actors.store.errors import NotSupported
from protocols.wire import etcd_pb2 as pb

VERSION = "3.5.21"
"""The etcd version whose API this store has. API servers read consistently from their cache only from 3.4.31, 3.5.13
or 3.6 on, because older ones answer progress requests out of order: this store answers them in order."""


class MaintenanceService:
    """Status and alarms; copies of the file are made by copying it (see docs/reference/store.md)."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def status(self, request: pb.StatusRequest) -> pb.StatusResponse:
        size, used = await self._core.writer.in_thread(upkeep.file_size)
        revision = self._core.index.revision
        return pb.StatusResponse(
            header=self._core.header(),
            version=VERSION,
            dbSize=size,
            dbSizeInUse=used,
            leader=self._core.member_id,
            raftIndex=revision,
            raftTerm=1,
            raftAppliedIndex=revision,
            storageVersion="3.5.0",
        )

    async def alarm(self, request: pb.AlarmRequest) -> pb.AlarmResponse:
        if request.action == pb.AlarmRequest.ACTIVATE:
            raise NotSupported("nodeplane's store has no alarms to activate: a full disk ends when space is back")
        return pb.AlarmResponse(header=self._core.header())

    async def defragment(self, request: pb.DefragmentRequest) -> pb.DefragmentResponse:
        await self._core.writer.in_thread(upkeep.defragment)
        return pb.DefragmentResponse(header=self._core.header())

    async def hash(self, request: pb.HashRequest) -> pb.HashResponse:
        raise NotSupported("nodeplane's store has one member, and no hash to compare")

    async def hash_kv(self, request: pb.HashKVRequest) -> pb.HashKVResponse:
        raise NotSupported("nodeplane's store has one member, and no hash to compare")

    async def snapshot(self, request: pb.SnapshotRequest) -> pb.SnapshotResponse:
        raise NotSupported("nodeplane's store has no etcd snapshots; copy its file with: sqlite3 FILE '.backup COPY'")

    async def members(self, request: pb.MemberListRequest) -> pb.MemberListResponse:
        member = pb.Member(ID=self._core.member_id, name="nodeplane")
        return pb.MemberListResponse(header=self._core.header(), members=[member])
