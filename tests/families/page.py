"""Renders the verdicts of tests/families/report.py as docs/models.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

HEAD = """# Which models are served, and how right

Made by `python -m tests.families.report`; do not edit. Every causal type of the installed transformers, as a tiny
seeded model of a few layers, is loaded from a folder by the app's own loader in the forms that its row names, and asked
for greedy text: alone, batched, staggered, with a prefix from the cache, and preempted (the forms after the first:
batched, and with a prefix). Prompts have 3 to 130 tokens, so that windows (24), chunks (32) and the like are passed.
A form that a row does not name was not tried for that type; what is refused in full precision was not tried otherwise.
The model's own `generate` says what is right. In fewer bits, tokens that are as likely as rounding can tell may differ.

What this does not say: how good a model is, and whether a published checkpoint of a type has settings that its defaults
do not have. Every model is checked again when it is loaded (see `docs/architecture.md`), and refused if it differs.
"""
EARLIER = "full, an earlier state"
EARLIER_WORDS = f"""Where the form says "{EARLIER}", the last run ended before the type, and the row is of a run before:
the code of the app has changed since, in the order of its sums and in the noise that its check allows for.
"""
ORDER = ("wrong", "right", "right, but", "refused", "not tried")


def verdict_of(found: Mapping[str, Any]) -> tuple[str, str]:
    """The verdict on a type and the words that go with it."""
    if "unmade" in found:
        return "not tried", f"no tiny model could be made: {_plain(found['unmade'])}"
    forms: Mapping[str, Any] = found["forms"]
    first = next(iter(forms.values()))
    if first["verdict"] == "refused":
        return "refused", _plain(" ".join(first["words"]))
    if wrong := [form for form, each in forms.items() if each["verdict"] == "wrong"]:
        return "wrong", " ".join(f"{form}: {_plain('; '.join(forms[form]['words']))}" for form in wrong)
    remarks = list(_remarks(forms))
    return ("right, but", "; ".join(remarks)) if remarks else ("right", "")


def render(found: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """The whole page."""
    verdicts = {name: verdict_of(found[name]) for name in sorted(found)}
    counts = Counter(verdict for verdict, _ in verdicts.values())
    is_mixed = any(EARLIER in each.get("forms", {}) for each in found.values())
    lines = [
        HEAD,
        *([EARLIER_WORDS] if is_mixed else []),
        "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
        "",
    ]
    lines += ["| verdict | types |", "|---|---|", *(f"| {each} | {counts[each]} |" for each in ORDER), ""]
    lines += ["| type | verdict | forms | because |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {verdict} | {_forms(found[name])} | {words} |" for name, (verdict, words) in verdicts.items()
    ]
    return "\n".join(lines) + "\n"


def _forms(found: Mapping[str, Any]) -> str:
    return "; ".join(found.get("forms", {}))


def _remarks(forms: Mapping[str, Any]) -> Iterator[str]:
    seen = set()
    for form, each in forms.items():
        if each["verdict"] != "right":
            what = {"refused": "is refused", "unmade": "could not be compared"}[each["verdict"]]
            yield f"{form} {what}: {_plain(' '.join(each['words']))}"
            continue
        for words in each["words"]:
            if words not in seen:
                seen.add(words)
                yield f"{form}: {_plain(words)}"
        if each["context"] < each["stated"]:
            yield f"{form}: the context ends at {each['context']} of {each['stated']} tokens"
    whole = {form: tuple(each["whole"]) for form, each in forms.items() if each.get("whole")}
    for parts in dict.fromkeys(whole.values()):
        which = ", ".join(form for form, own in whole.items() if own == parts)
        yield f"{', '.join(f'`{part}`' for part in parts)} stay whole in {which}"


def _plain(words: str) -> str:
    """As a cell of a table."""
    return " ".join(words.replace("|", "/").split())
