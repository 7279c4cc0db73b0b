"""Mistakes in what takes several steps: quotas, evictions, jobs, rollouts, ends of namespaces, garbage."""

from tests.simulation.mutants.hook import Mutant

WORKLOADS = (
    Mutant(
        "charge-lost",
        "actors/apiserver/writes/admission/quota.py",
        old="            if not failed:\n",
        new="            if failed is not None:\n",
        mistake="A charge of a quota that lost to another server's counts as made.",
        profile="workloads",
    ),
    Mutant(
        "charge-given-back",
        "actors/controllers/policies/in_flight.py",
        old="amount + min(spare, outstanding.get(name, ZERO)) if spare > ZERO else amount",
        new="amount",
        mistake="Charges of objects that are not stored yet are given back.",
        profile="workloads",
    ),
    Mutant(
        "charge-kept",
        "actors/controllers/policies/in_flight.py",
        old="amount + min(spare, outstanding.get(name, ZERO)) if spare > ZERO else amount",
        new="amount + spare if spare > ZERO else amount",
        mistake="Charges of writes that failed are never given back.",
        profile="workloads",
    ),
    Mutant(
        "budget-lost",
        "actors/apiserver/writes/budgets.py",
        old="                budget = changed.current\n",
        new="                return\n",
        mistake="An eviction that lost to another server's takes nothing from the budget.",
        profile="workloads",
    ),
    Mutant(
        "evicted-healthy",
        "actors/controllers/policies/disruption.py",
        old=" and not terminating(pod) and name_of(pod) not in waiting for pod in pods)",
        new=" and not terminating(pod) for pod in pods)",
        mistake="A pod whose eviction was granted, and that is not deleted yet, counts as healthy.",
        profile="workloads",
    ),
    Mutant(
        "job-unsettled",
        "actors/controllers/workloads/jobs/controller.py",
        old="        settled = await self.settled(obj)\n",
        new="        settled = True\n",
        mistake="A job makes pods although its informer does not show those that it made before.",
        profile="workloads",
    ),
    Mutant(
        "job-freed-first",
        "actors/controllers/workloads/jobs/controller.py",
        old="        obj = await self.write_status(obj, decided.status)\n",
        new="""\
        for pod in decided.account.release:
            await self._free(pod)
        obj = await self.write_status(obj, decided.status)
""",
        mistake="A pod of a job loses its finalizer before it is counted.",
        profile="workloads",
    ),
    Mutant(
        "rollout-unready",
        "actors/controllers/workloads/replicas/views.py",
        old='available=int(status.get("availableReplicas") or 0)',
        new='available=int(status.get("replicas") or 0)',
        mistake="A rollout takes pods that are not ready yet for available ones.",
        profile="workloads",
    ),
    Mutant(
        "namespace-ending",
        "actors/apiserver/writes/create.py",
        old='    if namespace.obj["metadata"].get("deletionTimestamp"):\n',
        new="    if False:\n",
        mistake="An object is created in a namespace that is to end, after its kind was emptied.",
        profile="workloads",
    ),
    Mutant(
        "foreground-unblocked",
        "actors/controllers/garbage/collector.py",
        old="        elif node.waiting and not self._graph.blocked(node.uid):\n",
        new="        elif node.waiting:\n",
        mistake="An owner that is deleted in the foreground does not wait for its dependents.",
        profile="workloads",
    ),
    Mutant(
        "owner-unasked",
        "actors/controllers/garbage/collector.py",
        old="        if known is not None or resource is None:\n            return known or OwnerState.LIVING\n",
        new="        if True:\n            return known or OwnerState.ABSENT\n",
        mistake="An owner that no watch has shown yet counts as gone.",
        profile="workloads",
    ),
    Mutant(
        "definition-released",
        "actors/apiserver/custom/controller.py",
        old="                    if await self._delete_objects(stored):\n",
        new="                    if await self._delete_objects(stored) or failures == 0:\n",
        mistake="A definition is released after one pass over its objects: one that was written meanwhile stays.",
        profile="custom",
    ),
    Mutant(
        "version-former",
        "protocols/kinds/custom/serving/resources.py",
        old="        self.changes = definition.generation != 1 or not kind.version.storage\n",
        new="        self.changes = not kind.version.storage\n",
        mistake="Objects that were stored in the former version are shown in that one.",
        profile="custom",
    ),
    Mutant(
        "comparison-former",
        "actors/watchcache/shell/consistency_check.py",
        old=" and cache in self._state.caches",
        new="",
        mistake="The cache of a definition that has gone meanwhile is compared with the store.",
        profile="custom",
        commit="e88a1153",
    ),
)
