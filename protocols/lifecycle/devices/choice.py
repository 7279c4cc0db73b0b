"""Which of the available devices a container gets. Pure and deterministic."""

from collections.abc import Iterable, Mapping, Sequence


def choose(need: int, available: Sequence[str], numa: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return `need` of the `available` ids (at least that many) on few NUMA nodes.

    The smallest node that has all of them wins, else the fullest nodes are used first; within a node by id.
    """
    if not numa:
        return sorted(available)[:need]
    groups = _by_node(available, numa)
    fitting = [node for node, ids in groups.items() if len(ids) >= need]
    if fitting:
        best = min(fitting, key=lambda node: (len(groups[node]), node))
        return groups[best][:need]
    order = sorted(groups, key=lambda node: (-len(groups[node]), node))
    return [id for node in order for id in groups[node]][:need]


def _by_node(ids: Iterable[str], numa: Mapping[str, tuple[int, ...]]) -> dict[int, list[str]]:
    """Group ids by NUMA node, -1 without topology. A device on several nodes counts for its first."""
    groups: dict[int, list[str]] = {}
    for id in sorted(ids):
        nodes = numa.get(id, ())
        groups.setdefault(nodes[0] if nodes else -1, []).append(id)
    return groups


def follow_preference(preferred: Iterable[str], taken: Iterable[str], need: int, available: Sequence[str]) -> list[str]:
    """Return at most `need` of the plugin's preferred ids, skipping unknown, taken and repeated ones."""
    free = set(available) - set(taken)
    kept: list[str] = []
    for id in preferred:
        if id in free and len(kept) < need:
            kept.append(id)
            free.discard(id)
    return kept
