"""The evidence of a failed test: what its node and its processes did."""

from collections.abc import Sequence

from pytest_nodeplane.node import Node
from pytest_nodeplane.processes import Process
from supervisor.testing.evidence import evidence, folded_lines, log_tails
from supervisor.trace.collect import PodTrace
from supervisor.trace.draw import parts, plain, title

MAX_SECTION, MAX_TRACES = 20_000, 4
"""Characters of one section of a report, and pods whose trace it has."""


def sections(node: Node, first: bool = True) -> list[tuple[str, str]]:
    """Return titles with texts, those that are empty left out; titles of further nodes have their names."""
    of = "nodeplane" if first else f"nodeplane {node.plane.layout.root.name}"
    return [(f"{of} {name}", end_of(text)) for name, text in seen(node, first).items() if text.strip()]


def end_of(text: str) -> str:
    """Return the last MAX_SECTION characters, from the begin of a line."""
    if len(text) <= MAX_SECTION:
        return text
    cut = text[-MAX_SECTION:]
    return cut.partition("\n")[2] or cut


def outputs(processes: Sequence[Process]) -> dict[str, str]:
    """Return what programs wrote, by their names; equal names are numbered."""
    texts: dict[str, str] = {}
    for process in processes:
        name = f"output of {process.name}"
        number = sum(known == name or known.startswith(f"{name} (") for known in texts) + 1
        texts[name if number == 1 else f"{name} ({number})"] = process.output
    return texts


def seen(node: Node, first: bool = True) -> dict[str, str]:
    """Return what is known of the node, as texts by name; of the namespace only with the first one."""
    texts = outputs(node.processes)
    try:
        if first:
            texts["events of the test"] = "\n".join(folded_lines(node.events()))
            texts |= {f"trace of {name}": trace_text(node.trace(name)) for name in pods_of(node)[:MAX_TRACES]}
        diagnostics = {**evidence(node.plane.layout), **log_tails(node.plane.layout.logs)}
        texts |= {name: text for name, text in diagnostics.items() if first or name != "events"}
    except Exception as error:  # a plane that is broken must not hide why the test failed
        texts["error"] = f"the plane cannot be asked: {error}"
    return texts


def pods_of(node: Node) -> list[str]:
    return [str(pod["metadata"]["name"]) for pod in node.objects("v1", "Pod")]


def trace_text(trace: PodTrace) -> str:
    return "\n\n".join(str(piece) for part in parts(trace.rows) for piece in (title(part), plain(part)))
