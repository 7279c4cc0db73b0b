"""Facts of a pod, of names and of time have one home each: a second definition would come to differ from the first."""

import ast
from pathlib import Path

import pytest

from protocols.kube.resource_names import is_extended, is_native

ROOT = Path(__file__).parents[3]
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


def modules() -> list[Path]:
    return [path for top in ("actors", "protocols", "supervisor") for path in (ROOT / top).rglob("*.py")]


def defined(tree: ast.Module) -> list[str]:
    return [each.name.lstrip("_") for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


def lists_phases(tree: ast.Module) -> bool:
    """A list of the two phases in which a pod has finished."""
    lists = (each.elts for each in ast.walk(tree) if isinstance(each, ast.Tuple | ast.Set | ast.List))
    return any(
        len(each) == 2 and {one.value for one in each if isinstance(one, ast.Constant)} == FINISHED for each in lists
    )


def test_no_second_definition() -> None:
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in modules()}
    found = {(name, path) for path, tree in trees.items() for name in defined(tree) if name in HOMES}
    assert found == set(HOMES.items())
    assert [path for path, tree in trees.items() if lists_phases(tree)] == [HOMES["is_finished"]]


@pytest.mark.parametrize("name", ["cpu", "kubernetes.io/batch", "a.kubernetes.io/gpu", "notkubernetes.io/gpu"])
def test_native(name: str) -> None:
    assert is_native(name)
    assert not is_extended(name)


def test_names_for_quotas_are_nobodys() -> None:
    assert not is_native("requests.example.com/gpu")
    assert not is_extended("requests.example.com/gpu")
