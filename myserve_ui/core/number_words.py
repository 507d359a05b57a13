"""Numbers, times, sizes and models as people read them, a dash for what is not known. Nothing is escaped here."""

from __future__ import annotations

UNKNOWN = "–"
KIB, MIB, GIB = 2**10, 2**20, 2**30
PRECISION_WORDS = {"full": "full precision", "nf4": "4-bit NF4", "int8": "8-bit LLM.int8", "int4": "4-bit int4"}


def decimal(value: float | None) -> str:
    """Three digits that matter, zeros at the end too, as columns want them: 0.123, 1.50, 12.3, 1,234."""
    if value is None:
        return UNKNOWN
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}" if value else "0"


def signed(value: float) -> str:
    """A difference: +12.3, −4.56."""
    return f"{'−' if value < 0 else '+'}{decimal(abs(value))}"


def short_number(value: float | None) -> str:
    """Three digits that matter, no zeros at the end: 0.123, 1.5, 12.3, 1,234."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A share of 1: 42 %."""
    return UNKNOWN if share is None else f"{share:.0%}".replace("%", " %")


def seconds(value: float | None) -> str:
    """How long one thing took: 48 ms, 2.6 s."""
    if value is None:
        return UNKNOWN
    return f"{value * 1000:.0f} ms" if value < 0.9995 else f"{value:.1f} s"


def duration(value: float) -> str:
    """How long a person waits, in whole seconds: 8 s, 3 min 5 s."""
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def kib(num_bytes: float | None) -> str:
    """45.0 KiB, such as a token's keys and values."""
    return UNKNOWN if num_bytes is None else f"{num_bytes / KIB:,.1f} KiB"


def mib(num_bytes: float | None) -> str:
    """1,024 MiB, such as a model's weights."""
    return UNKNOWN if num_bytes is None else f"{num_bytes / MIB:,.0f} MiB"


def gib(num_bytes: float | None) -> str:
    """7.8 GiB, such as a machine's memory."""
    return UNKNOWN if num_bytes is None else f"{num_bytes / GIB:,.1f} GiB"


def count(number: int, word: str) -> str:
    """1 token, 1,200 tokens."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def precision_words(precision: str) -> str:
    """4-bit NF4; a precision that has no words is its own name."""
    return PRECISION_WORDS.get(precision, precision)


def model_words(model: str, precision: str) -> str:
    """A model as a name with its precision in words: tiny, 4-bit NF4. Its id may end in the precision."""
    return f"{model.removesuffix(f':{precision}')}, {precision_words(precision)}" if precision else model
