"""NetworkPolicies. The API server stores them; enforcing them is the task of a network plugin."""

from msgspec.structs import asdict

from actors.apiserver.api.resource import Column, Served
from actors.apiserver.api.strategy import deferred
from actors.apiserver.resources.cells import AGE, NAME
from actors.apiserver.resources.workloads.cells import selector
from protocols.kinds import table as kinds

NETWORK_POLICIES = Served(
    **asdict(kinds.NETWORKPOLICIES),
    strategy=deferred("actors.apiserver.resources.policy.network_rules", "NetworkPolicyStrategy", has_generation=True),
    columns=(NAME, Column("Pod-Selector", selector("spec", "podSelector")), AGE),
)
