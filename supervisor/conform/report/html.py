"""The report as one page of HTML that needs nothing else."""

import shlex
from collections.abc import Iterator, Sequence
from html import escape

from protocols.process.texts import printable
from supervisor.conform.report.text import counts_line, exchange_lines
from supervisor.conform.verdict import FAIL, Result

STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;
padding:0 1rem;color:#222;background:#fff}
details{border-left:6px solid #2a7d46;margin:.4rem 0;padding:.2rem .8rem;background:#f6f6f6}
details.fail{border-color:#b3261e}details.not{border-color:#999}summary{cursor:pointer}
pre{overflow-x:auto;background:#fff;padding:.5rem;font-size:12px}dt{font-weight:600}dd{margin:0 0 .4rem}
.verdict{font-variant:small-caps}.time{color:#666}"""


def html_page(words: Sequence[str], results: Sequence[Result]) -> str:
    """Return the page; failures are open."""
    command = _text(shlex.join(words))
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>nodeplane conform</title>',
            f"<style>{STYLE}</style></head><body><h1>nodeplane conform</h1>",
            f"<p><code>{command}</code></p><p>{_text(counts_line(results))}</p>",
            *(line for result in results for line in _result(result)),
            "</body></html>\n",
        ]
    )


def _result(result: Result) -> Iterator[str]:
    opened = " open" if result.verdict == FAIL else ""
    yield f'<details class="{result.verdict.split()[0]}"{opened}><summary><b>{_text(result.name)}</b>'
    yield f'<span class="verdict">{result.verdict}</span> <span class="time">{result.seconds:.1f} s</span>'
    yield f"{_text(result.reason or result.title)}</summary><dl>"
    for word, text in (("Rule", result.rule), ("Source", result.source), ("To do when it fails", result.advice)):
        yield f"<dt>{word}</dt><dd>{_text(text)}</dd>"
    yield "</dl>"
    if lines := [line for exchange in result.exchanges for line in exchange_lines(exchange)]:
        yield f"<pre>{_lines(lines)}</pre>"
    if result.output:
        yield f"<p>The program printed:</p><pre>{_lines(result.output)}</pre>"
    yield "</details>"


def _text(text: str) -> str:
    return escape(printable(text))


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(map(_text, lines))
