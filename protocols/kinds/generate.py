"""Reads facts/ anew from the Go types of a Kubernetes release: `python -m protocols.kinds.generate TREE [--write]`.

TREE is a checkout of github.com/kubernetes/kubernetes. Prints the difference, and with `--write` writes it, too. A type
that a new field needs comes along; a new kind is a line `Kind+:` to begin with. What Go does not declare stays as it
is: our own types and fields, and the few types whose JSON Go writes by hand. The typed views, views.pyi, follow from
the facts; `--write` alone writes them. `--check` alone ends with 1 if a file is not as this writes it.
"""

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

from protocols.kinds.fields import FACTS, Field, Type, base_of, own_text, packages, read_types, types_of, wrapped
from protocols.kinds.from_go import Release
from protocols.kinds.go_source import SourceMissing
from protocols.kinds.typed_views import views_text

BY_HAND = (
    "CustomResourceSubresources", "JSONSchemaProps", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
)  # fmt: skip
VIEWS = FACTS.with_name("views.pyi")
Change = tuple[Path, str, str]
"""A file with its text and the text that it should have."""


def fresh_text(package: str, release: Release | None) -> str:
    """Return a file's text: as it is, or as of a release."""
    text = (FACTS / f"{package}.txt").read_text("utf-8")
    types = {read.name: read for read in read_types(package, own_text(text))}
    if not (base := base_of(text)):
        return _text(_renewed(package, types, release))
    shared = _renewed(base, types_of(base), release)
    lines = {line_of(shape) for shape in shared.values()}
    renewed = _renewed(package, {**types, **{k: v for k, v in types_of(package).items() if k not in types}}, release)
    return f"< {base}\n" + _text({name: each for name, each in renewed.items() if line_of(each) not in lines})


def _text(types: dict[str, Type]) -> str:
    return "".join(f"{line_of(shape)}\n" for shape in types.values())


def _renewed(package: str, types: dict[str, Type], release: Release | None) -> dict[str, Type]:
    """Return the types, as of the release, and those that their fields need."""
    if release is None:
        return types
    renewed: dict[str, Type] = {}
    waiting = list(types)
    while waiting:
        name = waiting.pop(0)
        old, new = types.get(name), None if name in BY_HAND else release.type_of(package, name)
        kind = _with_own(old, new) if new and old else new or old
        assert kind is not None, name
        renewed[name] = kind
        waiting += [other for other in release.needs(package, kind) if other not in {*renewed, *waiting}]
    return renewed


def _with_own(old: Type, new: Type) -> Type:
    """Add the fields of our own, which have no number, to a type read from upstream."""
    own = tuple(field for field in old.fields if not field.number)
    return Type(new.package, new.name, (*new.fields, *own), is_kind=old.is_kind, is_atomic=new.is_atomic)


def line_of(each: Type) -> str:
    """Return the type in the notation of facts/, wrapped."""
    head = f"{each.name}{'*' if each.is_atomic else ''}{'+' if each.is_kind else ''}:"
    return wrapped(head, map(_field_text, each.fields))


def _field_text(field: Field) -> str:
    marks = "".join(_marks(field))
    wire = f"|{field.wire}" if field.wire != field.type else ""
    return f"{field.number or ''}:{field.name}{marks}:{field.type}{wire}"


def _marks(field: Field) -> Iterator[str]:
    yield "!" if field.is_required else ""
    yield "&" if field.is_inline else ""
    yield "-" if field.is_null else "@" if field.is_present else ""
    yield "?" if field.keeps_zero else ""


def _changes(release: Release | None) -> Iterator[Change]:
    for package in packages():
        path = FACTS / f"{package}.txt"
        old, new = path.read_text("utf-8"), fresh_text(package, release)
        if old != new:
            yield path, old, new


def _changes_of_views() -> Iterator[Change]:
    """Yield the change of views.pyi that the facts on disk need."""
    types_of.cache_clear()
    old, new = VIEWS.read_text("utf-8"), views_text()
    if old != new:
        yield VIEWS, old, new


def main(arguments: list[str]) -> int:
    """Run the command; return the exit status: 1 for a difference with --check, 2 for usage or a missing source."""
    trees = [argument for argument in arguments if not argument.startswith("-")]
    if len(trees) > 1 or arguments[len(trees) :] not in ([], ["--write"], ["--check"]) or not arguments:
        print("usage: python -m protocols.kinds.generate TREE [--write] | --check", file=sys.stderr)
        return 2
    try:
        changes = list(_changes(Release(Path(trees[0])) if trees else None))
    except SourceMissing as error:
        print(error, file=sys.stderr)
        return 2
    _report(changes, write="--write" in arguments)
    views = [] if trees and "--write" not in arguments else list(_changes_of_views())
    _report(views, write="--write" in arguments)
    return 1 if (changes or views) and "--check" in arguments else 0


def _report(changes: list[Change], *, write: bool) -> None:
    for path, old, new in changes:
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), path.name, path.name, n=0, lineterm="")
        print("\n".join(lines))
        if write:
            path.write_text(new, "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
