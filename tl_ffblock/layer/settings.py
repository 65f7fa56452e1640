"""How a decomposition is made, and when it is refused."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.signatures import real

Method: TypeAlias = Literal["exact", "captum"]
ValueBias: TypeAlias = Literal["bias", "token"]
Precision: TypeAlias = Literal["float32", "bfloat16", "float64"]

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Relative completeness error above which a result is refused, by the model's dtype."""


N_STEPS = 50
"""Quadrature steps of "captum" unless told otherwise."""


def refuse_tolerance(rtol: object) -> None:
    """Refuse a tolerance that refuses nothing, or everything.

    Raises:
        InputError: if it is not a positive, finite number.
    """
    number = real(rtol)
    if number is None or number <= 0:
        raise InputError(
            f"rtol={brief(rtol)}: expected a positive number, such as 1e-3, or None for that of the model's dtype."
        )


@dataclass(frozen=True)
class Settings:
    """How a decomposition is made."""

    method: Method = "exact"
    """"exact": closed form of Integrated Gradients; "captum": Gauss-Legendre, as in the paper."""
    n_steps: int = N_STEPS
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
        for name, kind in (("method", Method), ("value_bias", ValueBias), ("precision", Precision)):
            if getattr(self, name) not in get_args(kind):
                expected = " or ".join(f'"{value}"' for value in get_args(kind))
                raise InputError(f"{name}={getattr(self, name)!r}: expected {expected}.")
        whole_number(self.n_steps, "n_steps", at_least=1)
        if self.method != "captum" and self.n_steps != N_STEPS:
            raise InputError(
                f'n_steps={self.n_steps} without method="captum": the closed form has no steps. Leave it out.'
            )
        refuse_tolerance(self.rtol)
        if self.precision == "bfloat16" and self.method == "captum":
            raise InputError(
                'precision="bfloat16" with method="captum": the quadrature is not rounded. Use "float32" or "float64", or '
                'method="exact".'
            )
        if self.chunk_bytes is not None:
            whole_number(self.chunk_bytes, "chunk_bytes", at_least=1)

    def refuse_rounding(self, made: str) -> None:
        """Refuse bfloat16 where no large product is made: it would loosen the tolerance and change no number.

        Raises:
            InputError: for `precision="bfloat16"`.
        """
        if self.precision == "bfloat16":
            raise InputError(
                f'precision="bfloat16" rounds the large product of contribution_maps alone, and changes nothing in {made}. Use '
                '"float32" or "float64".'
            )

    @property
    def dtype(self) -> torch.dtype:
        """The arithmetic of everything but the large product."""
        return torch.float64 if self.precision == "float64" else torch.float32
