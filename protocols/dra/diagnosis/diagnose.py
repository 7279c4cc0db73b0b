"""The report: every device judged once for each request, then the most promising nodes as a whole.

Bounded: work is proportional to devices times requests; `steps` yields in between, for those who share an event loop.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from protocols.dra.allocator.claims import ALL, Claim, SubRequest
from protocols.dra.allocator.plan import missing_class
from protocols.dra.allocator.types import DeviceInfo
from protocols.dra.diagnosis.devices import DeviceJudge, Reaching
from protocols.dra.diagnosis.nodes import node_rejection
from protocols.dra.diagnosis.types import (
    COUNT,
    IN_USE,
    MAX_EXAMPLES,
    MAX_GROUPS,
    NODE,
    UNSEARCHED,
    Case,
    ClaimReport,
    DiagnosisReport,
    Group,
    Rejection,
    SubRequestReport,
)
from protocols.process.texts import cut

MAX_REASONS = 256
"""Distinct reasons counted; attribute values in error texts could make more."""


CHUNK = 50
"""Devices judged between two yields."""
MOST_REASONS, MAX_REASON = 2, 80
"""Reasons why devices of a node are not usable, the most frequent ones, and the characters of each."""
NOT_SEARCHED = Rejection(UNSEARCHED, "it has enough devices for each request by itself, as those that were searched")


class RejectionTally:
    """Bounded: reasons past MAX_REASONS count as their rule alone."""

    def __init__(self) -> None:
        self._counts: dict[Rejection, int] = {}
        self._examples: dict[Rejection, list[str]] = {}

    def add(self, rejection: Rejection, example: str) -> None:
        if rejection not in self._counts and len(self._counts) >= MAX_REASONS:
            rejection = Rejection(rejection.rule, "other reasons")
        self._counts[rejection] = self._counts.get(rejection, 0) + 1
        examples = self._examples.setdefault(rejection, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(example)

    def groups(self) -> tuple[Group, ...]:
        """Return the most frequent first; the rest is summed up in the last one."""
        ranked = sorted(self._counts, key=lambda each: (-self._counts[each], each))
        shown, rest = ranked[:MAX_GROUPS], ranked[MAX_GROUPS:]
        top_groups = [Group(*key, self._counts[key], tuple(self._examples[key])) for key in shown]
        if rest:
            count = sum(self._counts[key] for key in rest)
            top_groups.append(Group("other", f"{len(rest)} other reasons", count, tuple(self._examples[rest[0]])))
        return tuple(top_groups)


class Counted(NamedTuple):
    """Devices for a subrequest, by node."""

    subrequest: SubRequest
    usable: dict[str, int]
    rejected: dict[str, Counter[str]]
    """By reason, for the devices that the node alone reaches."""


class Diagnosis:
    """Call `run`, or exhaust `steps` and read `report`."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._reaching = Reaching(case.nodes)
        self._claims: list[ClaimReport] = []
        self._counts: list[Counted] = []
        self.report = DiagnosisReport((), ())

    def run(self) -> DiagnosisReport:
        for _ in self.steps():
            pass
        return self.report

    def steps(self) -> Iterator[None]:
        """Yield between short pieces of work; `report` is set at the end."""
        for claim in self._case.claims:
            yield from self._claim(claim)
        if any(diagnosed.fault for diagnosed in self._claims):
            self.report = DiagnosisReport(tuple(self._claims), ())
        else:
            yield from self._nodes()

    def _claim(self, claim: Claim) -> Iterator[None]:
        subrequests: list[SubRequestReport] = []
        fault = missing_class(claim, self._case.classes)
        for subrequest in (
            () if fault else (subrequest for request in claim.requests for subrequest in request.subrequests)
        ):
            yield from self._subrequest(subrequest, subrequests)
        self._claims.append(ClaimReport(claim.key, fault, tuple(subrequests)))

    def _subrequest(self, subrequest: SubRequest, into: list[SubRequestReport]) -> Iterator[None]:
        judge, tally = DeviceJudge(self._case, subrequest, self._reaching), RejectionTally()
        usable: list[DeviceInfo] = []
        rejected: dict[str, Counter[str]] = {}
        total = 0
        for pool in self._case.catalog.pools():
            for device in pool.devices:
                total += 1
                if total % CHUNK == 0:
                    yield
                if (rejection := judge.rejection(pool, device)) is None:
                    usable.append(device)
                else:
                    tally.add(rejection, self._example(rejection, device))
                    rejected.setdefault(device.reach.node, Counter())[rejection.text] += 1
        counts = self._reaching.counts(usable)
        self._counts.append(Counted(subrequest, counts, rejected))
        count = 0 if subrequest.mode == ALL else subrequest.count
        most = max(counts.values(), default=0)
        into.append(
            SubRequestReport(subrequest.name, subrequest.class_name, count, total, len(usable), most, tally.groups())
        )

    def _example(self, rejection: Rejection, device: DeviceInfo) -> str:
        note = {IN_USE: self._case.holder(device.id), NODE: device.reach.node}.get(rejection.rule, "")
        return f"{device.id} ({note})" if note else str(device.id)

    def _nodes(self) -> Iterator[None]:
        """Reject nodes by their counts where they are too low, else by a search."""
        tally, fitting, left = RejectionTally(), [], []
        for number, node in enumerate(self._case.nodes):
            short = (_short(count, node.name) for count in self._counts)
            if (rejection := next(filter(None, short), None)) is not None:
                tally.add(rejection, node.name)
            else:
                left.append(node)
            if number % CHUNK == CHUNK - 1:
                yield
        left.sort(key=lambda node: -sum(count.usable.get(node.name, 0) for count in self._counts))
        for number, node in enumerate(left):
            searched = (yield from node_rejection(self._case, node)) if number < self._case.searched else NOT_SEARCHED
            if searched is None:
                fitting.append(node.name)
            else:
                tally.add(searched, node.name)
        self.report = DiagnosisReport(tuple(self._claims), tally.groups(), tuple(fitting))


def _short(counted: Counted, node: str) -> Rejection | None:
    """Alternatives of a request are left to the search: another may do."""
    subrequest, has = counted.subrequest, counted.usable.get(node, 0)
    need = 1 if subrequest.mode == ALL else subrequest.count
    if has >= need or "/" in subrequest.name:
        return None
    rejected = sorted(counted.rejected.get(node, Counter()).items(), key=lambda each: (-each[1], each[0]))
    why = ", ".join(f"{count} {cut(text, MAX_REASON)}" for text, count in rejected[:MOST_REASONS])
    text = f"request {subrequest.name} needs {need}, the node has {has} usable"
    return Rejection(COUNT, f"{text}: {why}" if why else text)
