"""Which children a plane has, and in which order."""

import pytest

from supervisor.base.errors import UsageError
from supervisor.base.groups import GROUPS, NODE, WATCHER, PlaneShape, children


def names(shape: PlaneShape) -> list[str]:
    return [spec.instance for spec in children(shape)]


def test_children_whole_plane_are_in_start_order() -> None:
    assert names(PlaneShape(watchers=2)) == [
        *("store", "watchcache", "apiserver-0", "apiserver-1", "controllers", "scheduler"),
        *("runtime", "cri", "pleg", "devices", "podworker", "health", "frontdoor"),
    ]


def test_children_external_parts_are_left_out() -> None:
    assert "store" not in names(PlaneShape(store_embedded=False))
    assert names(PlaneShape(groups=(NODE,), runtime_embedded=False))[0] == "cri"


def test_children_later_watcher_line_numbers_on() -> None:
    assert names(PlaneShape(groups=(WATCHER,), watchers=1, first_watcher=2)) == ["apiserver-2"]


def test_children_modules_are_not_imported() -> None:
    assert {spec.module for spec in children(PlaneShape())} >= {"actors.store.actor", "actors.apiserver.actor"}
    assert {spec.group for spec in children(PlaneShape())} == set(GROUPS)


@pytest.mark.parametrize("shape", [PlaneShape(watchers=0), PlaneShape(watchers=65), PlaneShape(groups=("nod",))])
def test_children_impossible_shape_is_usage_error(shape: PlaneShape) -> None:
    with pytest.raises(UsageError, match="use"):
        children(shape)


def test_exporter_runs_in_the_group_that_the_shape_names() -> None:
    assert "otlp" not in names(PlaneShape())
    assert names(PlaneShape(otlp="control")).count("otlp") == 1
    assert "otlp" in names(PlaneShape(groups=(NODE,), otlp=NODE))
    assert "otlp" not in names(PlaneShape(groups=(NODE,), otlp="control"))


def test_recorder_is_the_last_to_start_and_the_first_to_end_if_there_is_a_file() -> None:
    assert "recorder" not in names(PlaneShape())
    assert names(PlaneShape(nodes=3, recorded=True))[-1] == "recorder"
    assert "recorder" not in names(PlaneShape(groups=("control",), recorded=True))
