"""Several models: as options, in a variable, or in a file whose mistakes are named by table and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from myserve_ui import LLM
from myserve_ui.cli.bench_arguments import read_bench_arguments
from myserve_ui.cli.commands import MISUSED, main
from myserve_ui.errors import InvalidRequestError, ModelNotFoundError, SettingsError
from myserve_ui.model_settings import catalog_of
from myserve_ui.settings import Settings, read_settings

FILE = """
[[model]]
model = "./weights/tiny"
template = "own.jinja"

[[model]]
model = "someone/some-model"
name = "chat:large"
precisions = ["nf4", "full", "nf4"]
dtype = "bf16"
context = 1024
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str | bytes) -> Path:
        path = tmp_path / "models.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    (tmp_path / "own.jinja").write_text("{{ messages }}")
    return write


def keys_of(settings: Settings) -> list[str]:
    return [entry.key for entry in catalog_of(settings)]


def complaint_about(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        read_settings(["--models", str(path)], {})
    assert "\n" not in caught.value.message
    return caught.value.message.replace(f"{path.parent}/", "")


def test_one_model_is_offered_in_every_precision():
    assert keys_of(Settings(model="a/b", precision="nf4")) == ["a/b:nf4", "a/b", "a/b:int8", "a/b:int4"]


@pytest.mark.parametrize(
    ("options", "variables"),
    [(["--model", "a/b", "--model", "c/d"], {}), (["--model=a/b, c/d"], {}), ([], {"MYSERVE_MODEL": "a/b,c/d"})],
)
def test_several_models_are_options_or_comma_separated_and_the_first_is_the_default(options, variables):
    settings = read_settings(options, variables)
    assert settings.model == ("a/b", "c/d")
    assert catalog_of(settings).default.key == "a/b"
    assert keys_of(settings)[::4] == ["a/b", "c/d"]


def test_a_file_says_of_each_model_what_it_is_called_and_how_it_is_loaded(write):
    path = write(FILE)
    settings = read_settings([], {"MYSERVE_MODELS": str(path)})
    first, *others = catalog_of(settings)
    assert (first.key, first.options.chat_template) == ("tiny", str(path.parent / "own.jinja"))
    assert Path(first.source.location) == path.parent / "weights/tiny"
    second = [entry for entry in others if entry.source.name == "chat:large"]
    assert [entry.key for entry in second] == ["chat:large", "chat:large:nf4"]
    assert (second[0].options.dtype, second[0].options.max_model_len) == ("bf16", 1024)
    assert second[0].source.location == "someone/some-model"


def test_those_of_model_come_before_those_of_a_file(write):
    settings = read_settings(["--models", str(write(FILE)), "--model", "a/b"], {})
    assert [table.name or table.model for table in settings.served][::2] == ["a/b", "chat:large"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "models.toml has no model; each is a table below [[model]]."),
        ("model = []", "models.toml has no model; each is a table below [[model]]."),
        ("[model]\nname = 'a'", "models.toml: model is no list of tables; each model is a table below [[model]]."),
        ("port = 1\n[[model]]\nmodel = 'a'", "models.toml: port belongs to no model; each is a table below [[model]]."),
        ("[[model]", "models.toml is no TOML: Expected ']]' at the end of an array declaration"),
        (b"\xff", "models.toml is not UTF-8 text (byte 0); save it as UTF-8."),
        ("[[model]]\nname = 'a'", "models.toml, table 1: model is missing: a hub id, a folder, a .gguf file or"),
        ("[[model]]\nmodel = 'a'\ncontxt = 9", "models.toml, table 1: contxt is not a key; the nearest is context."),
        (
            "[[model]]\nmodel = 'a'\n[[model]]\nmodel = 'b'\nzzz = 9",
            "models.toml, table 2: zzz is not a key; there are model, name, precisions, dtype, context, template.",
        ),
        ("[[model]]\nmodel = 5", "models.toml, table 1: model is '5', but must be a text that is not empty."),
        (
            "[[model]]\nmodel = 'a'\ncontext = '512'",
            "models.toml, table 1: context is '512', but must be a whole number of at least 16.",
        ),
        (
            "[[model]]\nmodel = 'a'\ncontext = true",
            "models.toml, table 1: context is 'True', but must be a whole number of at least 16.",
        ),
        (
            "[[model]]\nmodel = 'a'\nprecisions = ['int2']",
            "models.toml, table 1: precisions is \"['int2']\", but must be a list of full, nf4, int8, int4.",
        ),
        (
            "[[model]]\nmodel = 'a'\nprecisions = []",
            "models.toml, table 1: precisions is '[]', but must be a list of full, nf4, int8, int4.",
        ),
        (
            "[[model]]\nmodel = 'a'\ndtype = 'fp8'",
            "models.toml, table 1: dtype is 'fp8', but must be one of auto, bf16, fp16, fp32.",
        ),
        (
            "[[model]]\nmodel = 'a'\nname = 'two words'",
            "models.toml, table 1: name is 'two words', but must be like tiny or team/chat.",
        ),
        (
            "[[model]]\nmodel = 'a'\nname = 'a:NF4'",
            "models.toml, table 1: name is 'a:NF4', which reads like the precision nf4 of a model;",
        ),
        (
            "[[model]]\nmodel = 'a'\nname = 'full'",
            "models.toml, table 1: name is 'full', which reads like the precision",
        ),
        (
            "[[model]]\nmodel = 'a'\ntemplate = 'absent.jinja'",
            "models.toml, table 1: template is 'absent.jinja', but must be a Jinja text, or a file",
        ),
    ],
)
def test_a_mistake_in_a_file_is_named_by_table_and_key(write, text, complaint):
    assert complaint_about(write(text)).startswith(complaint)


def test_a_file_that_is_not_there_is_told(tmp_path):
    assert complaint_about(tmp_path / "absent.toml") == "absent.toml cannot be read: No such file or directory."


def test_two_models_of_one_name_are_refused_with_the_way_out(write):
    with pytest.raises(
        SettingsError, match=r"--model /x/tiny and --model /y/tiny are both called tiny: give one of them"
    ):
        catalog_of(Settings(model=("/x/tiny", "/y/tiny")))
    path = write("[[model]]\nmodel = '/x/tiny'\n[[model]]\nmodel = 'a'\nname = 'tiny'\n")
    with pytest.raises(SettingsError, match=r"models.toml, table 1 and .*models.toml, table 2 are both called tiny"):
        catalog_of(Settings(models=path))


def test_a_default_that_is_not_offered_in_the_precision_asked_for_is_refused(write):
    path = write("[[model]]\nmodel = 'a'\nprecisions = ['nf4', 'int4']\n")
    assert keys_of(Settings(models=path)) == ["a:nf4", "a:int4"]
    assert keys_of(Settings(models=path, precision="int4")) == ["a:int4", "a:nf4"]
    with pytest.raises(SettingsError, match=r"table 1: precisions are nf4, int4, but --precision or MYSERVE_PRECISION"):
        catalog_of(Settings(models=path, precision="full"))


def test_a_refused_name_lists_keys_but_not_without_end():
    with pytest.raises(ModelNotFoundError) as few:
        catalog_of(Settings(model="a")).get("b")
    assert few.value.message == "There is no model 'b' here; ask for one of: a, a:nf4, a:int8, a:int4."
    with pytest.raises(ModelNotFoundError, match=r"and 28 more, which GET /v1/models lists\.$"):
        catalog_of(Settings(model=tuple(f"m{number}" for number in range(10)))).get("b")


def test_what_is_of_one_model_refuses_several(write, capsys):
    with pytest.raises(SettingsError, match="An LLM is one model, not 2"):
        LLM(models=write(FILE))
    assert main(["perplexity", "--model", "a", "--model", "b"]) == MISUSED
    assert "perplexity is of one model" in capsys.readouterr().err


def test_a_benchmark_of_several_models_says_which_it_measures():
    asked = read_bench_arguments(["--model", "a", "--model", "b", "--precisions", "a,b:nf4"])
    assert asked.settings == ("--model", "a", "--model", "b")
    assert asked.own.precisions == ("a", "b:nf4")
    with pytest.raises(InvalidRequestError, match="--precisions A,B:nf4"):
        read_bench_arguments(["--model", "a,b"])
