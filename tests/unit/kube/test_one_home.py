"""Facts of a pod, of names and of time have one home each: a second definition would come to differ from the first."""

import ast
import re

import pytest

from protocols.kube.resource_names import is_extended, is_native
from tests.support.product import ROOT, product_modules

HOMES = {
    "is_native": "protocols/kube/resource_names.py",
    "is_extended": "protocols/kube/resource_names.py",
    "is_finished": "protocols/kube/pods.py",
    "node_of": "protocols/kube/pods.py",
    "phase_of": "protocols/kube/pods.py",
    "controller_of": "protocols/kube/meta.py",
    "now": "protocols/kube/times.py",
}
FINISHED = {"Succeeded", "Failed"}
DEFINED = re.compile(rf"^(?:async )?def _*(?:{'|'.join(HOMES)})\b", re.MULTILINE)


def defined(tree: ast.Module) -> set[str]:
    functions = (each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name.lstrip("_") for function in functions} & HOMES.keys()


def lists_phases(tree: ast.Module) -> bool:
    """A list of the two phases in which a pod has finished."""
    lists = (node.elts for node in ast.walk(tree) if isinstance(node, ast.Tuple | ast.Set | ast.List))
    return any(
        len(each) == 2 and {one.value for one in each if isinstance(one, ast.Constant)} == FINISHED for each in lists
    )


def test_no_second_definition() -> None:
    found, listing = set[tuple[str, str]](), []
    for path in product_modules():
        text, name = path.read_text(), str(path.relative_to(ROOT))
        if not DEFINED.search(text) and not all(phase in text for phase in FINISHED):
            continue
        tree = ast.parse(text)
        found |= {(function, name) for function in defined(tree)}
        listing += [name] if lists_phases(tree) else []
    assert found == set(HOMES.items())
    assert listing == [HOMES["is_finished"]]


@pytest.mark.parametrize("name", ["cpu", "kubernetes.io/batch", "a.kubernetes.io/gpu", "notkubernetes.io/gpu"])
def test_native(name: str) -> None:
    assert is_native(name)
    assert not is_extended(name)


def test_names_for_quotas_are_nobodys() -> None:
    assert not is_native("requests.example.com/gpu")
    assert not is_extended("requests.example.com/gpu")
