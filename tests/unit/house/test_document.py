"""The reader of pages that are run as tests."""

from pathlib import Path

from tests.support.document import Step, normalized, steps

PAGE = """# Title

    $ kubectl get pods
    NAME   AGE

    b      3s

Text.

    $ kubectl apply -f - <<END
    kind: Pod
    END
    $ true
"""


def test_steps_have_here_documents_and_output(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    assert steps(tmp_path / "page.md") == [
        Step(3, "kubectl get pods", "NAME   AGE\n\nb      3s"),
        Step(10, "kubectl apply -f - <<END\nkind: Pod\nEND", ""),
        Step(13, "true", ""),
    ]


def test_random_names_ages_and_columns_are_any() -> None:
    one = "a-gpu-shwj7   allocated   5s\nclassic-extended-resources-zmcn7  4m2s"
    other = "classic-extended-resources-aaaaa 1h\n a-gpu-12345 allocated 17s"
    assert normalized(one) == normalized(other)
    assert normalized("a-gpu-shwj7 allocated 5s") != normalized("b-gpu-shwj7 allocated 5s")
    assert normalized("5 pods") != normalized("6 pods")
