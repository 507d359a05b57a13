"""Settings are read from the environment and the command line, and a mistake is named where it was made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from myserve_ui.cli.serve_command import exposure_warning
from myserve_ui.core.machine import is_loopback
from myserve_ui.errors import SettingsError
from myserve_ui.settings import Settings, read_settings
from myserve_ui.settings.environment import prepare_environment, without_unusable_proxies
from myserve_ui.settings.kubernetes import kubernetes_note
from myserve_ui.settings.words import option_name, variable_name

ROOT = Path(__file__).parents[2]


def complaint_about(*arguments: str, **environment: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read_settings(arguments, environment)
    return caught.value.message


def test_nothing_given_is_every_default():
    assert read_settings((), {}) == Settings()


def test_environment_fills_a_setting():
    assert read_settings((), {"MYSERVE_PORT": "8000", "PATH": "/bin"}).port == 8000


def test_command_line_wins_over_environment():
    assert read_settings(["--max-num-seqs", "4"], {"MYSERVE_MAX_NUM_SEQS": "8"}).max_num_seqs == 4


def test_a_good_option_wins_even_over_an_unreadable_variable():
    assert read_settings(["--port=1234"], {"MYSERVE_PORT": "many"}).port == 1234


@pytest.mark.parametrize("value", ["", "   "])
def test_empty_variable_counts_as_unset(value):
    assert read_settings((), {"MYSERVE_PORT": value, "MYSERVE_API_KEY": value}) == Settings()


def test_switches_can_be_set_and_unset_on_the_command_line():
    assert read_settings(["--debug"], {}).debug
    assert not read_settings(["--no-debug"], {"MYSERVE_DEBUG": "1"}).debug


@pytest.mark.parametrize(("word", "meaning"), [("1", True), ("true", True), ("on", True), ("0", False), ("no", False)])
def test_switches_are_read_from_the_environment(word, meaning):
    assert read_settings((), {"MYSERVE_FORCE_ECHO": word}).force_echo is meaning


def test_several_values_are_separated_by_commas():
    settings = read_settings(["--allowed-hosts", "a.example, b.example,"], {"MYSERVE_API_KEY": "one,two"})
    assert settings.allowed_hosts == ("a.example", "b.example")
    assert [key.get_secret_value() for key in settings.api_key] == ["one", "two"]


def test_cache_folder_may_start_at_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert read_settings((), {"MYSERVE_CACHE": "~/weights"}).cache == Path("/home/somebody/weights")


def test_plain_variables_fill_what_is_not_set_otherwise():
    settings = read_settings((), {"TRUST_REMOTE_CODE": "1", "HUGGINGFACE_TOKEN": "second", "HF_TOKEN": ""})
    assert settings.trust_remote_code
    assert settings.hf_token is not None
    assert settings.hf_token.get_secret_value() == "second"


def test_own_variable_wins_over_a_plain_one():
    settings = read_settings((), {"HF_TOKEN": "plain", "HUGGINGFACE_TOKEN": "other", "MYSERVE_HF_TOKEN": "own"})
    assert settings.hf_token is not None
    assert settings.hf_token.get_secret_value() == "own"
    assert not read_settings((), {"TRUST_REMOTE_CODE": "1", "MYSERVE_TRUST_REMOTE_CODE": "0"}).trust_remote_code


@pytest.mark.parametrize(
    ("written", "nearest"),
    [("MYSERVE_PROT", "MYSERVE_PORT"), ("MYSERVE_MAX_SEQS", "MYSERVE_MAX_NUM_SEQS"), ("myserve_port", "MYSERVE_PORT")],
)
def test_unknown_variable_is_refused_with_the_nearest_valid_one(written, nearest):
    assert complaint_about(**{written: "1"}) == f"{written} is not a setting; the nearest is {nearest}."


@pytest.mark.parametrize(
    ("written", "nearest"), [("--prot=1", "--port"), ("--max_num_seqs", "--max-num-seqs"), ("--modle", "--model")]
)
def test_unknown_option_is_refused_with_the_nearest_valid_one(written, nearest):
    assert complaint_about(written, "8") == f"{written.removesuffix('=1')} is not an option; the nearest is {nearest}."


@pytest.mark.parametrize("written", ["--nope", "--x", "--"])
def test_an_option_that_looks_like_no_other_is_told_where_they_are_listed(written):
    assert complaint_about(written, "8").startswith(f"{written} is not an option; `python app.py --help` lists them.")


def test_a_variable_that_looks_like_no_other_is_told_where_they_are_listed():
    assert complaint_about(MYSERVE_NOPE="1") == "MYSERVE_NOPE is not a setting; `python app.py --help` lists them."


def test_an_option_is_never_guessed_from_its_beginning():
    assert "--max-num-s is not an option" in complaint_about("--max-num-s", "4")


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("MYSERVE_PORT", "many", "a whole number from 0 to 65535"),
        ("MYSERVE_PORT", "65536", "a whole number from 0 to 65535"),
        ("MYSERVE_PORT", "-1", "a whole number from 0 to 65535"),
        ("MYSERVE_MAX_NUM_SEQS", "0", "a whole number from 1 to 1024"),
        ("MYSERVE_MAX_NUM_SEQS", "1.5", "a whole number from 1 to 1024"),
        ("MYSERVE_MAX_MODEL_LEN", "15", "a whole number of at least 16"),
        ("MYSERVE_KV_CACHE_GIB", "0", "a number above 0"),
        ("MYSERVE_KV_CACHE_GIB", "inf", "a number above 0"),
        ("MYSERVE_SHUTDOWN_GRACE", "nan", "a number of at least 0"),
        ("MYSERVE_MAX_BODY_MIB", "2000", "a number above 0 and at most 1024"),
        ("MYSERVE_PRECISION", "int2", "one of full, nf4, int8, int4"),
        ("MYSERVE_DEBUG", "maybe", "true or false"),
        ("MYSERVE_DEVICE", "gpu", "like auto, cpu, cuda, cuda:1 or mps"),
        ("MYSERVE_ALLOWED_ORIGINS", "https://a.example/", "like https://example.org, http://localhost:3000 or *"),
        ("TRUST_REMOTE_CODE", "maybe", "true or false"),
    ],
)
def test_bad_value_is_refused_with_its_key_and_bound(variable, value, expected):
    assert complaint_about(**{variable: value}) == f"{variable} is {value!r}, but must be {expected}."


def test_bad_value_on_the_command_line_names_the_option():
    assert complaint_about("--port", "x", MYSERVE_PORT="80") == (
        "--port is 'x', but must be a whole number from 0 to 65535."
    )


def test_every_problem_is_told_at_once_a_line_each():
    lines = complaint_about("--prot", "1", "--threads", "0", "--model=", MYSERVE_PROT="1", MYSERVE_DTYPE="fp8").split(
        "\n"
    )
    assert len(lines) == 5
    for name in ("--prot", "--threads", "--model", "MYSERVE_PROT", "MYSERVE_DTYPE"):
        assert sum(line.startswith(f"{name} ") for line in lines) == 1


def test_an_option_without_its_value_or_a_lone_word_is_refused():
    assert complaint_about("--port") == "Argument --port: expected one argument."
    assert complaint_about("qwen").startswith("'qwen' stands alone")


@pytest.mark.parametrize("value", [",", " , ,"])
def test_a_key_that_got_lost_on_its_way_does_not_open_the_app(value):
    assert complaint_about(MYSERVE_API_KEY=value).startswith("MYSERVE_API_KEY must be")
    assert complaint_about("--api-key", "") == "--api-key is empty; leave it out for the default."


def test_secrets_are_never_shown():
    settings = Settings(api_key="hush-key", hf_token="hush-token")
    assert "hush" not in f"{settings!r} {settings} {settings.model_dump_json()}"
    assert "hush" not in complaint_about("--api-keys=hush", "--port", "x", MYSERVE_API_KEY="hush", HF_TOKEN="hush")


def test_settings_cannot_be_changed_and_take_no_unknown_name():
    with pytest.raises(ValidationError):
        Settings().port = 1
    with pytest.raises(ValidationError):
        Settings(prot=1)


def test_settings_made_directly_look_at_no_environment(monkeypatch):
    monkeypatch.setenv("MYSERVE_PORT", "1")
    assert Settings().port == 7860


@pytest.mark.parametrize("name", Settings.model_fields)
def test_help_tells_every_setting_with_its_variable(name, capsys):
    with pytest.raises(SystemExit) as caught:
        read_settings(["--help"], {})
    assert caught.value.code == 0
    words = capsys.readouterr().out.replace(",", " ").split()
    assert option_name(name) in words
    assert f"[{variable_name(name)}]" in words


def test_help_tells_defaults_and_no_key_of_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("MYSERVE_API_KEY", "hush")
    with pytest.raises(SystemExit):
        read_settings(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "port to listen on; 0 takes a free one; default: 7860 [MYSERVE_PORT]" in text
    assert "seconds after which a request is ended; default: 600 [" in text
    assert "hush" not in text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_a_loopback_address_needs_no_warning(host):
    assert is_loopback(host)
    assert exposure_warning(Settings(host=host)) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "box.example", "localhost.example"])
def test_an_open_address_without_a_key_is_warned_about(host):
    assert not is_loopback(host)
    assert host in (exposure_warning(Settings(host=host)) or "")
    assert exposure_warning(Settings(host=host, api_key="a")) is None


def test_environment_is_made_quiet_but_the_user_has_the_last_word(monkeypatch):
    monkeypatch.setattr(os, "environ", {"HF_HUB_DISABLE_TELEMETRY": "0"})
    prepare_environment()
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "0"


def test_reading_settings_loads_no_heavy_library():
    script = (
        "import sys; from myserve_ui.settings import read_settings; read_settings((), {});"
        "print(sorted({'torch', 'gradio', 'transformers', 'fastapi'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


SERVICE = {
    "MYSERVE_SERVICE_HOST": "10.0.0.1",
    "MYSERVE_SERVICE_PORT": "80",
    "MYSERVE_SERVICE_PORT_HTTP": "80",
    "MYSERVE_PORT": "tcp://10.0.0.1:80",
    "MYSERVE_PORT_80_TCP": "tcp://10.0.0.1:80",
    "MYSERVE_PORT_80_TCP_PROTO": "tcp",
    "MYSERVE_PORT_80_TCP_PORT": "80",
    "MYSERVE_PORT_80_TCP_ADDR": "10.0.0.1",
    "MYSERVE_UI_PORT": "udp://[fd00::1]:7860",
    "MYSERVE_UI_SERVICE_HOST": "fd00::1",
}


def test_what_kubernetes_says_of_a_service_of_that_name_is_no_setting():
    assert read_settings((), SERVICE) == Settings()
    assert kubernetes_note({}) is None
    assert "MYSERVE_PORT_80_TCP_ADDR" in str(kubernetes_note(SERVICE))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MYSERVE_PORT", "tcp://somewhere"),
        ("MYSERVE_PORT", "http://10.0.0.1:80"),
        ("MYSERVE_SERVICE_HOST", "localhost"),
        ("MYSERVE_HOST_SERVICE", "10.0.0.1"),
        ("MYSERVE_PORT_80_TCP_ADDR", "x"),
    ],
)
def test_what_only_looks_a_little_like_it_is_a_mistake(name, value):
    assert name in complaint_about(**{name: value})


@pytest.mark.parametrize("value", ["llm", "/llm/", "/a b", "//x", "http://h/llm"])
def test_a_root_path_is_a_path(value):
    assert "/llm" in complaint_about("--root-path", value)


def test_a_proxy_that_httpx_cannot_use_is_hidden_and_comes_back(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with without_unusable_proxies():
        assert "ALL_PROXY" not in os.environ
        assert "HTTPS_PROXY" in os.environ
    assert os.environ["ALL_PROXY"] == "gopher://127.0.0.1:9"
