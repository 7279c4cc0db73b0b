"""`nodeplane why` over objects with fields of a wrong type, which another server may have admitted."""

import random
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from supervisor.base.errors import SupervisorError
from supervisor.why.model.types import ClaimEvidence, NodeEvidence, PodEvidence
from supervisor.why.others.claims import diagnose_claim
from supervisor.why.others.nodes import diagnose_node
from supervisor.why.pods.diagnose import diagnose_pod

RECORDED = sorted((Path(__file__).parents[2] / "support" / "why").glob("*.json"))
GARBAGE: tuple[Any, ...] = (None, [], {}, "x", 5, -1, True, [None], [[]], {"a": None}, ["x"])
TRIES = 40


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container of a JSON value with each key of it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield value, key
        yield from places(item)


def judge(found: Any) -> Any:
    if isinstance(found, PodEvidence):
        return diagnose_pod(found)
    return diagnose_claim(found) if isinstance(found, ClaimEvidence) else diagnose_node(found)


def evidence(path: Path) -> PodEvidence | ClaimEvidence | NodeEvidence | None:
    kind = path.stem.partition("-")[0]
    if kind in ("plugin", "driver", "device") and path.stem != "plugin-gone":
        return None
    types: dict[str, Any] = {"claim": ClaimEvidence, "node": NodeEvidence}
    found: PodEvidence | ClaimEvidence | NodeEvidence = msgspec.json.decode(
        path.read_bytes(), type=types.get(kind, PodEvidence)
    )
    return found


@pytest.mark.parametrize("path", [path for path in RECORDED if evidence(path)], ids=lambda path: path.stem)
def test_field_of_a_wrong_type_is_no_traceback(path: Path) -> None:
    dice = random.Random(path.stem)
    for _ in range(TRIES):
        found = evidence(path)
        obj = getattr(found, "pod", None) or getattr(found, "claim", None) or getattr(found, "node", None)
        for _ in range(dice.randint(1, 3)):
            holder, key = dice.choice(list(places(obj)) or [({}, "x")])
            holder[key] = deepcopy(dice.choice(GARBAGE))  # it may be changed itself next
        with suppress(SupervisorError):
            assert judge(found).state
