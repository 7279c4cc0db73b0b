"""etcd's Maintenance and Cluster services, for a store of one member."""

import asyncio
from collections.abc import AsyncGenerator

from actors.store.engine.core import Core
from actors.store.file import upkeep
from actors.store.file.history import history_hash
from actors.store.file.snapshot import chunks, snapshot_file
from actors.store.model.errors import NotSupported
from protocols.wire import etcd_pb2 as pb

VERSION = "3.5.21"
"""The etcd version this store reports. API servers use consistent reads from cache only with 3.4.31, 3.5.13, 3.6 or
newer, because older versions answer progress requests out of order; this store answers them in order."""
PAGE = 4096


class MaintenanceService:
    """Status, alarms, hashes, and snapshots in etcd's own format."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._copying = asyncio.Lock()

    async def status(self, request: pb.StatusRequest) -> pb.StatusResponse:
        size, used = await self._core.writer.in_thread(upkeep.file_size)
        revision = self._core.index.revision
        return pb.StatusResponse(
            header=self._core.header(),
            version=VERSION,
            dbSize=size,
            dbSizeInUse=used,
            dbSizeQuota=self._core.options.quota_bytes or self._core.options.max_pages * PAGE,
            leader=self._core.member_id,
            raftIndex=revision,
            raftTerm=1,
            raftAppliedIndex=revision,
            storageVersion="3.5.0",
            errors=[f"memberID:{alarm.memberID} alarm:NOSPACE " for alarm in self._alarms()],
        )

    def _alarms(self) -> list[pb.AlarmMember]:
        full = self._core.writer.full or self._core.writer.quota.exceeded
        return [pb.AlarmMember(memberID=self._core.member_id, alarm=pb.NOSPACE)] if full else []

    async def alarm(self, request: pb.AlarmRequest) -> pb.AlarmResponse:
        """Report NOSPACE while the quota is exceeded or the last write failed for lack of space.

        The alarm ends by itself; it need not be disarmed.
        """
        if request.action == pb.AlarmRequest.ACTIVATE:
            raise NotSupported("nodeplane's store has no alarms to activate: a full disk ends when space is back")
        alarms = self._alarms()
        if request.action == pb.AlarmRequest.DEACTIVATE:
            self._core.writer.full = False
        return pb.AlarmResponse(header=self._core.header(), alarms=alarms)

    async def defragment(self, request: pb.DefragmentRequest) -> pb.DefragmentResponse:
        await self._core.writer.in_thread(upkeep.defragment)
        return pb.DefragmentResponse(header=self._core.header())

    async def hash(self, request: pb.HashRequest) -> pb.HashResponse:
        value, _, _ = await self._hash(0)
        return pb.HashResponse(header=self._core.header(), hash=value)

    async def hash_kv(self, request: pb.HashKVRequest) -> pb.HashKVResponse:
        """Hash the history that compaction left; comparable among copies of this store, but not with etcd."""
        value, compacted, revision = await self._hash(request.revision)
        return pb.HashKVResponse(
            header=self._core.header(), hash=value, compact_revision=compacted or -1, hash_revision=revision
        )

    async def _hash(self, wanted: int) -> tuple[int, int, int]:
        """Return the hash, the compacted revision that it begins with, and the revision that it ends with."""
        self._core.check_revision(wanted)
        revision = wanted or self._core.index.revision
        value, compacted = await self._core.read(lambda db: history_hash(db, revision))
        self._core.check_revision(revision)
        return value, compacted, revision

    async def snapshot(self, request: pb.SnapshotRequest) -> AsyncGenerator[pb.SnapshotResponse, None]:
        # One at a time: each needs the disk space of the data once more.
        async with self._copying:
            file, size = await asyncio.to_thread(snapshot_file, self._core.options)
            with file:
                async for chunk in chunks(file, size):
                    yield chunk

    async def members(self, request: pb.MemberListRequest) -> pb.MemberListResponse:
        urls = [f"https://{self._core.address}"] if self._core.address else []
        member = pb.Member(ID=self._core.member_id, name="nodeplane", clientURLs=urls)
        return pb.MemberListResponse(header=self._core.header(), members=[member])
