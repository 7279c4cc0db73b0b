"""NetworkPolicies. The API server stores them; enforcing them is the task of a network plugin."""

from actors.apiserver.api.resource import Column, Resource
from actors.apiserver.api.strategy import deferred
from actors.apiserver.resources.cells import AGE, NAME
from actors.apiserver.resources.workloads.cells import selector

NETWORK_POLICIES = Resource(
    group="networking.k8s.io",
    version="v1",
    plural="networkpolicies",
    singular="networkpolicy",
    kind="NetworkPolicy",
    namespaced=True,
    strategy=deferred("actors.apiserver.resources.policy.network_rules", "NetworkPolicyStrategy", has_generation=True),
    short_names=("netpol",),
    columns=(NAME, Column("Pod-Selector", selector("spec", "podSelector")), AGE),
)
