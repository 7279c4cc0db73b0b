"""The policy as the replicas show it: filled when first asked, then kept by each change."""

from collections.abc import Callable, Mapping

from actors.apiserver.authorization.rbac.policy import Policy
from actors.apiserver.replica.change import Change
from actors.apiserver.replica.replica import Replica

KINDS = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


class PolicyFeed:
    def __init__(self, replicas: Mapping[str, Replica]) -> None:
        """`replicas` by kind, one of each of KINDS."""
        self._replicas = {kind: replicas[kind] for kind in KINDS}
        self._policy: Policy | None = None
        for replica in self._replicas.values():
            replica.listen(self._follower(replica))

    def policy(self) -> Policy | None:
        """None while a replica is empty: nobody knows yet what is allowed."""
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
            if change.after is None:
                self._policy.remove(kind, change.key)
            else:
                self._policy.put(kind, change.key, change.after.obj)

        return follow
