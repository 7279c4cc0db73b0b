"""The behaviours: coroutines in the chapters of the folder `behaviours`, and modules of the user's own folders.

A coroutine of ours is named as its behaviour, with `@run` or `@check` before it; its texts are a table of `rules.toml`
beside its chapter. A module of a user is one behaviour, named as its file: it has the texts RULE, SOURCE, ADVICE and
PHASE, the first line of its docstring is the title, and ORDER is a number by which those of a phase are sorted before
their names. One coroutine judges:

- `run(stage)`, for the program as a whole, or
- `check(plugin)`, which is called for each resource of a plugin, or each driver.

It returns when the rule holds, raises Failed with what it found, or NotApplicable with the reason.
"""

import functools
import importlib.util
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from protocols.errors import NodeplaneError
from protocols.process.tasks import one_line
from supervisor.base.errors import UsageError
from supervisor.conform.program_stage import ProgramStage
from supervisor.conform.verdict import CallFailed, Failed, Listed, NotApplicable

FOLDER = Path(__file__).parent / "behaviours"
SHARED = FOLDER / "every_kind.py"
"""The chapter with behaviours of several kinds."""


PHASES = ("registration", "list", "slices", "calls", "health", "restarts", "end")
"""In this order: later ones disturb the plugin more."""
LISTING = ("list", "health")
"""Phases whose evidence is what the program listed."""
LAST = 100
MAX_FINDINGS = 5
Run: TypeAlias = Callable[[Any], Awaitable[None]]
"""Called with the stage of its kind."""
Check: TypeAlias = Callable[[Any], Awaitable[None]]
"""Called with a connection to what the program registered."""


class Kind(NamedTuple):
    """`shared` are behaviours of device plugins that judge this kind, too."""

    name: str
    folder: Path
    shared: tuple[str, ...] = ()

    def chapters(self) -> Iterable[Path]:
        """Return the files of its behaviours."""
        return sorted(path for path in self.folder.glob("*.py") if not path.name.startswith("_"))


PLUGIN = Kind("plugin", FOLDER)
DRA = Kind("dra", FOLDER / "dra", ("two-instances", "ends-at-sigterm"))
AGENT = Kind("agent", FOLDER / "agent", ("ends-at-sigterm",))
KINDS = {kind.name: kind for kind in (PLUGIN, DRA, AGENT)}


class Behaviour(Listed, frozen=True):
    """One behaviour; `run` is its coroutine for the whole program, also where each plugin is judged."""

    order: int
    run: Run


class Script(NamedTuple):
    """A coroutine of ours, without its texts; one for `each` judges a resource of a plugin, or a driver."""

    judge: Run
    each: bool


def run(judge: Run) -> Script:
    """Mark a coroutine that judges the program as a whole."""
    return Script(judge, each=False)


def check(judge: Check) -> Script:
    """Mark a coroutine that judges each resource of a plugin, or each driver."""
    return Script(judge, each=True)


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of `rules.toml`. The lines of a text are joined; `{name}` in a source is a line of `sources.toml`."""

    title: str
    phase: str
    rule: str
    source: str
    advice: str
    order: int = LAST


@functools.cache
def read_rules(folder: Path) -> dict[str, Rule]:
    """Return the rules of a folder by the names of their behaviours."""
    return msgspec.toml.decode((folder / "rules.toml").read_bytes(), type=dict[str, Rule])


@functools.cache
def _sources() -> dict[str, str]:
    return msgspec.toml.decode((FOLDER / "sources.toml").read_bytes(), type=dict[str, str])


def behaviours(folders: Iterable[Path] = (), kind: Kind = PLUGIN) -> list[Behaviour]:
    """Return ours and those of the folders, in the order in which they run. Raises UsageError."""
    loaded = [behaviour for path in kind.chapters() for behaviour in _chapter(path)]
    loaded += [behaviour for behaviour in _chapter(SHARED) if behaviour.name in kind.shared]
    loaded += [load(path) for folder in folders for path in _scripts(folder)]
    names = [behaviour.name for behaviour in loaded]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two behaviours are called {min(twice)}; rename the file of one")
    return sorted(loaded, key=lambda each: (PHASES.index(each.phase), each.order, each.name))


def _scripts(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a directory of behaviours")
    return sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))


def _chapter(path: Path) -> list[Behaviour]:
    scripts = [script for script in vars(_module(path)).values() if isinstance(script, Script)]
    return [_behaviour(script, read_rules(path.parent)) for script in scripts]


def _behaviour(script: Script, rules: Mapping[str, Rule]) -> Behaviour:
    name = script.judge.__name__.replace("_", "-")
    rule = rules[name]
    return Behaviour(
        name=name,
        title=_joined(rule.title),
        phase=rule.phase,
        rule=_joined(rule.rule),
        source=rule.source.format_map(_sources()),
        advice=_joined(rule.advice),
        order=rule.order,
        run=for_each(script.judge, shows_list=rule.phase in LISTING) if script.each else script.judge,
    )


def _joined(lines: str) -> str:
    return " ".join(lines.split())


def load(path: Path) -> Behaviour:
    """Raises UsageError for a file that is no behaviour."""
    module = _module(path)
    texts = {name.lower(): getattr(module, name, None) for name in ("PHASE", "RULE", "SOURCE", "ADVICE")}
    if missing := [name.upper() for name, text in texts.items() if not isinstance(text, str)]:
        raise UsageError(f"{path}: {missing[0]} is missing, or no text")
    if texts["phase"] not in PHASES:
        raise UsageError(f"{path}: PHASE is {texts['phase']!r}; use one of {', '.join(PHASES)}")
    order = getattr(module, "ORDER", LAST)
    if not isinstance(order, int):
        raise UsageError(f"{path}: ORDER is {order!r}; use a whole number")
    return Behaviour(
        name=path.stem.replace("_", "-"),
        title=(inspect.getdoc(module) or "").partition("\n")[0],
        order=order,
        run=_explained(path, _runner(path, module)),
        **texts,  # type: ignore[arg-type]  # texts are texts
    )


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"nodeplane_behaviour_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path} cannot be loaded: {one_line(error)}") from None
    return module


def _explained(path: Path, judge: Run) -> Run:
    """Return a user's behaviour that raises UsageError where it fails itself."""

    async def run(stage: ProgramStage[Any, Any]) -> None:
        try:
            await judge(stage)
        except NodeplaneError:
            raise
        except Exception as error:
            raise UsageError(f"{path} is wrong: {one_line(error)}") from None

    return run


def _runner(path: Path, module: ModuleType) -> Run:
    if (whole := getattr(module, "run", None)) is not None:
        return whole  # type: ignore[no-any-return]  # what users' modules have is theirs
    if (each := getattr(module, "check", None)) is not None:
        return for_each(each, shows_list=module.PHASE in LISTING)
    raise UsageError(f"{path}: it has neither run(stage) nor check(plugin)")


def for_each(check: Check, *, shows_list: bool) -> Run:
    """Return a script that checks every plugin: one failure fails it, and it applies if it does to one of them."""

    @functools.wraps(check)
    async def run(stage: ProgramStage[Any, Any]) -> None:
        plugins = await stage.peers()
        failures, reasons = [], []
        for plugin in plugins:
            prefix = f"{plugin.name}: " if len(plugins) > 1 else ""
            if shows_list:
                stage.show(*plugin.evidence())
            try:
                await check(plugin)
            except CallFailed:
                raise
            except Failed as error:
                failures.append(f"{prefix}{error}")
            except NotApplicable as error:
                reasons.append(f"{prefix}{error}")
        if failures:
            raise Failed(several(failures))
        if len(reasons) == len(plugins):
            raise NotApplicable(several(reasons))

    return run


def several(findings: list[str]) -> str:
    """Return the first findings, each once, on one line."""
    findings = list(dict.fromkeys(findings))
    more = f"; {len(findings) - MAX_FINDINGS} more" if len(findings) > MAX_FINDINGS else ""
    return "; ".join(findings[:MAX_FINDINGS]) + more
