"""`python -m tests.frame.language [PATH …]`: find long, stiff or roundabout sentences.

Without a path it prints a row per kind of text; with paths, also each sentence that it finds there.
`make check` fails when a kind has more of them than `language.toml` permits.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.frame.measures import committed
from tests.frame.tree import ROOT

RULES = tomllib.loads((Path(__file__).parent / "language.toml").read_text(encoding="utf-8"))
LONGEST = int(RULES["longest_sentence"])  # words
_STIFF = re.compile(rf"\b(?:{'|'.join(RULES['stiff_words'])})\b", re.IGNORECASE)
_CLAUSE = re.compile(rf"(?:{'|'.join(RULES['clause_openers'])})\b(?!.*\?$)")
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_NO_PROSE = re.compile(r"\s*(?:[|#!<]|\[[^\]]+\]:)")
_PARAGRAPH = re.compile(r"\n\s*\n|\n\s*[-*] |\n\s*\d+\. ")
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z*`\"(])")
_FEWEST = 4  # words: what is shorter is a label
_HELPS = frozenset({"help", "description", "epilog"})


class Sentence(NamedTuple):
    """A sentence, its kind of text, and the file it is in."""

    kind: str
    file: str
    text: str


def faults_of(text: str) -> list[str]:
    """Return the names of the rules that a sentence breaks."""
    found = []
    if len(text.split()) > LONGEST:
        found.append("long")
    if _CLAUSE.match(text.lstrip("*_`")):
        found.append("clause")
    if _STIFF.search(text):
        found.append("stiff")
    return found


def sentences_in(text: str) -> Iterator[str]:
    """Yield the sentences of Markdown or of a docstring, without code, tables and headings."""
    lines = (line for line in _FENCE.sub("", text).splitlines() if not _NO_PROSE.match(line))
    for paragraph in _PARAGRAPH.split("\n".join(lines)):
        for sentence in _END.split(" ".join(paragraph.split())):
            if len(sentence.split()) >= _FEWEST:
                yield sentence


def literal(node: ast.expr | None) -> str:
    """Return the text of a string in code, with … for each value in it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) or "…" for part in node.values)
    return ""


def texts_in(source: str) -> Iterator[tuple[str, str]]:
    """Yield each docstring, error message and help text of a module, with its kind."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield "docstrings", ast.get_docstring(node) or ""
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield "errors", literal(node.exc.args[0])
        elif isinstance(node, ast.keyword) and node.arg in _HELPS:
            yield "help", literal(node.value)


def read(files: Iterable[Path]) -> Iterator[Sentence]:
    """Yield the sentences of these files."""
    for file in files:
        name, text = file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
        if file.suffix == ".md":
            texts = [("records" if name.startswith("docs/adr/") else "docs", text)]
        else:
            texts = list(texts_in(text))
        for kind, part in texts:
            yield from (Sentence(kind, name, one) for one in sentences_in(part))


def pages_and_code() -> list[Path]:
    """Return the committed pages and modules whose language is checked."""
    pages = [file for file in committed(":(glob)*.md", "docs") if file.suffix == ".md"]
    code = [file for file in committed("gateway", "adapters") if file.suffix == ".py"]
    return pages + code


def is_excepted(sentence: Sentence) -> bool:
    """Whether `language.toml` gives a reason to leave a sentence as it is."""
    return any(sentence.file == one["file"] and sentence.text.startswith(one["begins"])
               for one in RULES.get("exception", ()))  # fmt: skip


def shares(sentences: Iterable[Sentence]) -> dict[str, dict[str, float]]:
    """Return, by kind of text, how many sentences there are and the percentage breaking a rule."""
    counts: dict[str, dict[str, float]] = {}
    for one in sentences:
        row = counts.setdefault(one.kind, {"sentences": 0, "long": 0, "clause": 0, "stiff": 0})
        row["sentences"] += 1
        for fault in [] if is_excepted(one) else faults_of(one.text):
            row[fault] += 1
    for row in counts.values():
        for fault in ("long", "clause", "stiff"):
            row[fault] = round(100 * row[fault] / row["sentences"], 1)
    return counts


def main() -> None:
    """Print the shares, and each fault in the files that are named."""
    named = [Path(one).resolve() for one in sys.argv[1:]]
    files = [file for file in pages_and_code()
             if not named or any(file == one or one in file.parents for one in named)]  # fmt: skip
    found = list(read(files))
    lines = [f"{'kind':<12}{'sentences':>10}{'long %':>9}{'clause %':>10}{'stiff %':>9}"]
    for kind, row in sorted(shares(found).items()):
        lines.append(f"{kind:<12}{row['sentences']:>10.0f}{row['long']:>9}{row['clause']:>10}"
                     f"{row['stiff']:>9}")  # fmt: skip
    for one in found if named else ():
        if (faults := faults_of(one.text)) and not is_excepted(one):
            lines.append(f"{one.file}: {', '.join(faults)}: {one.text}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
