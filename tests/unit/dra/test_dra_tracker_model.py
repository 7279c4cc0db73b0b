"""The tracker against a computation from nothing, over random histories in any order."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.dra.gates import Gates
from protocols.dra.tracker.tracker import Tracker
from protocols.dra.types import DeviceClass, Patch, Slice, TaintRule
from tests.support.dra_objects import a_class, a_patch, a_rule, a_slice, device, naive, taint

DRIVERS, POOLS, DEVICES = ("a.example.com", "b.example.com"), ("p", "q/r"), ("x", "y", "z")
KEYS = ("a.example.com/k", "a.example.com/l", "b.example.com/k", "other.example.com/k")
EXPRESSIONS = (
    'device.driver == "a.example.com"',
    'device.attributes["a.example.com"].k == 1',
    'has(device.attributes["b.example.com"].k)',
    'device.attributes["a.example.com"].exists(n, n == "l")',
    'device.capacity["a.example.com"].k.compareTo(quantity("2")) > 0',
    "1 +",
)
TIMES = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2025-12-31T23:59:59Z")

values = st.sampled_from([None, 1, 2, True, False, "1", "v:1.0.0"])
present = st.sampled_from([1, 2, True, "1", "v:1.0.0"])
taints = st.lists(
    st.builds(
        taint, st.sampled_from("uv"), st.sampled_from(["None", "NoSchedule", "NoExecute"]), st.sampled_from("12")
    ),
    max_size=2,
    unique_by=lambda each: (each["key"], each["effect"]),
)
devices = st.builds(
    lambda name, attrs, amounts, marks: device(name, attrs, amounts, taints=marks),
    st.sampled_from(DEVICES),
    st.dictionaries(st.sampled_from(("k", "l", *KEYS)), present, max_size=4),
    st.dictionaries(st.sampled_from(("k", "a.example.com/k")), st.sampled_from("123"), max_size=2),
    taints,
)
slices = st.builds(
    lambda name, driver, pool, found, generation: a_slice(
        name, *found, driver=driver, pool=pool, generation=generation
    ),
    st.sampled_from("stu"),
    st.sampled_from(DRIVERS),
    st.sampled_from(POOLS),
    st.lists(devices, min_size=1, max_size=4),
    st.integers(1, 3),
)


def maybe(strategy: st.SearchStrategy[Any], nothing: int = 1) -> st.SearchStrategy[Any]:
    """None as often as `nothing` to one."""
    return st.one_of(*[st.none()] * nothing, strategy)


@st.composite
def patches(draw: st.DrawFn) -> Patch:
    filter = {
        "driver": draw(maybe(st.sampled_from(DRIVERS), 2)),
        "pool": draw(maybe(st.sampled_from(POOLS), 3)),
        "device": draw(maybe(st.sampled_from(DEVICES), 2)),
        "deviceClassName": draw(maybe(st.sampled_from("mn"), 4)),
        "selectors": draw(maybe(st.lists(st.sampled_from(EXPRESSIONS), max_size=2), 2)),
    }
    return a_patch(
        draw(st.sampled_from("abcdef")),
        draw(st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=3)),
        draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from("123"), max_size=2)),
        draw(taints),
        created=draw(st.sampled_from(TIMES)),
        generation=draw(st.integers(1, 3)),
        priority=draw(maybe(st.sampled_from([-1, 0, 7]))),
        **{name: value for name, value in filter.items() if value},
    )


selectors = maybe(
    st.fixed_dictionaries(
        {},
        optional={
            "driver": st.sampled_from(DRIVERS),
            "pool": st.sampled_from(POOLS),
            "device": st.sampled_from(DEVICES),
        },
    )
)
rules = st.builds(a_rule, st.sampled_from("jk"), st.builds(taint, st.sampled_from("uvw")), selectors)
classes = st.builds(
    lambda name, found: a_class(name, *found), st.sampled_from("mn"), st.lists(st.sampled_from(EXPRESSIONS), max_size=2)
)
steps = st.one_of(
    slices,
    patches(),
    patches(),
    rules,
    classes,
    st.tuples(st.just("slices"), st.sampled_from("stu")),
    st.tuples(st.just("patches"), st.sampled_from("abcdef")),
    st.tuples(st.just("rules"), st.sampled_from("jk")),
    st.tuples(st.just("classes"), st.sampled_from("mn")),
)


class History:
    """Feeds the tracker, keeps what is there now, and follows the changes that are told."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.tracker = Tracker(gates)
        self.now: dict[str, dict[str, Any]] = {"slices": {}, "patches": {}, "rules": {}, "classes": {}}
        self.told: dict[str, Slice] = {}

    def take(self, step: Any) -> None:
        tracker = self.tracker
        kinds: dict[type, str] = {Slice: "slices", Patch: "patches", TaintRule: "rules", DeviceClass: "classes"}
        puts: dict[str, Callable[[Any], object]] = {
            "slices": tracker.put_slice,
            "patches": tracker.put_patch,
            "rules": tracker.put_rule,
            "classes": tracker.put_class,
        }
        drops = {"slices": tracker.drop_slice, "patches": tracker.drop_patch, "rules": tracker.drop_rule}
        if step == "settle":
            self.settle(None)
        elif step == "step":
            self.settle(1)
        elif isinstance(step, tuple):
            kind, name = step
            self.now[kind].pop(name, None)
            {**drops, "classes": tracker.drop_class}[kind](name)
        else:
            kind = kinds[type(step)]
            self.now[kind][step.name] = step
            puts[kind](step)

    def settle(self, limit: int | None) -> None:
        for old, new in self.tracker.settle(limit):
            name = (new or old).name  # type: ignore[union-attr]  # one of them is there
            assert self.told.get(name) is old
            if new is None:
                del self.told[name]
            else:
                self.told[name] = new
        assert [self.told[name] for name in sorted(self.told)] == list(self.tracker.slices())

    def check(self) -> None:
        while not self.tracker.is_settled:
            self.settle(2)
        now = self.now
        wanted = naive(
            now["slices"].values(), now["patches"].values(), now["rules"].values(), now["classes"], self.gates
        )
        assert {each.name: list(each.devices) for each in self.tracker.slices()} == wanted
        for each in self.tracker.slices():
            published = now["slices"][each.name]
            assert (each.generation, each.pool, each.driver) == (published.generation, published.pool, published.driver)
            for mine, theirs in zip(each.devices, self.tracker.published[each.name].devices, strict=True):
                assert mine is theirs or mine != theirs


gates = st.sampled_from([Gates(), Gates(), Gates(), Gates(attributes=False), Gates(taints=False), Gates(False, False)])
first = st.tuples(slices, slices, patches(), patches(), patches(), classes, rules)
settling = st.sampled_from(["", "settle", "settle", "step"])


@given(first, st.lists(st.tuples(steps, settling), min_size=6, max_size=24), gates)
def test_any_history_ends_where_a_computation_from_nothing_does(
    there: tuple[Any, ...], found: list[Any], on: Gates
) -> None:
    history = History(on)
    for step in there:
        history.take(step)
    for step, settle in found:
        history.take(step)
        if settle:
            history.take(settle)
    history.check()


@settings(max_examples=30)
@given(st.lists(patches(), max_size=8), st.lists(slices, max_size=3), st.randoms())
def test_the_order_of_arrival_does_not_matter(found: list[Patch], there: list[Slice], random: Any) -> None:
    ends = []
    unique = [*{each.name: each for each in found}.values(), *{each.name: each for each in there}.values()]
    for _ in range(2):
        random.shuffle(unique)
        history = History(Gates())
        for step in unique:
            history.take(step)
        history.check()
        ends.append({each.name: each for each in history.tracker.slices()})
    assert ends[0] == ends[1]
