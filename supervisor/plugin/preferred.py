"""Which of the free devices a plugin may say go well together. Pure."""

from collections.abc import Mapping, Sequence

from supervisor.plugin.script import Strategy

FOREIGN = "no-such-device"


def prefer(
    strategy: Strategy,
    available: Sequence[str],
    included: Sequence[str],
    size: int,
    numa: Mapping[str, tuple[int, ...]],
) -> list[str]:
    """`size` ids with all of `included`; `few` gives one too few, `foreign` gives some that do not exist."""
    rest = [id for id in available if id not in set(included)]
    ordered = [*included, *_ordered(strategy, rest, numa)]
    if strategy == "foreign":
        return [f"{FOREIGN}-{at}" for at in range(size)]
    return ordered[: size - 1] if strategy == "few" else ordered[:size]


def _ordered(strategy: Strategy, ids: list[str], numa: Mapping[str, tuple[int, ...]]) -> list[str]:
    if strategy == "last":
        return ids[::-1]
    nodes: dict[tuple[int, ...], list[str]] = {}
    for id in ids:
        nodes.setdefault(numa.get(id, ()), []).append(id)
    if strategy == "packed":  # the node with most free devices first
        return [id for node in sorted(nodes, key=lambda node: (-len(nodes[node]), node)) for id in nodes[node]]
    if strategy == "spread":  # one of each node in turn
        turns = max(map(len, nodes.values()), default=0)
        return [nodes[node][turn] for turn in range(turns) for node in sorted(nodes) if turn < len(nodes[node])]
    return ids
