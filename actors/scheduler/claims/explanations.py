"""Why the devices of no node suit a pod, in one line for its event: worked out beside scheduling, kept per demand.

Few devices are judged at once. Otherwise the pod is left to `run`, which works in short turns, and is tried again when
the text is known.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from actors.scheduler.claims.device_fit import SELECTIONS, SearchInputs
from actors.scheduler.model.claim_demand import Demand
from actors.scheduler.model.turns import Turns
from actors.scheduler.model.views import NodeView
from actors.scheduler.nodes.node_table import Revision
from protocols.bounded import BoundedMap
from protocols.cel.worker import selections
from protocols.cel.worker.client import WorkerAway
from protocols.cel.worker.selections import SelectorPending
from protocols.dra.allocator.plan import expressions_of
from protocols.dra.allocator.types import Node
from protocols.dra.diagnosis.diagnose import Diagnosis
from protocols.dra.diagnosis.types import Case, one_line
from protocols.dra.types import Device
from protocols.process.tasks import failed

AT_ONCE_STEPS = 8
"""Steps of a diagnosis that a scheduling cycle takes itself: some 5 ms."""
SEARCHED = 2
"""Nodes searched as a whole for one text."""
TURN_S, PAUSE_S = 0.002, 0.004
KEPT_S = 5.0
"""A text is used for so long although devices were taken or freed: each attempt would write another one."""
MAX_TEXTS, MAX_WAITING = 64, 8

Key = tuple[bytes, frozenset[str], tuple[str, ...]]
"""Signature of the demand, nodes, and claims if there are several: the text names them."""
Done = Callable[[], None]


class _Text(msgspec.Struct):
    text: str
    revision: Revision
    """Revision of devices and classes when the text was kept."""
    made: float
    used: bool = True


class Question(NamedTuple):
    """A pod without a node, as the diagnosis of its devices needs it."""

    demand: Demand
    nodes: Sequence[NodeView]
    """Nodes that fit the pod but for its devices."""
    excluded: Mapping[str, list[str]]
    """Reasons of the other nodes."""


class Work(NamedTuple):
    """A diagnosis that a scheduling cycle began and left to `Explanations.run`."""

    key: Key
    question: Question
    done: Done


class Explanations:
    """Texts by demand and nodes; `run` works out the long ones."""

    def __init__(self, inputs: SearchInputs, revision: Callable[[], Revision]) -> None:
        """`revision` returns another one whenever devices or classes changed."""
        self._inputs, self._revision = inputs, revision
        self._texts = BoundedMap[Key, _Text](MAX_TEXTS)
        self._work: asyncio.Queue[Work] = asyncio.Queue()

    def explain(self, question: Question, done: Done) -> str | None:
        """Return the text, or None if `done` is called once it is known.

        If many wait already, an outdated text or none is returned.
        """
        key = _key(question)
        if known := self._known(key):
            known.used = True
            return known.text
        diagnosis = Diagnosis(self._case(question))
        steps = diagnosis.steps()
        with suppress(SelectorPending):
            for _ in range(AT_ONCE_STEPS):
                if next(steps, DONE) is DONE:
                    return self._keep(key, one_line(diagnosis.report), used=True).text
        if self._work.qsize() >= MAX_WAITING:
            outdated = self._texts.get(key)
            return outdated.text if outdated else ""
        self._work.put_nowait(Work(key, question, done))
        return None

    async def run(self) -> None:
        while True:
            work = await self._work.get()
            try:
                if not self._known(work.key):
                    await self._explain(work)
            except Exception as error:  # the pod is reported without a text
                failed("explanation", "", error)
                self._keep(work.key, "", used=False)
            work.done()

    async def _explain(self, work: Work) -> None:
        turns = Turns(TURN_S, PAUSE_S)
        for _ in range(SELECTIONS):
            diagnosis = Diagnosis(self._case(work.question))
            try:
                for _ in diagnosis.steps():
                    await turns.rest_if_due()
            except SelectorPending:
                await self._find(work.question)
            else:
                self._keep(work.key, one_line(diagnosis.report), used=False)
                return
        self._keep(work.key, "", used=False)  # else the pod would be tried, and its devices be judged, without end

    async def _find(self, question: Question) -> None:
        """Have the selectors of a question evaluated for all devices."""
        devices: dict[str, list[Device]] = {}
        for pool in self._inputs.catalog.pools():
            devices.setdefault(pool.id.driver, []).extend(device.spec for device in pool.devices)
        with suppress(WorkerAway):
            await selections.find(expressions_of(question.demand.unallocated, self._inputs.classes), devices)

    def _known(self, key: Key) -> _Text | None:
        """Slices may change without end, so a text that nobody has used yet is good whatever changed since."""
        known = self._texts.get(key)
        if known is None or time.monotonic() > known.made + KEPT_S:
            return None
        return known if known.revision == self._revision() or not known.used else None

    def _case(self, question: Question) -> Case:
        return Case(
            claims=question.demand.unallocated,
            catalog=self._inputs.catalog,
            nodes=tuple(Node(node.name, node.labels) for node in question.nodes),
            classes=dict(self._inputs.classes),
            engine=self._inputs.engine,
            used=self._inputs.used(question.demand),
            excluded={name: ", ".join(reasons) for name, reasons in question.excluded.items()},
            searched=SEARCHED,
            gates=self._inputs.gates,
        )

    def _keep(self, key: Key, text: str, used: bool) -> _Text:
        kept = self._texts[key] = _Text(text, self._revision(), time.monotonic(), used)
        return kept


def _key(question: Question) -> Key:
    claims = question.demand.unallocated
    names = tuple(claim.key for claim in claims) if len(claims) > 1 else ()
    return question.demand.signature, frozenset(node.name for node in question.nodes), names


DONE = object()
