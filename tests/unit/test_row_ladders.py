"""A row filled up to a rung of its ladder comes out the same in any company."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from myserve_ui.kernels.linear.int4 import Int4Linear
from myserve_ui.kernels.linear.packed import PackedLinear, can_pack
from myserve_ui.kernels.row_ladder import RowLadder, common_ladder, find_row_ladders
from myserve_ui.models.tiny import FAMILIES, build_tiny_model

TRIED = (1, 2, 3, 4, 6, 8, 12)


def test_rows_are_filled_up_to_the_next_rung_and_above_them_to_a_multiple():
    ladder = RowLadder((3, 4, 6, 8, 12), unit=3)
    assert [ladder.fit(rows) for rows in (1, 3, 5, 9, 12, 13, 15, 100)] == [3, 3, 6, 12, 12, 15, 15, 102]
    assert [RowLadder().fit(rows) for rows in (1, 7, 100)] == [1, 7, 100]


def test_a_ladder_has_what_all_products_have_and_a_unit_whose_multiples_all_hold():
    every = frozenset(TRIED)
    assert common_ladder([every], TRIED) == RowLadder(TRIED, 1)
    assert common_ladder([every - {1, 2}, every - {3}], TRIED) == RowLadder((4, 6, 8, 12), 4)
    assert common_ladder([every - {1, 2, 4, 8}], TRIED) == RowLadder((3, 6, 12), 3)
    assert common_ladder([frozenset({12})], TRIED) == RowLadder((12,), 12)
    assert common_ladder([frozenset({8}), frozenset({12})], TRIED) is None


class Whole(nn.Module):
    """A module with one product and a head, as a model has them."""

    def __init__(self, product: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.product, self.head = product, head

    def get_output_embeddings(self) -> nn.Module:
        return self.head


class Moody(nn.Linear):
    """A product whose sums change with the number of rows: another order below five, and always where it is odd."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        result = super().forward(rows.double()).float()
        return result + (len(rows) % 2) * 1e-3 + (len(rows) < 5) * 1e-3


def test_the_kernels_moods_are_found_out():
    product, head = Moody(8, 4).double(), nn.Linear(8, 4)
    ladders = find_row_ladders(Whole(product, head), torch.float32)
    assert ladders is not None and ladders.tokens.fit(1) == 6 and ladders.tokens.fit(8) == 8


class Hopeless(nn.Linear):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return super().forward(rows) + len(rows)


def test_where_no_number_of_rows_can_be_relied_on_there_is_no_ladder():
    assert find_row_ladders(Whole(Hopeless(8, 4), nn.Linear(8, 4)), torch.float32) is None
    assert find_row_ladders(Whole(nn.Linear(8, 4), Hopeless(8, 4)), torch.float32) is None


class Router(nn.Linear):
    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(super().forward(rows).topk(2))


class Grouped(nn.Linear):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        groups, _, _ = rows.shape  # takes no rows alone
        return super().forward(rows).view(groups, -1)


@pytest.mark.parametrize("derived", [Router, Grouped])
def test_of_a_layer_that_is_more_than_a_product_the_product_is_tried(derived):
    plain, layer, head = nn.Linear(8, 4), derived(8, 4), nn.Linear(8, 4)
    layer.load_state_dict(plain.state_dict())  # the same numbers, or rounding may differ by chance
    assert find_row_ladders(Whole(layer, head), torch.float32) == find_row_ladders(Whole(plain, head), torch.float32)


def make_product(kind: str) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(96, 640, generator=generator), torch.randn(96, generator=generator)
    if kind == "packed":
        if not can_pack(torch.float32, weight.device):
            pytest.skip("needs oneDNN")
        return PackedLinear(weight, bias)
    if kind == "int4":
        return Int4Linear(weight, bias)
    layer = nn.Linear(640, 96) if kind == "linear" else Conv1D(96, 640)
    layer.weight.data = weight if kind == "linear" else weight.t().contiguous()
    return layer


@pytest.mark.parametrize("kind", ["packed", "int4", "linear", "conv"])
def test_a_filled_up_row_is_the_same_wherever_it_stands(kind):
    product = make_product(kind)
    ladders = find_row_ladders(Whole(product, nn.Linear(8, 4)), torch.float32)
    if ladders is None:
        pytest.skip("this processor's kernel has no two numbers of rows alike")
    rows = torch.randn(100, 640, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        together = in_company(product, rows, ladders.tokens)
        for start, end in ((0, 1), (3, 7), (1, 14), (20, 33), (63, 64), (40, 100)):
            assert torch.equal(in_company(product, rows[start:end], ladders.tokens), together[start:end])


def in_company(product: nn.Module, rows: torch.Tensor, ladder: RowLadder) -> torch.Tensor:
    filled = torch.cat((rows, torch.zeros(ladder.fit(len(rows)) - len(rows), rows.shape[1])))
    return product(filled)[: len(rows)]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_has_ladders_or_none(family):
    ladders = find_row_ladders(build_tiny_model(family), torch.float32)
    assert ladders is None or ladders.tokens.fit(1) <= 16
