"""Topics by which pods with rules about other pods wait for pods that are placed.

A pod that leaves, is relabelled or begins to terminate is room for everybody; only affinity and topology spread can
also be helped by one that comes.
"""

from actors.scheduler.model.queue import Topics
from actors.scheduler.model.views import PodView

ANYWHERE = "pods"
"""A pod was placed, in whatever namespace."""


def placed_topics(namespace: str) -> tuple[str, ...]:
    """Return the topics of a pod that was placed."""
    return (f"{ANYWHERE}/{namespace}", ANYWHERE)


def waits_for(pod: PodView) -> Topics:
    """Return the topics of the pods whose coming can help this one."""
    topics = {f"{ANYWHERE}/{name}" for term in pod.rules.affinity for name in term.namespaces}
    if any(term.namespace_selector is not None for term in pod.rules.affinity):
        topics.add(ANYWHERE)
    if pod.rules.spread:
        topics.add(f"{ANYWHERE}/{pod.namespace}")
    return frozenset(topics)
