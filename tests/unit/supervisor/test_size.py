"""`nodeplane size`: needs grow with the load, nothing is negative or without bound, and what is no load is refused."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.base.errors import UsageError
from supervisor.cli.main import main
from supervisor.cli.reference import SIZE_PAGE, with_size
from supervisor.size import costs
from supervisor.size.command import amount, percent
from supervisor.size.costs import RATES
from supervisor.size.load import BOUNDS, SizeLoad
from supervisor.size.model import BUSY, api_cores, cores_at, needs
from supervisor.size.needs import SizeNeeds
from tests.support.json_outputs import check_output

GROWING = {
    "nodes": st.integers(1, 20_000),
    "pods": st.integers(1, 1_000_000),
    "watchers": st.integers(100, 100_000),
    "writes": st.floats(1, 5_000),
    "fan_out": st.integers(1, 100),
    "object_bytes": st.integers(500, 20_000),
    "objects": st.integers(0, 1_000_000),
    "devices": st.integers(0, 1_000_000),
    "patches": st.floats(0, 1),
    "placed": st.floats(0, 500),
    "compaction_interval": st.floats(1, 3_600),
}
FIXED = {"members": st.sampled_from([0, 1, 3, 5]), "cores": st.integers(1, 64), "speed": st.floats(0.5, 4)}
EXAMPLE = ("--nodes", "5000", "--pods", "150000", "--watchers", "20000", "--writes", "1500")


def load_of(**changes: Any) -> SizeLoad:
    return SizeLoad(**{"nodes": 100, "pods": 3_000, "watchers": 500, "writes": 50.0, **changes})


def carried(load: SizeLoad) -> SizeNeeds | None:
    """The needs, or None for a load that no number of processes carries."""
    try:
        return needs(load)
    except UsageError:
        return None


def figures(found: SizeNeeds) -> dict[str, float]:
    plain = ("machines", "api_processes", "cores", "memory", "disk", "disk_bytes_per_second", "fsyncs_per_second")
    flows = {flow.name: flow.bytes_per_second for flow in found.network}
    processes = {
        f"{process.name} {name}": getattr(process, name) for process in found.processes for name in ("count", "cores")
    }
    return {name: getattr(found, name) for name in plain} | flows | processes


@given(st.fixed_dictionaries({**GROWING, **FIXED}), st.sampled_from(sorted(GROWING)), st.data())
def test_needs_grow_with_each_part_of_the_load(made: dict[str, Any], grown: str, data: st.DataObject) -> None:
    more = data.draw(GROWING[grown].filter(lambda value: value >= made[grown]))
    least, most = carried(load_of(**made)), carried(load_of(**{**made, grown: more}))
    assert least is not None or most is None
    if least is not None and most is not None:
        before, after = figures(least), figures(most)
        assert [name for name, value in before.items() if after[name] < value * (1 - 1e-9)] == []


@given(st.fixed_dictionaries({**GROWING, **FIXED}))
def test_needs_are_finite_and_not_negative(made: dict[str, Any]) -> None:
    if (found := carried(load_of(**made))) is not None:
        shares = [limit.share for limit in found.limits]
        memory = [process.memory_each for process in found.processes]
        assert all(math.isfinite(value) and value >= 0 for value in (*figures(found).values(), *shares, *memory))
        assert shares == sorted(shares, reverse=True)
        assert found.fits == (shares[0] <= 1)


@given(st.fixed_dictionaries({**GROWING, **FIXED}))
def test_no_api_process_is_busier_than_it_may_be(made: dict[str, Any]) -> None:
    load = load_of(**made)
    if (found := carried(load)) is not None:
        assert api_cores(load, found.api_processes) <= BUSY
        fewer = found.api_processes - 1
        assert fewer == 0 or api_cores(load, fewer) > BUSY or load.watchers > fewer * 5000


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("beyond", ["below", "above", "nan"])
def test_value_beyond_its_bounds_is_refused_in_one_line(name: str, beyond: str) -> None:
    least, most = BOUNDS[name]
    value = {"below": least - 1 if least >= 1 else -1, "above": most * 2, "nan": math.nan}[beyond]
    with pytest.raises(UsageError, match=rf"^--{name.replace('_', '-')} \S+: use [^\n]+$"):
        needs(load_of(**{name: value}))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"members": 2}, "--members 2: use one of 0, 1, 3, 5, 7; 0 is the embedded store"),
        ({"watchers": 5}, "--fan-out 10, the default, is more than --watchers 5; use at most that"),
        ({"watchers": 5, "fan_out": 6}, "--fan-out 6 is more than --watchers 5; use at most that"),
        ({"writes": 900_000.0}, "no number of API processes carries 900,010 writes/s: each applies every write"),
        ({"watchers": 90_000_000}, "90,000,000 watches need 18,000 API processes, more than 10,000"),
    ],
)
def test_load_that_nothing_carries_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as error:
        needs(load_of(**changes))
    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


def test_faster_core_needs_fewer_cores() -> None:
    assert needs(load_of(speed=2.0)).cores == pytest.approx(needs(load_of(speed=1.0)).cores / 2)


def test_embedded_store_is_one_machine_without_etcd() -> None:
    found = needs(load_of(members=0))
    assert (found.machines, found.etcd_members) == (1, 0)
    assert {process.name: process.count for process in found.processes}["store"] == 1


@pytest.mark.parametrize("name", costs.CURVES)
def test_measured_writes_get_cheaper_with_their_rate(name: str) -> None:
    us = costs.CURVES[name].us
    assert 2 <= len(us) <= len(RATES)
    assert list(us) == sorted(us, reverse=True)


def test_batches_never_make_a_higher_rate_need_less() -> None:
    curve = costs.Curve((400.0, 100.0), "")
    assert [cores_at(curve, rate) for rate in (50.0, 100.0, 200.0)] == pytest.approx([0.02, 0.02, 0.04])


def test_cores_between_and_beyond_the_measured_rates() -> None:
    curve = costs.Curve((400.0, 300.0, 200.0), "")
    assert [cores_at(curve, rate) for rate in (25.0, 75.0, 400.0)] == pytest.approx([0.01, 0.025, 0.08])


def test_command_prints_what_its_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", *EXAMPLE, "--compaction-interval", "150"]) == 0
    assert capsys.readouterr().out in SIZE_PAGE.read_text()


def test_command_ends_with_1_if_the_load_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", *EXAMPLE]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("does not fit: database: 8 GiB has 1")


def test_command_refuses_zero_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", *EXAMPLE, "--nodes", "0"]) == 2
    assert capsys.readouterr().err == "nodeplane: --nodes 0: use 1 to 1,000,000\n"


def test_json_of_the_command_fits_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["size", *EXAMPLE, "-o", "json"]
    main(command)
    printed = capsys.readouterr().out
    check_output(command, printed)
    assert msgspec.json.decode(printed, type=SizeNeeds).api_processes > 1


def test_page_has_flags_and_costs_as_declared() -> None:
    assert SIZE_PAGE.read_text() == with_size(SIZE_PAGE.read_text())


def test_amounts_have_three_digits() -> None:
    assert [amount(size) for size in (780, 4_400, 999_600, 1.85e9, 2.5e12)] == [
        "780 B",
        "4.4 kB",
        "1 MB",
        "1.85 GB",
        "2,500 GB",
    ]
    assert [percent(share) for share in (0.0012, 0.49, 1.31)] == ["0.12 %", "49 %", "131 %"]
