"""How a decomposition is made, and when it is refused."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch

from tl_ffblock.errors import InputError

Method: TypeAlias = Literal["exact", "captum"]
ValueBias: TypeAlias = Literal["bias", "token"]
Precision: TypeAlias = Literal["float32", "bfloat16", "float64"]

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Relative completeness error above which a result is refused, by the model's dtype."""


@dataclass(frozen=True)
class Settings:
    """How a decomposition is made."""

    method: Method = "exact"
    """"exact": closed form of Integrated Gradients; "captum": Gauss-Legendre, as in the paper."""
    n_steps: int = 50
    """Quadrature steps of "captum"."""
    value_bias: ValueBias = "bias"
    """Where b_V goes: "bias" as in eq. 7 and 21, "token" as in the 2020/2021 code."""
    rtol: float = TOLERANCE[torch.float32]
    """Relative completeness error above which a result is refused."""
    precision: Precision = "float32"
    """"float32" or "float64" throughout; "bfloat16" rounds the rows of the one large product, an approximation."""
    chunk_bytes: int | None = None
    """What the packed rows may occupy; None means 24 MB on a CPU, 1 GB on a GPU."""

    def __post_init__(self) -> None:
        if self.method not in ("exact", "captum"):
            raise InputError(f'method={self.method!r}: expected "exact" or "captum".')
        if self.value_bias not in ("bias", "token"):
            raise InputError(f'value_bias={self.value_bias!r}: expected "bias" or "token".')
        if not isinstance(self.n_steps, int) or self.n_steps < 1:
            raise InputError(f"n_steps={self.n_steps!r}: expected a whole number, at least 1.")
        if not isinstance(self.rtol, int | float) or not self.rtol > 0:
            raise InputError(f"rtol={self.rtol!r}: expected a positive number.")
        if self.precision not in get_args(Precision):
            raise InputError(f"precision={self.precision!r}: expected one of {', '.join(get_args(Precision))}.")
        if self.chunk_bytes is not None and self.chunk_bytes < 1:
            raise InputError(f"chunk_bytes={self.chunk_bytes}: expected a positive number of bytes.")

    @property
    def dtype(self) -> torch.dtype:
        """The arithmetic of everything but the large product."""
        return torch.float64 if self.precision == "float64" else torch.float32
