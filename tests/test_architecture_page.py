"""Whatever docs/architecture.md names in backticks is there: a file, a folder, or a word of the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("myserve_ui", "benchmarks", "tests", "assets", "docs", "examples")
ELSEWHERE = {"NUMBA_CACHE_DIR"}
"""Names of others' that no code here spells."""


def test_every_name_on_the_page_is_one_of_the_tree_or_of_the_code() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {name.removesuffix("()") for name in re.findall(r"`([\w.][\w./]*(?:\(\))?)`", page)}
    places, words = all_places(), all_words()
    assert {name for name in named - ELSEWHERE if not is_there(name.rstrip("/"), places, words)} == set()


def all_places() -> set[str]:
    """Every file with and without its ending, and every folder, below the root, each after a slash."""
    paths = [ROOT, *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    paths += [*ROOT.iterdir()]
    return {f"/{place.relative_to(ROOT).as_posix()}" for path in paths for place in (path, path.with_suffix(""))}


def all_words() -> set[str]:
    code = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".js", ".css")]
    return {word for path in code for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}


def is_there(name: str, places: set[str], words: set[str]) -> bool:
    """`name` is a place, a word of the code, words with dots between, or a place with a word behind a dot."""
    if any(place.endswith(f"/{name}") for place in places):
        return True
    folder, slash, last = name.rpartition("/")
    if not slash:
        return words.issuperset(last.split("."))
    file, dot, word = last.partition(".")
    return bool(dot) and word in words and any(place.endswith(f"/{folder}/{file}") for place in places)


def test_a_name_that_nothing_has_is_seen() -> None:
    known = {"/myserve_ui/engine/scheduler", "/docs"}
    assert is_there("engine/scheduler", known, set())
    assert is_there("engine/scheduler.schedule", known, {"schedule"})
    assert not is_there("engine/scheduler.plan", known, {"schedule"})
    assert not is_there("engine/queue", known, {"queue"})
    assert not is_there("block_tables", known, {"tables"})
