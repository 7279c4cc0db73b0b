"""For every test: no example of a property has a deadline of its own, a machine may be busy; speed is the bench's.

`make test` tries the same examples each time, so that what it says of a commit it says again; NODEPLANE_FUZZ=1 tries
others each time, and more of them. A test names a number of its own only where an example is expensive.
"""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

FUZZ = bool(os.environ.get("NODEPLANE_FUZZ"))
settings.register_profile("nodeplane", deadline=None, derandomize=not FUZZ, max_examples=500 if FUZZ else 60)
settings.load_profile("nodeplane")

LONGEST = (
    "test_story",
    "test_console",
    "test_pytest_plugin",
    "test_container_image",
    "test_connection_storm",
    "test_large_objects",
    "test_supervisor_tree",
    "test_cri",
    "test_health_story",
    "test_kubernetes_programs",
    "test_podworker_lifecycle",
    "test_own_plane",
    "test_bad_pods",
    "test_api_schema_fuzz",
    "test_api_fuzz",
    "test_lost_node",
    "test_pleg",
    "test_kubectl_session",
    "test_etcd_cluster",
    "test_scripts",
    "test_runtime_lies_plane",
    "test_workloads_plane",
    "test_bad_day",
    "test_kep1904",
    "test_pleg_disruption",
    "test_containerd_plane",
    "test_control_planes",
    "test_distributions",
    "test_store_restored",
    "test_bad_clients",
    "test_schedule_devices_page",
    "test_prometheus",
    "test_test_command",
    "test_dra_plane",
    "test_dra_patched",
    "test_pleg_plane",
    "test_pleg_dialects",
    "test_stall",
    "test_preemption",
    "test_machine",
    "test_systemd",
    "test_podworker_plane",
    "test_plane_bad_start",
    "test_kep1904_gate_off",
    "test_collector",
    "test_kubectl_verbs",
    "test_many_watches",
    "test_killed_plane",
    "test_store_fuzz",
    "test_nodes",
    "test_plane_bad_input",
    "test_charts",
    "test_streaming_plane",
    "test_podworker_parts",
    "test_python_clients",
    "test_apiserver_access",
)
"""Files that take the longest, the longest first: the rest fills the gaps, so that no process is alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONGEST)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what was collected (modules, thousands of items) out of every garbage collection of the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
