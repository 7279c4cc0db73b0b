"""Feed the RBAC policy from the replicas: fill it at the first use, then apply each change."""

import asyncio
from collections.abc import Callable, Mapping

from actors.apiserver.api.stored import Stored
from actors.apiserver.authorization.rbac.policy import Policy
from actors.apiserver.authorization.rbac.rules import read_role
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from protocols.process.tasks import Tasks

KINDS = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
ROLES = ("Role", "ClusterRole")
LONG = 64 * 1024
"""Bytes of a role that is parsed in a thread: 1 MB takes 60 ms. Until then its former rules apply."""


class PolicyFeed:
    """The policy of this process; long roles are parsed in a thread, and the newest parse counts."""

    def __init__(self, replicas: Mapping[str, Replica]) -> None:
        """`replicas` has one replica for each of KINDS."""
        self._replicas = {kind: replicas[kind] for kind in KINDS}
        self._policy: Policy | None = None
        self._tasks = Tasks()
        self._reading: dict[tuple[str, str], asyncio.Task[None]] = {}
        """The newest parse of each long role by kind and key. Results of older ones are dropped."""
        for replica in self._replicas.values():
            replica.listen(self._follower(replica))

    def policy(self) -> Policy | None:
        """Return the policy; None until all replicas are filled."""
        if self._policy is None and all(replica.filled for replica in self._replicas.values()):
            self._policy = Policy()
            for kind, replica in self._replicas.items():
                for stored in replica.objects.below(""):
                    self._policy.put(kind, stored.key, stored.obj)
        return self._policy

    def _follower(self, replica: Replica) -> Callable[[Change], None]:
        kind = replica.resource.kind

        def follow(change: Change) -> None:
            if self._policy is None:
                return
            self._reading.pop((kind, change.key), None)
            if change.after is None:
                self._policy.remove(kind, change.key)
            elif kind in ROLES and len(change.after.raw) > LONG:
                self._read(self._policy, kind, change.after)
            else:
                self._policy.put(kind, change.key, change.after.obj)

        return follow

    def _read(self, policy: Policy, kind: str, stored: Stored) -> None:
        at = kind, stored.key

        async def read() -> None:
            role = await asyncio.to_thread(lambda: read_role(stored.obj))
            if self._reading.get(at) is asyncio.current_task():
                del self._reading[at]
                policy.put_role(kind, stored.key, role)

        self._reading[at] = self._tasks.start(read(), "role", stored.key)
