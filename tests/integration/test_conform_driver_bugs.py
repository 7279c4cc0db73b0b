"""Each behaviour finds the DRA driver with the bug that it is about, as a process, and a correct one passes all."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from supervisor.cli.operate.judging import environment
from supervisor.conform.dra.driver_kubelet import DriverKubelet
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import DraObjects
from supervisor.conform.exchange import ExchangeRecorder
from supervisor.conform.program import CommandLauncher
from supervisor.conform.runner import run_all
from supervisor.conform.scripts import DRA, behaviours
from supervisor.conform.verdict import FAIL, NOT_APPLICABLE, PASS, Result
from supervisor.testing.api import Api
from tests.support.apiserver_plane import Plane
from tests.support.plane import REPO

pytestmark = pytest.mark.heavy
SAMPLE = REPO / "tests" / "support" / "planted_driver.py"
BEHAVIOURS = {behaviour.name: behaviour for behaviour in behaviours(kind=DRA)}
SHORT_S, LONG_S = 4.0, 20.0
NODE = "n1"
USUAL, AT_ONCE = "none", 5

BUGS = {
    "is_a_device_plugin": "plugin-info",
    "names_a_relative_endpoint": "plugin-info",
    "names_versions_only": "versions",
    "prefers_the_old_version": "versions",
    "rejects_its_registration": "registration-status",
    "removes_its_registrar": "registration-status",
    "serves_one_version": "services",
    "has_two_minds": "versions-agree",
    "lists_a_device_twice": "device-names",
    "names_another_node": "node-name",
    "writes_without_end": "slices-stay",
    "gives_the_first_device": "prepare-one",
    "names_no_pool": "prepare-one",
    "answers_by_name": "prepare-one",
    "prepares_once": "prepare-again",
    "counts_preparations": "prepare-again",
    "prepares_the_first_device": "prepare-all",
    "joins_cdi_ids": "prepare-all",
    "reads_the_first_claim": "prepare-claims",
    "fails_the_call": "errors-apart",
    "ignores_the_uid": "wrong-uid",
    "invents_an_allocation": "not-allocated",
    "takes_all_results": "other-drivers",
    "reads_all_configurations": "opaque-config",
    "names_subrequests": "subrequests",
    "has_short_cdi_names": "cdi-ids",
    "writes_no_files": "cdi-files",
    "writes_files_later": "cdi-files",
    "writes_half_a_file": "cdi-files",
    "leaves_cdi_files": "cdi-removed",
    "keeps_devices": "unprepare",
    "answers_no_unprepare": "unprepare",
    "unprepares_what_it_knows": "unprepare-again",
    "asks_the_api_to_unprepare": "unprepare-deleted",
    "rejects_shared_claims": "shared-claim",
    "names_devices_by_the_pod": "shared-claim",
    "cleans_up_after_a_pod": "shared-claim",
    "reads_the_first_pod": "reserved-for",
    "unprepares_for_a_pod_only": "reserved-for",
    "keeps_reserved_claims": "unprepare",
    "shares_state_among_calls": "parallel-calls",
    "forgets_shares": "shares",
    "leaves_out_devices": "health-report",
    "sends_long_messages": "health-report",
    "serves_one_health_version": "health-versions",
    "ends_its_stream": "health-keepalive",
    "cleans_up_at_its_end": "driver-restarts",
    "cleans_up_at_its_start": "driver-restarts",
    "leaves_locks": "driver-killed",
    "leaves_its_socket": "socket-removed",
    "names_devices_by_its_pid": "names-stay",
    "restores_claims_without_files": "cdi-restored",
    "remembers_the_first_allocation": "reallocated",
    "knows_claims_by_name": "unprepare-uid",
    "forgets_claims_at_its_end": "unprepare-restarted",
    "prepares_what_does_not_exist": "unknown-device",
    "ignores_the_pool": "unknown-device",
    "names_its_pool_alike_on_all_nodes": "pools-apart",
    "gives_a_device_to_one_claim": "admin-access",
    "gives_each_device_all_requests": "requests-apart",
    "swaps_cdi_ids": "requests-apart",
    "writes_one_file_for_all_claims": "cdi-apart",
    "writes_the_last_device_only": "cdi-files",
    "writes_a_variable_without_a_value": "cdi-valid",
    "writes_no_version": "cdi-valid",
    "looks_for_devices_in_get_info": "info-in-time",
    "clears_the_directories": "others-stay",
    "owns_slices_of_all_nodes": "slices-of-others",
    "reports_another_pool": "health-report",
    "reads_one_namespace": "namespaces",
    "spins_after_a_health_stream": "idle",
    "answers_the_first_device_again": "prepare-again",
    "writes_the_whole_status": "claim-status",
    "names_cdi_devices_by_the_device": "admin-access",
    "writes_files_of_each_process": "driver-restarts",
    "cleans_up_at_each_registration": "kubelet-restarts",
}
"""Bugs of the sample that are found without waiting for what does not come, with the behaviour that finds each."""
SILENT = {
    "hides_its_socket": "registers",
    "publishes_nothing": "slices-published",
    "counts_slices_wrongly": "slices-published",
    "publishes_once": "slices-restored",
    "begins_at_generation_one": "slices-edited",
    "leaves_old_slices": "slices-obsolete",
    "attaches_nothing": "binding-conditions",
    "reports_changes_only": "health-keepalive",
    "reports_no_recovery": "health-change",
    "serves_one_kubelet": "kubelet-restarts",
    "gives_up_when_rejected": "registration-rejected",
    "removes_sockets_of_others": "two-instances",
    "ignores_sigterm": "ends-at-sigterm",
    "gives_up_a_call_that_breaks_off": "call-broken-off",
    "repeats_some_devices": "health-keepalive",
    "names_an_endpoint_that_nobody_serves": "plugin-info",
}
"""Bugs by which something does not come."""
CORRECT = {
    "has_a_broken_device": ("health-change",),
    "serves_its_endpoint_later": ("plugin-info", "prepare-one", "health-report", "driver-killed", "two-instances"),
    "names_a_service_of_tomorrow": ("versions", "prepare-one"),
    "names_no_request_where_there_is_one": ("prepare-one", "prepare-all", "subrequests", "requests-apart"),
    "rejects_a_claim_as_it_was_given_back": ("unprepare", "kubelet-restarts", "parallel-calls"),
}
"""Unusual programs of the sample that break no rule, with the behaviours that look at what is unusual."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    plane = Plane()
    try:
        plane.start()
        with Api(plane.settings.layout) as api:  # no controller makes it here
            metadata = {"name": "default", "namespace": "default"}
            api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        yield plane
    finally:
        plane.close()


@pytest.fixture(scope="module")
def verdicts(plane: Plane) -> dict[str, list[Result]]:
    """The results by bug; several programs run at a time, since most of them wait."""
    return asyncio.run(judged_all(plane))


async def judged_all(plane: Plane) -> dict[str, list[Result]]:
    turn = asyncio.Semaphore(AT_ONCE)

    async def judge(bug: str, names: Sequence[str], timeout: float, *features: str) -> list[Result]:
        async with turn:
            return await judged(plane, bug, names, timeout, *features)

    jobs = {USUAL: judge(USUAL, list(BEHAVIOURS), LONG_S, "shared", "conditions")}
    jobs |= {name: judge(name, names, LONG_S) for name, names in CORRECT.items()}
    for bug, name in (SILENT | BUGS).items():
        features = {"shares": ["shared"], "binding-conditions": ["conditions"]}.get(name, [])
        jobs[bug] = judge(bug, [name], SHORT_S if bug in SILENT else LONG_S, *features)
    return dict(zip(jobs, await asyncio.gather(*jobs.values()), strict=True))


async def judged(plane: Plane, bug: str, names: Sequence[str], timeout: float, *features: str) -> list[Result]:
    command = (sys.executable, str(SAMPLE), bug, *features)
    driver = f"{bug.replace('_', '-')}.example.com"
    with TemporaryDirectory(dir="/tmp") as kubelet, TemporaryDirectory() as own, Api(plane.settings.layout) as api:
        of_plane = {"NODEPLANE_ROOT": str(plane.root), "NODE_NAME": NODE, "CDI_ROOT": f"{kubelet}/cdi"}
        variables = {**environment(Path(kubelet), of_plane), "PYTHONPATH": str(REPO), "DRIVER_NAME": driver}
        objects = DraObjects(api, NODE)
        played = DriverKubelet(Path(kubelet), ExchangeRecorder(), timeout, objects, [Path(f"{kubelet}/cdi")])
        stage = DriverStage(played, CommandLauncher(command, variables, Path(own) / "output"), timeout)
        (Path(kubelet) / "cdi").mkdir()
        (Path(kubelet) / "cdi" / "another-vendor.json").write_text("{")
        broken = Path(kubelet) / "broken"
        stage.break_with, stage.mend_with = f"touch {broken}", f"rm {broken}"
        return [result async for result in run_all(stage, [BEHAVIOURS[name] for name in names])]


@pytest.mark.parametrize("bug", [*BUGS, *SILENT])
def test_bug_is_found(verdicts: dict[str, list[Result]], bug: str) -> None:
    [result] = verdicts[bug]
    assert result.verdict == FAIL, result
    assert result.reason
    assert result.advice


@pytest.mark.parametrize(
    ("bug", "begin"),
    [
        ("writes_no_files", "no file declares"),  # another vendor's broken file comes after it
        ("removes_sockets_of_others", "at the end of the first instance the second is gone"),
        ("reports_no_recovery", "no report without that UNHEALTHY device came"),
    ],
)
def test_finding_begins_with_what_is_wrong(verdicts: dict[str, list[Result]], bug: str, begin: str) -> None:
    assert verdicts[bug][0].reason.startswith(begin), verdicts[bug]


def test_each_behaviour_has_a_bug_that_it_finds() -> None:
    assert {*BUGS.values(), *SILENT.values()} == BEHAVIOURS.keys()


def test_correct_driver_has_no_finding(verdicts: dict[str, list[Result]]) -> None:
    results = verdicts[USUAL]
    assert {result.name: result.reason for result in results if result.verdict != PASS} == {}


@pytest.mark.parametrize("name", CORRECT)
def test_unusual_driver_has_no_finding(verdicts: dict[str, list[Result]], name: str) -> None:
    assert {result.name: result.reason for result in verdicts[name] if result.verdict != PASS} == {}


async def test_driver_with_a_fixed_socket_is_not_judged_for_two_instances(plane: Plane) -> None:
    [result] = await judged(plane, "shares_its_socket", ["two-instances"], LONG_S)
    assert (result.verdict, "maxSurge" in result.reason) == (NOT_APPLICABLE, True)
