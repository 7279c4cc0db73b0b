"""Scripts of bad days: what they may say, when steps are due, and what their draws hit."""

import json
import re
import shlex
from argparse import ArgumentParser
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.fleet.faults.choice import choose_devices, choose_nodes, draws
from actors.fleet.faults.flags import add_orders, fault_flags, fault_of
from actors.fleet.faults.script import Fault, Script, Step, read_bad_day, timeline
from protocols.process.scripts import ScriptInvalid, Seconds, parse_script

PAGES = Path(__file__).parents[3] / "docs" / "reference"
PAGE = (PAGES / "fleet-faults.md").read_text()
SILENT = "node: silent"


def script(text: str) -> Script:
    return parse_script("day.yaml", text.encode(), Script)


def due(text: str, most: int = 20) -> list[tuple[float, int, int]]:
    return [(round(each.at, 3), each.number, each.times) for each in islice(timeline(script(text)), most)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{}", "a fault has one of health, state, node, crash, slices; this one has none"),
        ("{node: silent, crash: 10%}", "this one has node and crash"),
        ("{health: Unhealthy}", "health needs a plugin or a driver, and not both"),
        ("{health: Unhealthy, plugin: a/b, driver: c}", "and not both"),
        ("{health: Unknown, plugin: a/b}", "plugins report Healthy or Unhealthy"),
        ("{health: Broken, driver: a}", "unknown word 'Broken' at health"),
        ("{node: silent, driver: a}", "driver goes with health or state or slices, not with node"),
        ("{node: silent, message: a}", "message goes with health"),
        ("{crash: 10%, lasts: 3s}", "lasts goes with health or state or node"),
        ("{node: back, lasts: 3s}", "node: back cannot be mended"),
        ("{node: silent, share: 10}", "Expected a text, got `int` at share"),
        ("{node: silent, share: '10'}", "'10' is no share; write a part of 100%"),
        ("{node: silent, share: 0%}", "'0%' is no share"),
        ("{crash: 101%}", "'101%' is no share"),
        ("{health: Healthy, driver: a, devices: 1e1%}", "'1e1%' is no share"),
        ("{health: Healthy, driver: a, devices: 0}", "count and devices must be 1 or more"),
        ("{node: silent, share: 10%, count: 1}", "a share or a count"),
        ("{crash: 10%, exitCode: 256}", "exitCode must be 0 to 255"),
        ("{node: silent, nodes: %s}" % ("a" * 1025), "texts have at most 1024 characters"),
        ("{node: silent, selector: 'a in b'}", "'a in b' selects no labels: found 'b', expected: '('"),
        ("{node: silent, lasts: soon}", "'soon' is no time"),
        ("{node: silent, who: me}", "unknown key `who`"),
    ],
)
def test_fault_that_cannot_be_is_an_error_of_one_line(text: str, error: str) -> None:
    with pytest.raises(ScriptInvalid) as found:
        parse_script("fault", text.encode(), Fault)
    assert error in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("steps: []", "a script has 1 to 1000 steps"),
        ("steps: [{at: 1s, node: silent, every: 10ms}]", "every must be 0.1 s or more at steps[0]"),
        ("steps: [{at: 1s, node: silent, until: 3s}]", "until goes with every"),
        ("steps: [{at: 5s, node: silent, every: 1s, until: 3s}]", "no earlier than at"),
        ("{repeat: 3s, steps: [{at: 3s, node: silent}]}", "repeat must be later than the last step, 3 s"),
        ("{repeat: 10ms, steps: [{at: 0s, node: silent}]}", "repeat must be later"),
    ],
)
def test_script_that_cannot_be_played_is_an_error(text: str, error: str) -> None:
    with pytest.raises(ScriptInvalid, match=re.escape(error)):
        script(text)


def test_steps_come_in_order_of_time() -> None:
    assert due("steps: [{at: 5s, node: back}, {at: 1s, node: silent}]") == [(1, 1, 0), (5, 0, 0)]


def test_step_comes_again_until_its_end() -> None:
    text = "steps: [{at: 1s, node: silent, every: 500ms, until: 2s}, {at: 1.7s, node: back}]"
    assert due(text) == [(1, 0, 0), (1.5, 0, 1), (1.7, 1, 0), (2, 0, 2)]


def test_script_starts_again_and_counts_on() -> None:
    text = "{repeat: 10s, steps: [{at: 2s, node: silent, every: 4s}]}"
    assert due(text, 5) == [(2, 0, 0), (6, 0, 1), (12, 0, 2), (16, 0, 3), (22, 0, 4)]


def test_step_without_an_end_goes_on() -> None:
    assert due("steps: [{at: 0s, node: silent, every: 1s}]")[-1] == (19, 0, 19)


def test_end_of_a_fault_is_its_opposite() -> None:
    broken = Fault(driver="d", health="Unhealthy", message="hot", lasts=Seconds(3), share="10%")
    assert broken.end == Fault(driver="d", health="Healthy")
    assert Fault(plugin="a/b", state="gone").end == Fault(plugin="a/b", state="back")
    assert Fault(node="silent").end == Fault(node="back")


def test_words_are_what_a_script_has() -> None:
    step = Step(at=Seconds(3), crash="10%", exit_code=3, nodes="a*")
    assert step.words == {"crash": "10%", "exitCode": 3, "nodes": "a*"}
    assert Fault(node="silent", lasts=Seconds(3)).words == {"node": "silent", "lasts": 3.0}


def test_every_field_is_a_flag() -> None:
    assert [flag.key for flag in fault_flags().values()] == list(Fault.__struct_encode_fields__)


# draws

NODES = {f"gpu-{n}": "gpu" for n in range(60)} | {f"cpu-{n}": "cpu" for n in range(40)}
shares = st.one_of(st.just("100%"), st.integers(1, 99).map(lambda n: f"{n}%"), st.just("0.1%"))


@given(share=shares, seed=st.integers(0, 2**32), pattern=st.sampled_from(["*", "gpu-*", "cpu-1*", "none"]))
def test_share_of_nodes_is_within_one_and_the_same_for_a_seed(share: str, seed: int, pattern: str) -> None:
    fault = Fault(node="silent", nodes=pattern, share=share)
    hit = choose_nodes(fault, NODES, draws(seed, "step 0", 0))
    of = {"*": 100, "gpu-*": 60, "cpu-1*": 11, "none": 0}[pattern]
    assert abs(len(hit) - of * float(share[:-1]) / 100) < 1
    assert hit == choose_nodes(fault, NODES, draws(seed, "step 0", 0))
    assert len(set(hit)) == len(hit)
    assert hit == [name for name in NODES if name in set(hit)]


def test_seeds_and_times_draw_different_nodes() -> None:
    fault = Fault(node="silent", share="10%")
    hits = [
        tuple(choose_nodes(fault, NODES, draws(*key))) for key in [(0, "step 0", 0), (1, "step 0", 0), (0, "step 0", 1)]
    ]
    assert len(set(hits)) == 3


def test_count_and_group_bound_the_nodes() -> None:
    hit = choose_nodes(Fault(node="silent", group="cpu", count=3), NODES, draws(0))
    assert len(hit) == 3
    assert all(name.startswith("cpu-") for name in hit)
    assert len(choose_nodes(Fault(node="silent", nodes="cpu-1*", count=50), NODES, draws(0))) == 11


DEVICES = {f"n{n}": [f"gpu.example.com/n{n}/gpu-{at}" for at in range(8)] for n in range(50)}


def broken(devices: int | str) -> Fault:
    return Fault(driver="gpu.example.com", health="Unhealthy", devices=devices)


@given(share=shares, seed=st.integers(0, 2**32))
def test_share_of_devices_is_of_all_nodes_together(share: str, seed: int) -> None:
    hit = choose_devices(broken(share), DEVICES, draws(seed))
    ids = [id for found in hit.values() for id in found]
    assert abs(len(ids) - 400 * float(share[:-1]) / 100) < 1
    assert len(set(ids)) == len(ids)
    assert all(set(found) <= set(DEVICES[node]) for node, found in hit.items())


def test_small_share_is_right_on_average() -> None:
    hits = [sum(map(len, choose_devices(broken("0.1%"), DEVICES, draws(0, n)).values())) for n in range(1000)]
    assert set(hits) == {0, 1}
    assert 350 < sum(hits) < 450


@pytest.mark.parametrize(("devices", "of_each"), [("", 8), (2, 2), (20, 8), ("gpu-[01]", 2), ("*/n?/gpu-7", 1)])
def test_devices_of_each_node(devices: int | str, of_each: int) -> None:
    hit = choose_devices(broken(devices), DEVICES, draws(0))
    assert {len(found) for node, found in hit.items() if len(node) == 2} == {of_each}


# the page


@pytest.mark.parametrize(("struct", "title"), [(Script, "A script"), (Step, "Its steps"), (Fault, "A fault")])
def test_reference_page_has_every_field(struct: type[msgspec.Struct], title: str) -> None:
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    inherited = Fault.__struct_encode_fields__ if struct is Step else ()
    own = [name for name in struct.__struct_encode_fields__ if name not in inherited]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(own)


def test_how_to_has_a_script_and_flags_that_are_faults() -> None:
    page = (PAGES.parent / "how-to" / "break-a-fleet.md").read_text()
    assert len(script(page.partition("# rack.yaml\n")[2].partition("```")[0]).steps) == 2
    parser = ArgumentParser()
    add_orders(parser.add_subparsers(dest="order"), "fleet")
    for words in re.findall(r"^\| [^|]+ \| `(--[^`]+)` \|$", page, re.MULTILINE):
        fault = fault_of(parser.parse_args(["fault", *shlex.split(words)]))
        assert parse_script("fault", json.dumps(fault).encode(), Fault)


def test_reference_page_example_is_a_script(tmp_path: Path) -> None:
    (tmp_path / "day.yaml").write_text(PAGE.partition("```yaml\n")[2].partition("```")[0])
    assert {step.action for step in read_bad_day(tmp_path / "day.yaml").steps} == {
        "health",
        "state",
        "node",
        "crash",
        "slices",
    }
