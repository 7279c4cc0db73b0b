"""Objects at an earlier revision: the window's changes undone, whatever happened since."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.errors import Expired
from actors.apiserver.api.request.query import EXACT, ListOptions
from actors.apiserver.api.request.selection import selection
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.stored import Stored
from actors.apiserver.reads.reader import LATEST, TOKEN_SECONDS, Reader, decode_token, encode_token, objects_at
from actors.apiserver.replica.objects import Objects
from actors.apiserver.replica.window import Change, Window
from actors.apiserver.storage.storage import Compacted
from actors.apiserver.table import TABLE

KEYS = ["a/1", "a/2", "b/1", "b/2"]
STEPS = st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=30)


@given(STEPS, st.integers(1, 40), st.sampled_from(["", "a/", "b/"]), st.sampled_from(["", "a/2", "b/1\0"]))
def test_each_revision_of_the_window_is_what_it_was(
    steps: list[tuple[str, bool]], capacity: int, prefix: str, start: str
) -> None:
    objects, window = Objects(), Window(lowest=capacity, highest=capacity)
    states: dict[int, list[tuple[str, int]]] = {0: []}
    for rv, (key, put) in enumerate(steps, 1):
        before, after = objects.get(key), Stored(key, rv, b"{}") if put else None
        if before is not None or after is not None:
            if after is not None:
                objects.put(after)
            else:
                objects.remove(key)
            window.append(Change(key, rv, before, after))
        states[rv] = [(stored.key, stored.rv) for stored in objects.below(prefix, start)]
    for rv, wanted in states.items():
        found = objects_at(objects, window, rv, prefix, start)
        assert (found is None) == (rv < window.floor)
        assert found is None or [(stored.key, stored.rv) for stored in found] == wanted


MAPS = TABLE.of("configmaps")


class CompactedStorage:
    async def page(self, *arguments: Any) -> Any:
        raise Compacted("")


def reader() -> Reader:
    """Three objects of revisions 6, 7 and 9 in a window from 5 on; what was there before 9 was of revision 8."""
    objects, window = Objects(), Window(floor=5)
    older = Stored("ns/c", 8, b"{}")
    steps = [("ns/a", 6, None), ("ns/b", 7, None), ("ns/c", 8, None), ("ns/c", 9, older)]
    for key, rv, before in steps:
        after = older if rv == 8 else Stored(key, rv, b"{}")
        objects.put(after)
        window.append(Change(key, rv, before, after))
    corrupt = SimpleNamespace(below=lambda prefix: [])
    replica: Any = SimpleNamespace(filled=True, mark=9, objects=objects, window=window, corrupt=corrupt)
    meter: Any = SimpleNamespace(from_replica=lambda *found: None, waited=lambda *found: None)
    storage: Any = CompactedStorage()
    return Reader(storage, {MAPS.store: replica}, meter, efficient=False)


async def listed(options: ListOptions) -> tuple[list[int], str]:
    target = Target(MAPS, "list", "ns")
    found = await reader().list(target, options, selection(MAPS, "", ""))
    return [stored.rv for stored in found.objects], found.resume


async def test_lists_of_compacted_revisions_come_from_the_window() -> None:
    assert (await listed(ListOptions(version=8, match=EXACT)))[0] == [6, 7, 8]
    assert (await listed(ListOptions(version=6, match=EXACT)))[0] == [6]
    first, resume = await listed(ListOptions(resume=encode_token(8, "ns/a\0"), limit=1))
    assert first == [7]
    assert (decode_token(resume).rv, decode_token(resume).start) == (8, "ns/b\0")
    assert (await listed(ListOptions(resume=resume)))[0] == [8]


async def test_continue_token_of_another_namespace_continues_after_the_same_name() -> None:
    first, resume = await listed(ListOptions(resume=encode_token(8, "other/a\0"), limit=1))
    assert first == [7]
    assert decode_token(resume).start == "ns/b\0"


async def test_continue_token_ends_by_time_though_its_revision_is_there() -> None:
    began = int(time.time()) - TOKEN_SECONDS
    _, resume = await listed(ListOptions(resume=encode_token(8, "ns/a\0", began + 60), limit=1))
    assert decode_token(resume).t == began + 60
    with pytest.raises(Expired) as expired:
        await listed(ListOptions(resume=encode_token(8, "ns/a\0", began - 60)))
    token = decode_token(expired.value.status["metadata"]["continue"])
    assert (token.rv, token.start) == (LATEST, "ns/a\0")
    assert "use the continue token in this response" in expired.value.status["message"]


async def test_lists_before_the_window_are_expired_and_may_go_on_from_the_newest() -> None:
    with pytest.raises(Expired):
        await listed(ListOptions(version=4, match=EXACT))
    with pytest.raises(Expired) as expired:
        await listed(ListOptions(resume=encode_token(4, "ns/a\0")))
    assert decode_token(expired.value.status["metadata"]["continue"]).start == "ns/a\0"
