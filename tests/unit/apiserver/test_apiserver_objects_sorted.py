"""The replica's objects are in storage order at every look, however they came."""

from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.objects import FEW, MANY, Objects

KEYS = st.sampled_from([f"{namespace}/{name}" for namespace in ("a", "b", "b-c") for name in range(12)])
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS),
    st.tuples(st.just("put"), KEYS),
    st.tuples(st.just("remove"), KEYS),
    st.tuples(st.just("look"), KEYS),
)


def stored(key: str, rv: int = 1) -> Stored:
    return Stored(key, rv, b"{}")


@given(st.lists(STEPS, max_size=80))
def test_like_a_dict_that_is_sorted_for_each_list(steps: list[tuple[str, str]]) -> None:
    objects, model = Objects(), dict[str, Stored]()
    for number, (step, key) in enumerate(steps):
        if step == "put":
            model[key] = stored(key, number)
            objects.put(model[key])
        elif step == "remove":
            assert objects.remove(key) is model.pop(key, None)
        else:
            prefix = key.partition("/")[0] + "/"
            expected = [model[each] for each in sorted(model) if each.startswith(prefix) and each >= key]
            assert list(objects.below(prefix, key)) == expected
            below = [model[each] for each in sorted(model) if each.startswith(prefix)]
            assert objects.first(prefix, 3) == (below[:3], max(0, len(below) - 3))
            assert objects.first("", len(model)) == ([model[each] for each in sorted(model)], 0)
            name = key.removeprefix(prefix)
            assert objects.selected(prefix, name) == [model[each] for each in (key,) if each in model]
            assert objects.selected("", name) == [model[each] for each in sorted(model) if each.endswith(f"/{name}")]
        assert len(objects) == len(model)
    assert list(objects.below("")) == [model[key] for key in sorted(model)]
    assert objects.keys() == sorted(model)


def test_many_that_came_unseen_are_in_order_too() -> None:
    objects, count = Objects(), 2 * MANY + FEW + 1
    for number in range(count):
        objects.put(stored(f"a/{number * 7919 % count}"))
    assert objects.keys() == sorted(f"a/{number}" for number in range(count))
    objects.replace({key: stored(key) for key in ("b/2", "b/1")})
    assert objects.keys() == ["b/1", "b/2"]
