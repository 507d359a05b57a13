"""Files of prompts: lines, JSON and JSON lines; anything else is one sentence."""

import json

import pytest

from myserve_ui.bench.prompt_file import read_prompts
from myserve_ui.errors import InvalidRequestError

ONE, TWO = ({"conversations": [{"from": "human", "value": word}, {"value": "answer"}]} for word in ("one", "two"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("prompts", "one\n\n two \n"),
        ("prompts.txt", "\ufeffone\r\ntwo"),
        ("prompts.txt", "one\rtwo"),
        ("prompts", json.dumps(["one", "two"])),
        ("prompts.json", json.dumps([ONE, {"conversations": []}, TWO], indent=1)),
        ("prompts.jsonl", f'{json.dumps(ONE)}\n\n"two"\n'),
        ("prompts.txt", f"{json.dumps(ONE)}\n{json.dumps(TWO)}\n"),
    ],
)
def test_prompts_are_read_from_lines_and_json(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    assert read_prompts(tmp_path / name) == ("one", "two")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
@pytest.mark.parametrize("name", ["prompts.txt", "prompts.jsonl", "prompts.json"])
def test_only_line_ends_end_a_prompt(tmp_path, separator, name):
    prompts = (f"one{separator}more", "two")
    written = {
        "prompts.txt": "\n".join(prompts),
        "prompts.json": json.dumps(prompts, ensure_ascii=False),
        "prompts.jsonl": "\n".join(json.dumps(prompt, ensure_ascii=False) for prompt in prompts),
    }
    (tmp_path / name).write_text(written[name], encoding="utf-8")
    assert read_prompts(tmp_path / name) == prompts


def test_a_single_conversation_is_one_prompt(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(ONE))
    assert read_prompts(tmp_path / "one.json") == ("one",)


@pytest.mark.parametrize("lines", ["[INST] hi [/INST]\n[INST] ho", "{name} says\nwhat?", "[broken"])
def test_lines_that_only_look_like_json_are_text(tmp_path, lines):
    (tmp_path / "prompts.txt").write_text(lines)
    assert read_prompts(tmp_path / "prompts.txt") == tuple(lines.splitlines())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.json", '[{"conversations":5},{"x":1},3]', "Entry 1 of p.json is no prompt"),
        ("p.json", '["one",{"x":1}]', "Entry 2 of p.json is no prompt"),
        ("p.json", "[3]", "Entry 1 of p.json is no prompt"),
        ("p.json", '{"conversations":{"a":1}}', "Entry 1 of p.json is no prompt"),
        ("p.json", '[{"conversations":[{"value":5}]}]', "Entry 1 of p.json is no prompt"),
        ("p.json", '{"a":1}', "Entry 1 of p.json is no prompt"),
        ("p.txt", '{"a":1}\n{"a":2}', "Entry 1 of p.txt is no prompt"),
        ("p.json", "[" * 200_000, "p.json is no JSON list of prompts"),
        ("p.json", "one\ntwo", "p.json is no JSON list of prompts"),
        ("p.jsonl", '"one"\ntwo', "Entry 2 of p.jsonl is no JSON"),
        ("p.json", "[]", "holds no prompt"),
        ("p.txt", "\n \n", "holds no prompt"),
        ("p.txt", "", "holds no prompt"),
    ],
)
def test_a_file_without_prompts_is_one_sentence(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidRequestError, match=words):
        read_prompts(tmp_path / name)


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidRequestError, match="binary cannot be read as UTF-8"):
        read_prompts(tmp_path / "binary")
    with pytest.raises(InvalidRequestError, match="nothing cannot be read: No such file or directory"):
        read_prompts(tmp_path / "nothing")
