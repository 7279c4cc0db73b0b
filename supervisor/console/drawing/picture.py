"""The picture of the house: actors as boxes in a grid of four columns, and arrows that light with their messages."""

from collections.abc import Iterable, Sequence

import msgspec

from protocols.node.cpulist import is_number
from supervisor.base.groups import APISERVER, CONTROL, NODE
from supervisor.console.drawing import text
from supervisor.console.drawing.text import BAD, CHOSEN, DIM, LIT, PENDING, Line, Part, cut, pad, role_of
from supervisor.console.model.plane import Actor, House, Link, links

COLUMNS = 4
GAP = 4
"""Columns between two boxes, for an arrow."""
NARROWEST, WIDEST = 13, 26
FLOORS = (("store", "watchcache", "scheduler", "controllers"), ("runtime", "cri", "pleg", "podworker"))
LAST_FLOOR = ("frontdoor", "devices", "health")
OUTSIDE = {"store": ("etcd", CONTROL), "runtime": ("runtime", NODE)}
"""Shown in place of an actor that this plane does not run."""
FRAMES = {"": "┌─┐│└┘", BAD: "╔═╗║╚╝", CHOSEN: "┏━┓┃┗┛"}
"""Frames differ, so that a terminal without colours shows the same."""
BOX_LINES = 4
UNFOLLOWED = {("store", "watchcache"): APISERVER, ("runtime", "cri"): "pleg"}
"""Arrows that are no streams of the bus, and the follower (or its kind) of what is made of them."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the drawing: the width in columns, the chosen actor, and the actors that a filter leaves."""

    width: int
    chosen: str = ""
    matching: frozenset[str] | None = None


def draw(house: House, look: Look) -> list[Line]:
    """Return the lines of the picture; `look.width` columns each at most."""
    links_by_pair = links(house.flows())
    _add_unfollowed(links_by_pair)
    lines: list[Line] = []
    for row in grid(house):
        lines += _row(house, row, links_by_pair, look)
    return lines


def grid(house: House) -> list[list[str]]:
    """Return names of actors by row and column; "" is an empty place."""
    names = list(house.actors)
    servers = sorted((name for name in names if name.startswith(f"{APISERVER}-")), key=_number)
    rows = [servers[at : at + COLUMNS] for at in range(0, len(servers), COLUMNS)]
    groups = {actor.status.group for actor in house.actors.values()}
    for floor in (*FLOORS, LAST_FLOOR):
        row = [name if name in house.actors or _outside(name, groups) else "" for name in floor]
        if any(name in house.actors for name in row):
            rows.append(row)
    drawn = {name for row in rows for name in row}
    others = [name for name in names if name not in drawn]
    return [*rows, *(others[at : at + COLUMNS] for at in range(0, len(others), COLUMNS))]


def line_of(house: House, name: str) -> int:
    """Return the first line of an actor's box in the picture; 0 if it has none."""
    line = 0
    for row in grid(house):
        line += "watchcache" in row
        if name in row:
            return line
        line += BOX_LINES
    return 0


def actor_at(house: House, width: int, column: int, line: int) -> str:
    """Return the actor whose box is at a place of a picture of this width; empty if none is there."""
    at, inside = divmod(column, box_width(width) + GAP)
    names = [row[at] for row in grid(house) if at < len(row) and 0 <= line - line_of(house, row[at]) < BOX_LINES]
    return next((name for name in names if name in house.actors and inside < box_width(width)), "")


def neighbour(rows: Sequence[Sequence[str]], name: str, across: int, down: int, known: Iterable[str]) -> str:
    """Return the next actor in a direction, or the same one at the edge."""
    known = set(known)
    place = next(((y, x) for y, row in enumerate(rows) for x, actor in enumerate(row) if actor == name), None)
    if place is None:
        return next((actor for row in rows for actor in row if actor in known), "")
    y, x = place[0] + down, place[1] + across
    while 0 <= y < len(rows):
        row = rows[y]
        if across and not 0 <= x < len(row):
            return name
        near = sorted((at for at, actor in enumerate(row) if actor in known), key=lambda at: abs(at - x))
        if across and row[x] in known:
            return row[x]
        if down and near:
            return row[near[0]]
        y, x = y + down, x + across
    return name


def box_width(width: int) -> int:
    """Return the width of a box on a screen of this width."""
    return max(NARROWEST, min(WIDEST, (width - (COLUMNS - 1) * GAP) // COLUMNS))


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if is_number(digits) else 0


def _outside(name: str, groups: set[str]) -> bool:
    return name in OUTSIDE and OUTSIDE[name][1] in groups


def _add_unfollowed(found: dict[tuple[str, str], Link]) -> None:
    """Add the arrows that are no streams of the bus: they move when what is made of them does."""
    for (owner, follower), like in UNFOLLOWED.items():
        same = [link for (source, target), link in found.items() if source == follower and target.startswith(like)]
        if same:
            found.setdefault((owner, follower), Link(0.0, 0, any(link.lit for link in same), True))


def _row(house: House, row: list[str], found: dict[tuple[str, str], Link], look: Look) -> list[Line]:
    width = box_width(look.width)
    boxes = [_box(house, name, found, width, look) for name in row]
    if "devices" in row and "podworker" in house.actors:
        boxes += [[[Part(" " * width)]] * BOX_LINES] * (COLUMNS - 1 - len(boxes))
        boxes.append(_remote(found, width))
    lines: list[Line] = []
    for number in range(BOX_LINES):
        line: Line = []
        for at, box in enumerate(boxes):
            line += box[number]
            if at + 1 < len(boxes):
                pair = (row[at], row[at + 1]) if at + 1 < len(row) else ("", "")
                line.append(_arrow(pair, found, number))
        lines.append(line)
    if above := _above(row, found, width):
        lines.insert(0, above)
    return lines


def _box(house: House, name: str, found: dict[tuple[str, str], Link], width: int, look: Look) -> list[Line]:
    if not name:
        return [[Part(" " * width)]] * BOX_LINES
    actor = house.actors.get(name)
    if actor is None:
        return _framed(OUTSIDE[name][0], ["outside", "this plane"], house.notes.get(name, ""), ("", DIM), width)
    state = PENDING if house.failure else role_of(actor.state) or BAD
    bad = state == BAD or house.red(actor)
    role = DIM if look.matching is not None and name not in look.matching else BAD if bad else ""
    frame = CHOSEN if name == look.chosen else BAD if bad else ""
    inner = _inner(actor, width - 2)
    below = " ".join(filter(None, (_incoming(name, found), house.notes.get(name, ""))))
    return _framed(name, inner, below, (frame, role), width, state if role != DIM else DIM)


def _inner(actor: Actor, width: int) -> list[str]:
    status = actor.status
    first = f"{cut(actor.state, 8):<8}" if not actor.usage.pss else cut(actor.state, 8)
    usage = f"{actor.usage.cpu:.0f}% {actor.usage.pss:.0f}M" if actor.usage.pss and status.pid else ""
    restarts = f"↻{status.restarts}"
    if actor.took_s is not None:
        restarts += f" {actor.took_s:.1f}s"
    pid = str(status.pid or "-")
    return [first + usage.rjust(width - len(first)), pid + restarts.rjust(width - len(pid))]


def _framed(
    name: str, inner: list[str], below: str, styles: tuple[str, str], width: int, state: str = DIM
) -> list[Line]:
    kind, role = styles
    left, line, right, side, bottom_left, bottom_right = tuple(FRAMES[kind])
    title, below = cut(name, width - 4), cut(below, width - 2)
    top = f"{left}{line}{title}{line * (width - 3 - len(title))}{right}"
    bottom = f"{bottom_left}{below}{line * (width - 2 - len(below))}{bottom_right}"
    edge = role or (CHOSEN if kind == CHOSEN else "")
    body: list[Line] = [[Part(top, edge)]]
    for number, content in enumerate(inner):
        body.append([Part(side, edge), Part(pad(content, width - 2), state if number == 0 else edge), Part(side, edge)])
    return [*body, [Part(bottom, edge)]]


def _incoming(name: str, found: dict[tuple[str, str], Link]) -> str:
    mine = [link for pair, link in found.items() if pair[1] == name and pair not in UNFOLLOWED]
    if not mine:
        return ""
    lag = max(link.lag for link in mine)
    return f"◄{text.rate(sum(link.rate for link in mine))}" + (f" lag {text.number(lag)}" if lag > 1 else "")


def _arrow(pair: tuple[str, str], found: dict[tuple[str, str], Link], number: int) -> Part:
    """Return the gap between two boxes: an arrow, and below it the messages per second."""
    right, left = found.get(pair), found.get((pair[1], pair[0]))
    both = [link for link in (right, left) if link]
    if not both or number not in (1, 2):
        return Part(" " * GAP)
    role = LIT if any(link.lit for link in both) else DIM if all(link.synced for link in both) else BAD
    if number == 2:
        rate = sum(link.rate for link in both)
        return Part(text.number(rate).center(GAP)[:GAP] if rate else " " * GAP, role)
    lit = any(link.lit for link in both)
    shaft = "═" if lit else "─"
    return Part(f"{'◄' if left else shaft}{shaft * (GAP - 2)}{'►' if right else shaft}", role)


def _above(row: list[str], found: dict[tuple[str, str], Link], width: int) -> Line:
    """Return the arrow from the watch cache up to the API processes."""
    if "watchcache" not in row:
        return []
    up = [link for (owner, name), link in found.items() if owner == "watchcache" and name.startswith(APISERVER)]
    if not up:
        return [Part("")]
    lit = any(link.lit for link in up)
    words = f"{'▲' if not lit else '⇑'} objects/* {text.rate(max(link.rate for link in up))}"
    indent = row.index("watchcache") * (width + GAP)
    return [Part(" " * indent), Part(cut(words, width + GAP), LIT if lit else DIM)]


def _remote(found: dict[tuple[str, str], Link], width: int) -> list[Line]:
    """Return the arrows of podworker that do not come from its neighbour, below its box."""
    lines: list[Line] = []
    for owner in ("cri", "devices", "health"):
        link = found.get((owner, "podworker"), Link(0.0, 0, False, True))
        lines.append([_far("⇑" if link.lit else "▲", f"{owner} {text.rate(link.rate)}", link, width)])
    out = [link for (owner, _), link in found.items() if owner == "podworker"]
    total = Link(sum(link.rate for link in out), 0, any(link.lit for link in out), all(link.synced for link in out))
    lines.append([_far("⇓" if total.lit else "▼", f"node {text.rate(total.rate)}", total, width)])
    return lines


def _far(arrow: str, words: str, link: Link, width: int) -> Part:
    return Part(pad(f" {arrow} {words}", width), LIT if link.lit else DIM if link.synced else BAD)
