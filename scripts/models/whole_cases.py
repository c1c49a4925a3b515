"""All whole-model cases."""

from __future__ import annotations

from collections.abc import Iterator

from models.cases import Case
from models.conversion_cases import conversion_cases
from models.whole_declared import declared_cases
from models.whole_exports import export_cases
from models.whole_flow import flow_cases
from models.whole_functions import function_cases
from models.whole_half import half_cases
from models.whole_optimizer import optimizer_cases
from models.whole_quantizers import quantizer_cases
from models.whole_shapes import shape_cases
from models.whole_weights import weight_cases


def whole_cases() -> Iterator[Case]:
    yield from conversion_cases()
    yield from declared_cases()
    yield from export_cases()
    yield from flow_cases()
    yield from function_cases()
    yield from half_cases()
    yield from optimizer_cases()
    yield from quantizer_cases()
    yield from shape_cases()
    yield from weight_cases()
