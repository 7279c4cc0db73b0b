"""Bring the records of addresses and ports in line with the services, once when an API server starts.

Writes keep both in line. Exceptions are services of versions without records, and records whose service was deleted
while it could not be read. Safe in several processes: records are created if absent and deleted at their revision.
"""

import logging

from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import Storage
from protocols.kinds.services.allocation import ADDRESSES, PORTS, reservations

WAIT_S = 10.0
log = logging.getLogger("apiserver")


async def repair(storage: Storage, services: Replica) -> None:
    """Create missing records and delete those of no service. Raises EtcdError, TimeoutError."""
    row = services.resource
    records, revision = await storage.records(row, (ADDRESSES, PORTS))
    await services.wait_for(revision, WAIT_S)
    wanted = {key: value for stored in services.objects.below("") for key, value in reservations(stored.obj).items()}
    for key, record in records.items():
        if key not in wanted:
            await storage.delete_record(row, key, record.mod_revision)
            log.warning("record of no service removed key=%s", key)
    for key, value in wanted.items():
        if key not in records and await storage.create_record(row, key, value):
            log.info("record of a service created key=%s", key)
