"""Each behaviour finds the plugin with the bug that it is about, as a real process, and a correct one passes all."""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from supervisor.cli.operate.judging import environment
from supervisor.conform.exchange import ExchangeRecorder
from supervisor.conform.kubelet import Kubelet
from supervisor.conform.profiles import GENERIC, PROFILES
from supervisor.conform.program import CommandLauncher
from supervisor.conform.runner import run_all
from supervisor.conform.scripts import behaviours
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import FAIL, NOT_APPLICABLE, PASS, Result
from tests.support.plane import REPO

pytestmark = pytest.mark.heavy

SAMPLE = REPO / "tests" / "support" / "planted_plugin.py"
BEHAVIOURS = {behaviour.name: behaviour for behaviour in behaviours()}
SHORT_S, LONG_S = 4.0, 20.0

BUGS = {
    "has_another_version": "version",
    "has_no_domain": "resource-name",
    "has_another_resource": "profile",
    "names_devices_otherwise": "profile",
    "lists_one_of_its_devices": "profile",
    "registers_a_path": "endpoint",
    "registers_a_missing_socket": "endpoint",
    "has_options_in_register_only": "options",
    "lists_a_device_twice": "device-ids",
    "lists_no_id": "device-ids",
    "has_long_ids": "device-ids",
    "writes_healthy_small": "health-words",
    "has_numa_node_minus_one": "numa",
    "has_an_empty_topology": "numa",
    "ends_its_list": "first-list",
    "sends_lists_without_end": "list-stays-open",
    "reads_the_first_container": "allocate-containers",
    "gives_the_first_device_only": "allocate-all",
    "registers_all_the_time": "list-stays-open",
    "chooses_devices_itself": "allocate-asked",
    "gives_the_next_device": "allocate-asked",
    "spins_after_a_list": "idle",
    "counts_what_is_allocated": "allocate-again",
    "gives_unknown_devices": "allocate-unknown",
    "joins_name_and_value": "environment",
    "mounts_a_relative_path": "mounts",
    "mounts_what_does_not_exist": "mounts",
    "has_no_permissions": "device-nodes",
    "has_wrong_permissions": "device-nodes",
    "names_a_device_node_that_does_not_exist": "device-nodes",
    "has_short_cdi_names": "cdi-names",
    "declares_no_cdi_devices": "cdi-files",
    "declares_cdi_devices_by_number": "cdi-files",
    "forgets_what_must_be_included": "preferred-allocation",
    "prefers_what_is_not_available": "preferred-allocation",
    "prefers_too_few": "preferred-allocation",
    "starts_a_container_once": "pre-start",
    "answers_too_much": "many-devices",
    "shares_state_among_calls": "parallel-calls",
    "ends_without_kubelet": "kubelet-away",
    "leaves_locks": "killed-in-allocate",
    "keeps_its_socket": "plugin-killed",
    "removes_sockets_of_others": "two-instances",
    "names_devices_by_its_pid": "ids-stay",
    "begins_with_an_empty_list": "first-list",
    "lists_more_than_a_message_holds": "first-list",
    "ends_with_its_list": "list-again",
    "writes_no_health": "health-words",
    "sends_changed_devices_only": "health-change",
    "adds_to_its_last_answer": "allocate-asked",
    "gives_all_devices": "allocate-asked",
    "answers_containers_in_reverse": "allocate-containers",
    "gives_the_last_device_only": "allocate-all",
    "gives_all_devices_one_path": "container-paths",
    "writes_short_names_into_annotations": "cdi-names",
    "removes_its_mounts_at_its_end": "answers-stay",
    "has_no_options": "options",
    "fails_to_find_its_options": "options",
    "requires_a_pre_start_that_it_has_not": "pre-start",
    "starts_what_it_has_allocated_itself": "pre-start-restart",
    "prefers_no_odd_numbers": "preferred-allocation",
    "registers_twice": "registers-once",
    "clears_the_directory": "others-stay",
    "spins_without_kubelet": "waits-idle",
    "repeats_register_without_a_pause": "register-rejected",
    "is_found_with_another_version": "version",
    "joins_cdi_names": "cdi-names",
    "names_a_file_as_a_device_node": "device-nodes",
    "declares_no_edits": "cdi-valid",
    "declares_an_unknown_version": "cdi-valid",
    "declares_a_missing_node": "cdi-valid",
    "declares_devices_in_each_process": "answers-stay",
    "removes_its_cdi_file_at_its_end": "answers-stay",
    "repeats_what_must_be_included": "preferred-allocation",
    "knows_a_container_by_the_order_of_its_devices": "pre-start",
    "lists_in_another_order_each_time": "list-stays-open",
    "has_the_number_of_its_bus_as_numa_node": "numa",
}
"""Bugs of the sample that are found without waiting for what does not come, with the behaviour that finds each."""
SILENT = {
    "never_registers": "registers",
    "registers_before_it_serves": "serves-first",
    "lists_changes_only": "first-list",
    "lists_once": "list-again",
    "has_one_thread": "allocate-one",
    "registers_once": "kubelet-restarts",
    "leaves_out_what_is_broken": "health-change",
    "reports_no_recovery": "health-change",
    "drops_changes_for_a_while": "health-flaps",
    "gives_up_without_kubelet": "kubelet-starts-later",
    "starts_slowly_and_gives_up_without_kubelet": "kubelet-starts-later",
    "ignores_a_failed_register": "register-rejected",
    "ignores_sigterm": "ends-at-sigterm",
    "binds_once": "kubelet-restarts",
    "begins_with_healthy_devices": "health-after-restart",
    "wakes_one_list": "health-after-restart",
    "holds_its_lock_until_a_change_is_read": "health-after-restart",
    "never_ends_a_list": "list-often",
}
"""Bugs by which something does not come."""
CORRECT = {
    "has_a_broken_device": ("health-change", "health-after-restart"),
    "rejects_unknown_devices_as_internal": ("allocate-unknown",),
    "names_its_numa_node_twice": ("numa",),
    "gives_one_device_to_a_container": ("pre-start", "allocate-containers", "answers-stay"),
}
"""Unusual programs of the sample that break no rule, with the behaviours that look at what is unusual."""


async def judged(bug: str, names: Sequence[str], timeout: float, devices: int = 3) -> list[Result]:
    command = (sys.executable, str(SAMPLE), bug, str(devices))
    with TemporaryDirectory(dir="/tmp") as kubelet, TemporaryDirectory() as own:  # paths of sockets are short
        variables = {**environment(Path(kubelet), {"CDI_ROOT": f"{kubelet}/cdi"}), "PYTHONPATH": str(REPO)}
        played = Kubelet(Path(kubelet), ExchangeRecorder(), timeout)
        stage = Stage(played, CommandLauncher(command, variables, Path(own) / "output"), timeout, PROFILES[GENERIC])
        broken = Path(kubelet) / "broken"
        stage.break_with, stage.mend_with = f"touch {broken}", f"rm {broken}"
        return [result async for result in run_all(stage, [BEHAVIOURS[name] for name in names])]


@pytest.mark.parametrize("bug", [*BUGS, *SILENT])
async def test_bug_is_found(bug: str) -> None:
    name, timeout = (BUGS[bug], LONG_S) if bug in BUGS else (SILENT[bug], SHORT_S)
    [result] = await judged(bug, [name], timeout, devices=1000 if name == "many-devices" else 3)
    assert result.verdict == FAIL, result
    assert result.reason
    assert result.advice


def test_each_behaviour_has_a_bug_that_it_finds() -> None:
    assert {*BUGS.values(), *SILENT.values()} == BEHAVIOURS.keys()


async def test_correct_plugin_has_no_finding() -> None:
    results = await judged("none", list(BEHAVIOURS), LONG_S, devices=1000)
    assert {result.name: result.reason for result in results if result.verdict != PASS} == {}


@pytest.mark.parametrize("name", CORRECT)
async def test_unusual_plugin_has_no_finding(name: str) -> None:
    results = await judged(name, CORRECT[name], LONG_S)
    assert {result.name: result.reason for result in results if result.verdict != PASS} == {}


async def test_plugin_that_starts_containers_as_slowly_as_kubelet_waits_has_no_finding() -> None:
    [result] = await judged("starts_a_container_slowly", ["pre-start"], SHORT_S)
    assert result.verdict == PASS, result.reason


async def test_plugin_that_kubelets_find_by_its_socket_has_no_finding() -> None:
    names = [name for name in BEHAVIOURS if name not in ("many-devices", "list-often", "idle")]
    results = await judged("is_found_by_the_kubelet", names, LONG_S)
    assert {result.name: result.reason for result in results if result.verdict != PASS} == {}


async def test_finding_of_a_program_that_ended_says_so() -> None:
    [result] = await judged("ends_at_an_unknown_device", ["allocate-unknown"], LONG_S)
    assert (result.verdict, result.reason.endswith("it ended with code 2")) == (FAIL, True), result.reason


async def test_finding_of_a_program_that_was_ended_does_not_say_so() -> None:
    [result] = await judged("removes_its_mounts_at_its_end", ["answers-stay"], LONG_S)
    assert (result.verdict, "ended" in result.reason) == (FAIL, False), result.reason


async def test_plugin_with_a_fixed_socket_is_not_judged_for_two_instances() -> None:
    [result] = await judged("shares_its_socket", ["two-instances"], LONG_S)
    assert (result.verdict, "maxSurge" in result.reason) == (NOT_APPLICABLE, True)


async def test_register_that_is_not_repeated_is_told_as_such() -> None:
    [result] = await judged("ignores_a_failed_register", ["register-rejected"], SHORT_S)
    assert (result.verdict, "did not come again within 4 s" in result.reason) == (FAIL, True), result.reason
    [result] = await judged("repeats_register_without_a_pause", ["register-rejected"], LONG_S)
    assert (result.verdict, "it called Register" in result.reason) == (FAIL, True), result.reason


async def test_device_that_leaves_the_list_as_another_breaks_is_named() -> None:
    [result] = await judged("sends_changed_devices_only", ["health-change"], LONG_S)
    assert result.reason == "gpu-1 of example.com/gpu is no longer listed"
