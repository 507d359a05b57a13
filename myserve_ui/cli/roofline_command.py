"""`roofline`: what a decode step takes at least, of the app's model on this machine, or of any model on any device."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from myserve_ui.bench.benchmark_service import BenchmarkService
from myserve_ui.bench.roofline.calculator import ModelShape, calculate_roofline, parse_count
from myserve_ui.bench.roofline.device_table import DEVICES, Device, find_device
from myserve_ui.bench.roofline.documents import SizedRoofline
from myserve_ui.cli.bench_tables import roofline_lines, roofline_table
from myserve_ui.cli.parsing import make_parser
from myserve_ui.cli.terminal import progress_line
from myserve_ui.errors import InvalidRequestError
from myserve_ui.serving.chat_service import ChatService


def read_roofline_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Options, and what are settings of the app. Raises InvalidRequestError; --help prints and exits."""
    parser = make_parser("roofline", "What a decode step takes at least, as one JSON document.")
    parser.add_argument("--json", metavar="FILE", help="also write the document to FILE")
    parser.add_argument(
        "--calculate",
        action="store_true",
        help="for a model and a device that are not here; nothing is loaded, and `--calculate --help` says more",
    )
    if "--calculate" in arguments:
        _add_numbers(parser)
    return parser.parse_known_args(arguments)


def _add_numbers(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("the model, as in its config.json")
    model.add_argument("--parameters", required=True, metavar="N", help="such as 135M or 7B")
    model.add_argument("--layers", required=True, type=int, metavar="N")
    model.add_argument("--kv-heads", required=True, type=int, metavar="N")
    model.add_argument("--head-dim", required=True, type=int, metavar="N")
    model.add_argument("--bits", type=float, default=16.0, metavar="N", help="a parameter and its scales (%(default)g)")
    model.add_argument("--kv-bits", type=float, default=16.0, metavar="N", help="a number of the cache (%(default)g)")
    model.add_argument("--context", type=int, default=1024, metavar="N", help="tokens of a sequence (%(default)s)")
    device = parser.add_argument_group("the device")
    names = ", ".join(device.name for device in DEVICES)
    device.add_argument("--device", metavar="NAME", help=f"by its datasheet: {names}")
    device.add_argument(
        "--bandwidth",
        type=float,
        metavar="GB/s",
        help="of one that is not in the table, or in place of its datasheet's",
    )
    device.add_argument("--teraflops", type=float, metavar="N", help="its dense 16-bit matrix rate, if known")
    device.add_argument("--memory", type=float, metavar="GB", help="its memory")


def calculate(options: argparse.Namespace, rest: Sequence[str]) -> SizedRoofline:
    """The document of what the options say. Raises InvalidRequestError."""
    if rest:
        raise InvalidRequestError(f"{rest[0]} is no option of roofline --calculate, which loads no model.")
    shape = ModelShape(
        parse_count(options.parameters),
        options.layers,
        options.kv_heads,
        options.head_dim,
        weight_bits=options.bits,
        kv_bits=options.kv_bits,
    )
    return calculate_roofline(shape, _device(options), context=options.context)


def measure(benchmarks: BenchmarkService, chat: ChatService, console: Console) -> SizedRoofline:
    """The document of the app's default model on this machine, which is loaded and measured. Raises ModelLoadError."""

    async def load_and_measure() -> SizedRoofline:
        try:
            with progress_line(console) as line:
                async for progress in chat.load(""):
                    line.show(f"{progress.model}: {progress.stage}")
                line.show("measuring the machine")
                return await benchmarks.roofline("")
        finally:
            await chat.shut_down()

    return asyncio.run(load_and_measure())


def show(document: SizedRoofline, console: Console) -> None:
    """Facts, then the table."""
    for words in roofline_lines(document):
        console.print(words)
    console.print(roofline_table(document))


def _device(options: argparse.Namespace) -> Device:
    if options.device is not None:
        return _changed(find_device(options.device), options)
    if options.bandwidth is None or options.memory is None:
        raise InvalidRequestError("--calculate needs a device: --device NAME, or --bandwidth and --memory.")
    return Device("a device", options.memory, options.bandwidth, options.teraflops, "as given")


def _changed(device: Device, options: argparse.Namespace) -> Device:
    """`device` with the numbers that are given in place of its datasheet's."""
    numbers = {"gb_per_s": options.bandwidth, "teraflops": options.teraflops, "memory_gb": options.memory}
    given = {name: number for name, number in numbers.items() if number is not None}
    return replace(device, **given, source=f"{device.source}; {', '.join(given)} as given") if given else device
