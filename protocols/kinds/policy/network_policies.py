"""NetworkPolicies. The API server stores them; enforcing them is the task of a network plugin."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import deferred
from protocols.kinds.workloads.columns import selector

NETWORK_POLICIES = Served(
    **asdict(kinds.NETWORKPOLICIES),
    strategy=deferred("protocols.kinds.policy.network_rules", "NetworkPolicyStrategy", has_generation=True),
    columns=(NAME, Column("Pod-Selector", selector("spec", "podSelector")), AGE),
)
