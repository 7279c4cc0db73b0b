"""The calls of a DRA driver for claims, as faults of a script: which calls fail, and which claims of a call. Pure.

A claim that failed alike in every call fails by its name, whatever calls are made before: a pod that waits is tried
again and again, and others come between. All other faults are played in the order of the calls.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from protocols.messages.calls import CallRecord
from supervisor.capture.parts import Fault

PREPARE = "NodePrepareResources"
LASTING = 10_000
"""Times that the last fault of a sequence is played: nothing in the record says that it ended."""
MOST_STEADY = 32
"""Claims that fail by name in each call."""
ANY = "*"
_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]"
"""Characters of the suffixes that Kubernetes generates."""
_GENERATED = re.compile(f"-(?:{_SUFFIX}{{8,10}}-)?{_SUFFIX}{{5}}(?=-|$)")

Answer = dict[str, Any]
Answers = dict[str, Answer]
"""By pattern of the claims' names; {} for a claim that was answered as a driver does that is well."""
Call = tuple[Fault, Answers]
"""A call: its own fault, and the answers for its claims."""


def name_pattern(name: str) -> str:
    """Return the name of a claim with `*` for what Kubernetes generated in it."""
    return _GENERATED.sub("-*", name)


def answers_in(record: CallRecord) -> Answers:
    """Return the answers of a call that was answered."""
    replies, complete = record.reply.get("claims", {}), not _left_out(record)
    answers: Answers = {}
    for claim in record.request.get("claims", ()):
        reply = replies.get(claim.get("uid", ""), None if complete else {})
        pattern = name_pattern(claim.get("name", ""))
        answers[pattern] = answers.get(pattern) or _answer(reply, prepared=complete and record.method == PREPARE)
    return answers


def _left_out(record: CallRecord) -> bool:
    """Return True if the record does not hold all answers of the call."""
    return any(path.startswith("reply") for path in record.omitted)


def _answer(reply: dict[str, Any] | None, *, prepared: bool) -> Answer:
    if reply is None:
        return {"skip": True}
    if reply.get("error"):
        return {"error": reply["error"]}
    if prepared and not reply.get("devices"):
        return {"devices": 0}
    if prepared and not any("cdi_device_ids" in device for device in reply["devices"]):
        return {"cdi": []}
    return {}


def faults_of(calls: Sequence[Call]) -> Fault | list[Fault] | None:
    """Return the value of a method in a script's `calls`, or None if every call was well."""
    steady, named = _steady(calls)
    entries = [_entry(fault, answers, steady, named) for fault, answers in calls]
    runs = _runs(entries)
    if len(runs) == 1 and _lasts(runs[0][0]):
        return runs[0][0]
    goes_on = bool(runs) and _lasts(runs[-1][0])
    while runs and not runs[-1][0]:
        runs.pop()
    if not runs:
        return None
    last, times = runs[-1]
    runs[-1] = last, LASTING if goes_on else times
    return [{**fault, "times": times} if times > 1 or not fault else fault for fault, times in runs]


def _steady(calls: Sequence[Call]) -> tuple[Answers, bool]:
    """Return the answers that a claim got in each of its calls, unless it is well, and whether names matter."""
    by_pattern: dict[str, list[Answer]] = {}
    for fault, answers in calls:
        for pattern, answer in answers.items() if _answered(fault) else ():
            by_pattern.setdefault(pattern, []).append(answer)
    named = len(by_pattern) > 1 and not _all_equal(each for mine in by_pattern.values() for each in mine)
    steady = {pattern: mine[0] for pattern, mine in by_pattern.items() if mine[0] and _all_equal(mine)}
    return dict(list(steady.items())[:MOST_STEADY]) if named else {}, named


def _all_equal(answers: Iterable[Answer]) -> bool:
    first, *more = answers
    return all(answer == first for answer in more)


def _entry(fault: Fault, answers: Answers, steady: Answers, named: bool) -> Fault:
    if not _answered(fault):
        return fault
    failed = {pattern if named else ANY: answer for pattern, answer in answers.items() if answer}
    claims = steady | failed
    return fault | ({"claims": claims} if claims else {})


def _answered(fault: Fault) -> bool:
    return not {"error", "hang", "crash"} & fault.keys()


def _lasts(fault: Fault) -> bool:
    """Return True for a fault that goes on until something ends it; a death or a delay is one of a call."""
    return bool({"error", "hang", "claims", "info"} & fault.keys())


def _runs(entries: Iterable[Fault]) -> list[tuple[Fault, int]]:
    runs: list[tuple[Fault, int]] = []
    for entry in entries:
        if runs and runs[-1][0] == entry:
            runs[-1] = entry, runs[-1][1] + 1
        else:
            runs.append((entry, 1))
    return runs
