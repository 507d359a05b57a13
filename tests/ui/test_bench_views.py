"""What the Benchmark page shows of a document, as text: tables, plots, timelines, the roofline; all of it escaped."""

from __future__ import annotations

import csv
import io
import re
from html import escape
from xml.etree import ElementTree

import pytest

from myserve_ui.bench.client.records import Outcome
from myserve_ui.bench.documents.comparison import compare_runs
from myserve_ui.bench.documents.differences import (
    ComparedRow,
    Latencies,
    LatencyDifference,
    RatePair,
    Rates,
    RowDifference,
    RunComparison,
    Unmatched,
)
from myserve_ui.bench.documents.run import PromptSource
from myserve_ui.bench.documents.store import RunLine
from myserve_ui.bench.loads import ClosedLoop, Ramp, load_words
from myserve_ui.bench.machine.facts import Machine
from myserve_ui.bench.roofline.device_table import DEVICES
from myserve_ui.bench.roofline.documents import Room, ServedRoofline
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelCost, ModelRoofline
from myserve_ui.core.number_words import decimal
from myserve_ui.ui.benchmark.comparison_view import comparison_view, differences_view
from myserve_ui.ui.benchmark.history import run_words
from myserve_ui.ui.benchmark.plots import distribution_plots, load_plots, percentile_plots
from myserve_ui.ui.benchmark.results import csv_file, json_file, requests_file, scripts_markdown
from myserve_ui.ui.benchmark.roofline_calculator import KNOWN_MODELS, calculate, devices_view
from myserve_ui.ui.benchmark.roofline_card import card_view
from myserve_ui.ui.benchmark.roofline_plot import (
    decode_point,
    known_rooflines,
    prefill_point,
    roofline_plot,
    words_above_roof,
)
from myserve_ui.ui.benchmark.tables import failures_view, requests_csv, results_csv, results_table
from myserve_ui.ui.benchmark.timeline import pieces_of, timelines
from myserve_ui.ui.benchmark.view import plots_view, summary_view
from myserve_ui.ui.benchmark.words import circumstances, environment, legend_words, row_words, short_load
from myserve_ui.ui.shared.axes import fitting_axis, linear_axis, log_axis, number
from tests.bench.made_runs import with_rows
from tests.ui.bench_documents import (
    CLOSED,
    OPEN,
    bench_document,
    changed,
    with_request,
    with_row,
    with_settings,
)

RAMP = Ramp((ClosedLoop(1), ClosedLoop(8)))
DIFFERENCE = LatencyDifference(mean=-3.25, low=-5.0, high=-1.5, n=24, is_paired=True, is_clear=True)


@pytest.fixture(scope="module")
def document():
    return bench_document()


def figures(html):
    """Each figure as a tree; a plot that is no XML is broken somewhere."""
    return [ElementTree.fromstring(found) for found in re.findall(r"<figure.*?</figure>", html, re.DOTALL)]


def titles(tree):
    return [title.text for title in tree.iter("title")]


def comparison(*, caution=None, is_paired=True):
    rate = RatePair(a=10.0, b=15.0, ratio=1.5)
    e2e = DIFFERENCE.model_copy(update={"is_clear": False, "n": 23})
    row = RowDifference(
        load=CLOSED[0],
        a=ComparedRow(row=0, precision="full", model="tiny"),
        b=ComparedRow(row=1, precision="nf4", model="tiny:nf4"),
        caution=caution,
        latencies=Latencies(ttft_ms=DIFFERENCE, tpot_ms=None, e2e_ms=e2e),
        rates=Rates(output_throughput=rate, request_throughput=rate, goodput=rate),
    )
    unmatched = Unmatched(a=(1,), b=())
    return RunComparison(a="<a>", b="b", is_paired=is_paired, rows=(row,), unmatched=unmatched)


def test_every_plot_is_drawn_and_tells_under_which_circumstances(document):
    plots = figures(plots_view(document))
    names = [plot.find("h4").text for plot in plots]
    assert {
        "Throughput and concurrency",
        "Latency and concurrency",
        "Goodput and concurrency",
        "Goodput and rate",
        "Time to first token, percentiles",
        "Time per output token, percentiles",
        "Distribution of latency",
        "Roofline",
    } < set(names)
    assert sum(name.startswith("Timeline: ") for name in names) == len(document.rows)
    for plot in plots:
        words = plot.find("figcaption").text
        assert all(part in words for part in ("float32 on cpu", "prompts of 32", "answers of 16 to 64", "nearest rank"))
        assert "tiny, " in words and "n = 2" in words
        assert plot.find("div/svg").get("aria-label") == plot.find("h4").text


def test_a_point_of_a_plot_tells_its_row_and_value(document):
    throughput = figures(load_plots(document)[0])[0]
    assert len(titles(throughput)) == 6
    row = document.rows[0]
    assert f"tiny, full precision, 1 at once: {decimal(row.output_throughput)} tok/s (n = 24)" in titles(throughput)
    percentiles = figures(percentile_plots(document)[0])[0]
    assert len(titles(percentiles)) == 4 * len(document.rows)


def test_the_distribution_ends_at_every_answer(document):
    closed = figures(distribution_plots(document)[0])[0]
    lines = list(closed.iter("polyline"))
    assert len({line.get("class") for line in lines}) == len(lines) == 6
    assert len({line.get("class").split()[0] for line in lines}) == 6
    for line in lines:
        heights = [float(point.split(",")[1]) for point in line.get("points").split()]
        assert heights == sorted(heights, reverse=True) and (heights[0], heights[-1]) == (100, 0)


def test_what_a_server_wrote_is_escaped_everywhere(document):
    page = summary_view(document) + plots_view(document)
    assert "<b>scripted" not in page and "<processor>" not in page
    assert "&lt;b&gt;scripted" in page and "&lt;processor&gt;" in page


def test_a_tpot_of_fewer_answers_than_were_completed_is_told():
    document = bench_document(loads=[CLOSED[0]])
    assert "TPOT of" not in summary_view(document)
    few = with_row(document, tpot_ms=document.rows[0].tpot_ms.model_copy(update={"n": 3}))
    assert "1 at once: TPOT of 3 of 24 answers" in summary_view(few)


def test_prompts_of_a_file_are_named_in_the_caption(document):
    source = PromptSource(source="chats.json", count=1200, sha256="")
    told = circumstances(with_settings(document, prompts=source))
    assert "prompts of chats.json (1,200 of them, 37 tokens by usage)," in told
    assert "prompts of 32 tokens (37 by usage), answers" in circumstances(document)


def test_nothing_measured_is_told_and_draws_nothing():
    empty = changed(bench_document(), rows=(), requests=(), rooflines={})
    assert "Nothing was measured" in summary_view(empty)
    assert plots_view(empty) == ""


def test_rows_without_a_completed_request_draw_no_point_and_are_told():
    nothing = dict.fromkeys(("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"))
    document = with_rows(bench_document(loads=[CLOSED[0]]), completed=0, failed=24, **nothing)
    lost = {"outcome": Outcome.FAILED, "first_token": None}
    document = changed(document, requests=tuple(request.model_copy(update=lost) for request in document.requests))
    assert "no request was completed" in summary_view(document)
    assert load_plots(document) == percentile_plots(document) == distribution_plots(document) == []
    assert results_table(document.rows)["failed"].tolist() == ["24 failed"] * 2


def test_the_table_has_a_line_for_each_row_and_marks_rough_percentiles(document):
    table = results_table(document.rows)
    assert table["load"].tolist()[:3] == ["1 at once", "1 at once", "4 at once"]
    assert table["TTFT p99"][0].endswith("*") and not table["TTFT p50"][0].endswith("*")
    assert table["failed"].tolist().count("1 failed") == 2
    assert table["of roofline"][0] == "42 %"


def test_csv_holds_every_number_and_every_request(document):
    rows = list(csv.DictReader(io.StringIO(results_csv(document))))
    assert [float(row["ttft_ms_p50"]) for row in rows] == [row.ttft_ms.p50 for row in document.rows]
    requests = list(csv.DictReader(io.StringIO(requests_csv(document))))
    assert len(requests) == len(document.requests)
    assert float(requests[0]["end"]) == document.requests[0].end


def test_a_text_that_a_spreadsheet_would_run_stays_a_text(document):
    (first, *_) = csv.DictReader(io.StringIO(requests_csv(with_request(document, error="=1+1"))))
    assert first["error"] == "'=1+1"


def test_files_are_named_after_the_run_and_none_is_made_of_nothing(document):
    assert json_file(document)["name"] == f"bench-{document.id}.json"
    assert csv_file(document)["text"].count("\n") == 1 + len(document.rows)
    assert requests_file(document)["name"].endswith("-requests.csv")
    assert json_file(None) is csv_file(None) is requests_file(None) is None


def test_a_run_of_what_is_refused_today_is_shown_and_cannot_be_asked_again(document):
    assert "python -m myserve_ui bench" in scripts_markdown(document)
    twice = with_settings(document, loads=(CLOSED[0], CLOSED[0]))
    assert scripts_markdown(twice).endswith("The load of 1 at once is named 2 times; name it once.")


def test_more_than_the_roofline_is_explained(document):
    assert "busy when its speed was measured" in summary_view(with_row(document, roofline_share=1.48))
    assert "busy" not in summary_view(document)


def test_the_cached_share_is_a_column_a_sentence_and_in_every_csv(document):
    told = with_request(with_row(document, cached_tokens=168, cached_share=0.19), cached_tokens=7)
    assert results_table(told.rows)["cached"].tolist()[:2] == ["19 %", "–"]
    assert next(csv.DictReader(io.StringIO(results_csv(told))))["cached_share"] == "0.19"
    assert next(csv.DictReader(io.StringIO(requests_csv(told))))["cached_tokens"] == "7.0"
    assert "19 % of the prompt tokens cached" in summary_view(changed(told, rows=told.rows[:1]))


def test_the_salt_is_told(document):
    for salt, words in (("3f", "salt 3f"), ("", "no salt: prompts that a server kept")):
        assert words in summary_view(with_settings(document, salt=salt))


def test_what_was_cached_is_left_out_of_prefill():
    some = prefill_point(prefill_row(cached_share=0.75), ROOFLINE)
    assert some.y == pytest.approx(prefill_point(prefill_row(), ROOFLINE).y / 4)
    assert "25 tokens in 50.0 ms, 75 more were cached" in some.title
    assert prefill_point(prefill_row(cached_share=1.0), ROOFLINE) is None


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (None, "does not tell how many prompt tokens were cached"),
        (0.0, "of the roof: the machine was measured as slower"),
        (0.5, "50 % of its prompt tokens were cached and are left out, so the machine was measured as slower"),
    ],
)
def test_a_point_above_the_roof_is_explained(document, share, words):
    assert words_above_roof(document) == []
    quick = document.rows[0].ttft_ms.model_copy(update={"p50": 0.1})
    above = with_row(document, cached_share=share, ttft_ms=quick)
    (sentence,) = words_above_roof(above)
    assert sentence.startswith("tiny, full precision, 1 at once: prefill at") and words in sentence
    assert escape(sentence) in plots_view(above)


def test_a_caution_stands_below_a_comparison():
    told = comparison(caution="19 % <b>")
    assert "19 % &lt;b&gt;" in comparison_view(told) and "19 % &lt;b&gt;" in differences_view(told.rows)
    assert "role=" not in comparison_view(comparison())


def test_failures_are_counted_by_what_was_said(document):
    html = failures_view(document.rows)
    assert html.count("<li>") == 2 and "1 × HTTP 500" in html
    assert failures_view(document.rows[:1]) == ""


def test_a_request_is_split_into_what_it_waited_for(document):
    times = {"arrival": 0.0, "sent": 1.0, "first_token": 3.0, "last_token": 5.0, "end": 5.1}
    record = with_request(document, **times).requests[0]
    assert pieces_of(record) == [("waits", 0.0, 1.0), ("first", 1.0, 3.0), ("decode", 3.0, 5.0)]
    failed = record.model_copy(update={"outcome": Outcome.FAILED, "first_token": None})
    assert pieces_of(failed) == [("waits", 0.0, 1.0), ("lost", 1.0, 5.1)]


def test_a_timeline_of_many_requests_shows_the_first_and_says_so():
    html = timelines(bench_document(loads=[CLOSED[2]], requests=400))
    assert "the first 240 of 400 requests" in html
    assert html.count("<details open>") == 1


def test_the_servers_own_account_stands_beside_the_clients(document):
    table = results_table(document.rows)
    assert table[["queue", "prefill", "decode"]].iloc[0].tolist() == ["1.20", "30.5", "812"]
    words = "by the server's own account queue 1.20, prefill 30.5, decode 812 ms on average"
    assert all(plot.find("figcaption").text.endswith(words) for plot in figures(timelines(document)))
    assert set(results_table(with_rows(document, server_ms=None).rows)["queue"]) == {"–"}


def test_the_roofline_places_each_run_under_the_roof(document):
    (plot,) = figures(roofline_plot(document))
    words = titles(plot)
    assert len([title for title in words if "decode at" in title]) == len(document.rows)
    assert len([title for title in words if "prefill of 37 tokens" in title]) == len(document.rows)
    assert "crossover: full batch 26, nf4 batch 37" in ElementTree.tostring(plot, encoding="unicode")
    assert roofline_plot(changed(document, rooflines={})) is None
    unknown = document.rooflines["tiny"].model_copy(update={"flops_per_s": None})
    assert known_rooflines(changed(document, rooflines={"tiny": unknown})) == {}


ROOFLINE = ModelRoofline(MachineSpeed(1e9, 1e12, "cpu", "float32"), ModelCost(1_000_000, 500_000, 100), 1_000_000)


def prefill_row(**fields):
    whole = bench_document(loads=[CLOSED[0]]).rows[0]
    numbers = {
        "completed": 10,
        "output_throughput": 200.0,
        "decoding": 4.0,
        "prompt_tokens": 1000,
        "output_tokens": 400,
        "ttft_ms": whole.ttft_ms.model_copy(update={"p50": 50.0}),
    }
    return whole.model_copy(update=numbers | fields)


def test_points_of_the_roofline_follow_the_formulas():
    decode, prefill = decode_point(prefill_row(), ROOFLINE), prefill_point(prefill_row(), ROOFLINE)
    assert decode.y == pytest.approx(2 * 500_000 * 200)
    assert decode.x == pytest.approx(2 * 500_000 * 4 / (1e6 + 4 * 120 * 100))
    assert prefill.y == pytest.approx(2 * 500_000 * 100 / 0.05)
    assert prefill.x == pytest.approx(2 * 500_000 * 100 / (1e6 + 100 * 100))
    assert (
        decode_point(prefill_row(tpot_ms=None), ROOFLINE) is prefill_point(prefill_row(ttft_ms=None), ROOFLINE) is None
    )


def test_axes_are_round_and_hold_their_values():
    assert [words for _, words in linear_axis("x", [0, 76.5]).ticks] == ["0", "20", "40", "60", "80"]
    axis = log_axis("x", [3, 4000])
    assert axis.low <= 3 and axis.high >= 4000 and 2 <= len(axis.ticks) <= 7
    assert axis.place(axis.low) == 0 and axis.place(axis.high) == pytest.approx(100)
    assert fitting_axis("x", [1, 100]).is_log and not fitting_axis("x", [50, 100]).is_log
    for values in ([], [0.0], [5.0], [1e-9]):
        assert all(0 <= axis.place(tick) <= 100 for axis in (linear_axis("x", values),) for tick, _ in axis.ticks)
        assert log_axis("x", values).low < log_axis("x", values).high
    assert [number(value) for value in (0.05, 250, 4000, 1.5e6, 2e9)] == ["0.05", "250", "4k", "1.5M", "2G"]


def test_loads_have_long_and_short_names():
    assert [short_load(load) for load in (CLOSED[1], OPEN[1], RAMP)] == ["×4", "2/s", "ramp"]
    assert load_words(RAMP) == "1 to 8 at once in 2 steps"


def test_a_ramp_is_drawn_too():
    document = with_rows(bench_document(loads=[CLOSED[0]]), load=RAMP)
    assert "Throughput and ramp" in "".join(load_plots(document))
    assert "1 to 8 at once" in circumstances(document)


def test_a_peer_is_named_by_its_address():
    row = with_row(bench_document(loads=[CLOSED[0]]), model="org/model", precision="10.0.0.1:8000").rows[0]
    assert row_words(row) == "org/model, 10.0.0.1:8000, 1 at once"


def test_a_legend_names_the_model_only_where_there_are_several(document):
    assert legend_words(document.rows, document.rows[1]) == "4-bit NF4"
    other = document.rows[0].model_copy(update={"model": "other"})
    assert legend_words((*document.rows, other), other) == "other, full precision"


def test_the_environment_says_what_was_not_measured(document):
    facts = dict(environment(changed(document, machine=Machine())))
    assert facts["reads"] == facts["multiplies"] == "not measured"
    assert dict(environment(document))["reads"] == "20.0 GB/s measured"


def test_a_comparison_tells_intervals_and_what_is_clear():
    html = comparison_view(comparison())
    assert '<td class="clear">−3.25<small>−5.00 to −1.50</small></td>' in html
    assert "× 1.5" in html and "23 to 24" in html and "&lt;a&gt;" in html
    assert "1 rows have no counterpart" in html and "Paired" in html
    assert "Welch" in comparison_view(comparison(is_paired=False))


def test_differences_within_a_run_are_told_where_there_are_any():
    assert "4-bit NF4 against full precision" in differences_view(comparison().rows)
    assert differences_view(()) == ""


def test_the_card_tells_floor_ceilings_and_room():
    document = ServedRoofline(
        **dict(bench_document(loads=[CLOSED[0]]).rooflines["tiny"]),
        model="<tiny>",
        precision="full",
        kv_budget_bytes=2**30,
        fits=(Room(length=512, sequences=44),),
    )
    html = card_view(document)
    assert "26.9 ms" in html and "batch 26" in html and "45.0 KiB" in html
    assert "sequences of 512 tokens that fit" in html and "&lt;tiny&gt;" in html


def test_the_calculator_knows_models_and_says_when_they_do_not_fit():
    parameters, *shape = KNOWN_MODELS["Llama-3.1-8B"]
    fits = calculate(parameters, *shape, 16.0, 16.0, "RTX 4090", 1008, 24, 165.2, 1024)
    assert "15.9 ms" in fits and "16.06 GB" in fits and "128.0 KiB" in fits and "Ada" in fits
    assert "do not fit" in calculate(parameters, *shape, 32.0, 16.0, "RTX 4090", 1008, 24, None, 1024)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": "many"}, "written like 135M"),
        ({"layers": None}, "layers must be above 0"),
        ({"bandwidth": 0}, "bandwidth"),
        ({"context": -1}, "context must be in"),
    ],
)
def test_the_calculator_says_which_number_cannot_be(changes, words):
    numbers = {"parameters": "8B", "layers": 32, "heads": 8, "width": 128, "weight_bits": 16.0, "kv_bits": 16.0}
    device = {"name": "own", "bandwidth": 1000, "memory": 24, "teraflops": None, "context": 1024}
    assert words in calculate(**{**numbers, **device, **changes})


def test_every_known_device_names_its_source():
    html = devices_view()
    assert all(device.name in html and device.source in html for device in DEVICES)


def test_a_legend_names_the_models_in_the_order_of_the_rows(document):
    legend = figures(percentile_plots(document)[0])[0].find("ul")
    assert ["".join(item.itertext()) for item in legend] == ["full precision", "4-bit NF4"]


@pytest.mark.parametrize(
    ("models", "precisions", "words"),
    [
        (("tiny", "tiny:nf4"), ("full", "nf4"), "full precision, 4-bit NF4"),
        (("tiny", "other"), ("full",), "tiny, other"),
    ],
)
def test_a_kept_run_names_its_models_where_precisions_do_not_tell_them_apart(models, precisions, words) -> None:
    line = RunLine("id", "2026-11-29T12:00:00", models, precisions, 4, 2, 76.5, stopped=False)
    assert run_words(line) == f"2026-11-29 12:00:00 · {words} · 2 rows · best 76.5 tok/s"


def test_a_comparison_of_extreme_numbers_is_shown(document):
    row = document.rows[0].model_copy(update={"output_throughput": 1e-300})
    far = document.requests[0].model_copy(update={"end": 1e299})
    extreme = changed(document, rows=(row, *document.rows[1:]), requests=(far, *document.requests[1:]))
    for a, b in ((document, extreme), (extreme, document)):
        assert "Comparison" in comparison_view(compare_runs(a, b))
