"""Priority levels and flow schemas: upstream's defaults, for one process.

Names, shares, lendable percentages and the precedence of schemas are those of kube-apiserver 1.36's mandatory and
suggested configuration. `catch-all` is left out: `global-default` matches every request that would reach it.
"""

import math

import msgspec

from actors.apiserver.api.request.user import User

TOTAL_SEATS = 100
"""Requests that may execute at once in one process, those of exempt users aside (upstream: 600 for a whole server)."""
MASTERS, NODES = "system:masters", "system:nodes"
SCHEDULER, CONTROLLERS = "system:kube-scheduler", "system:kube-controller-manager"
SERVICE_ACCOUNTS, KUBE_SYSTEM = "system:serviceaccounts", "system:serviceaccounts:kube-system"
LEASES = "leases.coordination.k8s.io"
NODE_HIGH_RESOURCES = frozenset({"nodes", LEASES})


class LevelSpec(msgspec.Struct, frozen=True):
    """A priority level; `shares` 0 exempts its requests from all limits."""

    name: str
    shares: int = 0
    lendable_percent: int = 0

    @property
    def exempt(self) -> bool:
        return self.shares == 0


EXEMPT = LevelSpec("exempt")
LEADER_ELECTION = LevelSpec("leader-election", 10, 0)
NODE_HIGH = LevelSpec("node-high", 40, 25)
SYSTEM = LevelSpec("system", 30, 33)
WORKLOAD_HIGH = LevelSpec("workload-high", 40, 50)
WORKLOAD_LOW = LevelSpec("workload-low", 100, 90)
GLOBAL_DEFAULT = LevelSpec("global-default", 20, 50)
LIMITED = (LEADER_ELECTION, NODE_HIGH, SYSTEM, WORKLOAD_HIGH, WORKLOAD_LOW, GLOBAL_DEFAULT)
_ALL_SHARES = sum(level.shares for level in LIMITED)


class Schema(msgspec.Struct, frozen=True):
    """A flow is what shares one queue: the requests of a user, or of a namespace, that match one schema."""

    name: str
    level: LevelSpec
    by_namespace: bool = False


MASTERS_SCHEMA = Schema("exempt", EXEMPT)
PROBES = Schema("probes", EXEMPT)
SYSTEM_ELECTION = Schema("system-leader-election", LEADER_ELECTION)
WORKLOAD_ELECTION = Schema("workload-leader-election", LEADER_ELECTION)
SYSTEM_NODE_HIGH = Schema("system-node-high", NODE_HIGH)
SYSTEM_NODES = Schema("system-nodes", SYSTEM)
CONTROLLERS_SCHEMA = Schema("kube-controller-manager", WORKLOAD_HIGH, by_namespace=True)
SCHEDULER_SCHEMA = Schema("kube-scheduler", WORKLOAD_HIGH, by_namespace=True)
KUBE_SYSTEM_SCHEMA = Schema("kube-system-service-accounts", WORKLOAD_HIGH, by_namespace=True)
SERVICE_ACCOUNTS_SCHEMA = Schema("service-accounts", WORKLOAD_LOW)
DEFAULT_SCHEMA = Schema("global-default", GLOBAL_DEFAULT)


class Standing(msgspec.Struct, frozen=True):
    """The schemas of one user: `special` for requests on `resources`, `usual` for all others."""

    usual: Schema
    special: Schema | None = None
    resources: frozenset[str] = frozenset()

    def schema_of(self, resource: str) -> Schema:
        """Return the schema of a request; `resource` is as in `leases.coordination.k8s.io`, empty for other paths."""
        return self.special if self.special is not None and resource in self.resources else self.usual


_ELECTED = frozenset({LEASES})


def standing_of(user: User) -> Standing:
    """Return the schemas of a user, by upstream's precedence."""
    if MASTERS in user.groups:
        return Standing(MASTERS_SCHEMA)
    if user.name in (SCHEDULER, CONTROLLERS):
        usual = SCHEDULER_SCHEMA if user.name == SCHEDULER else CONTROLLERS_SCHEMA
        return Standing(usual, SYSTEM_ELECTION, _ELECTED)
    if NODES in user.groups:
        return Standing(SYSTEM_NODES, SYSTEM_NODE_HIGH, NODE_HIGH_RESOURCES)
    if KUBE_SYSTEM in user.groups:
        return Standing(KUBE_SYSTEM_SCHEMA, WORKLOAD_ELECTION, _ELECTED)
    if SERVICE_ACCOUNTS in user.groups:
        return Standing(SERVICE_ACCOUNTS_SCHEMA)
    return Standing(DEFAULT_SCHEMA)


def nominal_seats(level: LevelSpec) -> int:
    """Return the seats that a level always has, however busy other levels are."""
    return math.ceil(TOTAL_SEATS * level.shares / _ALL_SHARES)


def borrowable_seats(level: LevelSpec) -> int:
    """Return the seats that a level may use beyond its own while other levels lend them."""
    return sum(nominal_seats(other) * other.lendable_percent // 100 for other in LIMITED if other is not level)
