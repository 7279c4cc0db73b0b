"""Load whatever an evaluator may need later, when it can open no file."""

import zoneinfo

from protocols.cel.rules.values import CelType
from protocols.cel.worker.local import Engine
from protocols.cel.worker.messages import (
    CheckPolicy,
    CheckRules,
    CheckSelector,
    EvaluatePolicy,
    EvaluateRules,
    Expression,
    RuleGroup,
    RuleText,
)

ANY_SCOPE = (False, True, ())
_zones: list[zoneinfo.ZoneInfo] = []


def load() -> None:
    """Ask one question of each kind, so that all modules and environments exist, and read all time zones."""
    engine = Engine()
    engine.answer(CheckSelector('device.driver == "a" && device.attributes["a"].b'))
    engine.answer(CheckPolicy("object.x == timestamp('2026-01-01T00:00:00Z').getHours('UTC')", ANY_SCOPE, ("BOOL",)))
    engine.answer(EvaluatePolicy((Expression("'a'.matches('a+') && object.x == 1", ANY_SCOPE),), {"object": {"x": 1}}))
    of = CelType("object", fields={"a": ("a", CelType("string"))})
    engine.answer(CheckRules(of, 1, (RuleText("self.a == ''"),)))
    engine.answer(EvaluateRules((RuleGroup(of, {"a": "b"}, None, False, ((RuleText("self.a == ''"), ""),)),)))
    if not _zones:
        _zones.extend(zoneinfo.ZoneInfo(name) for name in sorted(zoneinfo.available_timezones()))
