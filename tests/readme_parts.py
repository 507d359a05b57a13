"""The parts of README.md that repeat something else, the table and the scripts; run as a program, it fills them."""

from __future__ import annotations

import re
from pathlib import Path

from myserve_ui.settings import Settings
from myserve_ui.settings.words import default_text, option_name, variable_name

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"

TABLE = re.compile(r"(<!-- settings: [^\n]* -->\n)(.*?)(<!-- end of settings -->)", re.DOTALL)
SCRIPT = re.compile(r"(<!-- (?P<path>assets/\S+) -->\n```python\n)(?P<code>.*?)(```\n)", re.DOTALL)


def settings_table() -> str:
    """One row for each setting, in the order of the class."""
    rows = ["| option | variable | default | meaning |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = f"`{default_text(field)}`" if default_text(field) else ""
        meaning = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{option_name(name)}` | `{variable_name(name)}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def filled_in(text: str) -> str:
    """The README with its repeated parts as they should be."""
    text = TABLE.sub(lambda part: part[1] + settings_table() + part[3], text)
    return SCRIPT.sub(lambda part: part[1] + (ROOT / part["path"]).read_text(encoding="utf-8") + part[4], text)


if __name__ == "__main__":
    README.write_text(filled_in(README.read_text(encoding="utf-8")), encoding="utf-8")
