"""Whether relists happen, in upstream's words. Pure."""


def fault(last_started: float, now: float, limit_s: float) -> str:
    """Empty when healthy. Times are monotonic seconds; `last_started` 0: no relist has ended well yet."""
    if not last_started:
        return "pleg has yet to be successful"
    if now - last_started > limit_s:
        return f"pleg was last seen active {_text(now - last_started)} ago; threshold is {_text(limit_s)}"
    return ""


def check_in(last_started: float, now: float, limit_s: float) -> float:
    """Seconds until `fault` may answer otherwise by time alone; at least one."""
    return max(1.0, last_started + limit_s - now) if last_started else limit_s


def _text(seconds: float) -> str:
    """As Go prints a duration: 3m1.2s."""
    minutes, rest = divmod(round(seconds, 1), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
