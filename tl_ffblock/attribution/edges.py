"""Edge attribution patching: what a sender's change does to the target through one receiver's input.

    edge(s, r) = <J (out_s(corrupted) - out_s(clean)), df/d input_r>          Syed et al. 2023

df/d input_r goes through the receiver and all behind it, by the local rules; J leads from the sender's output to the
receiver's input past all attention and feed-forwards: along sums, and through norms of branches or of the stream, to first
order (edge_walk.py). With steps the mean over runs between the two (EAP-IG, Hanna et al. 2024).

Two laws are measured and held: senders' changes sum to the change of the stream; derivatives by all inputs of a layer sum,
with what goes past, to that by the stream before it. Positions are walked some at a time, so that memory is bounded by the
result and one buffer.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.edge_walk import Derivatives, EdgeWalk
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.traced import Traced
from tl_ffblock.errors import CompletenessError, UnsupportedModelError
from tl_ffblock.graphs.edge_estimates import RECEIVERS, SENDERS, EdgeEstimates, edge_components
from tl_ffblock.graphs.graph import GraphCertificate, GraphTarget

KEEPS = frozenset({"residual", "z", "mlp_out", "q", "k", "v", "ff_in", "norms"})
"""What a run has to keep for its edges."""
BUFFER_BYTES = 2**26
"""What the senders' changes at the positions that are walked together may take."""


class EdgeSums:
    """Edges between two runs of one prompt each, summed over the runs whose derivatives are averaged."""

    def __init__(self, run: Run, clean: Traced, corrupted: Traced, *, by_position: bool) -> None:
        model = run.model
        self.run, self.clean, self.corrupted = run, clean, corrupted
        n_heads, n_layers = model.n_heads, model.n_layers
        fed = model.family.order != "attn_only"
        _refuse_unseen(run, clean, n_layers if fed else 0)
        n_kv = clean.tape.kept["v", 0].shape[2]
        self.nodes = edge_components(n_layers, n_heads, n_kv, fed=fed)
        self.senders, self.receivers = (
            [number for number, node in enumerate(self.nodes) if node.kind in kinds] for kinds in (SENDERS, RECEIVERS)
        )
        shape = (len(self.senders), len(self.receivers), len(run.sequences[0].tokens))
        self.values = torch.zeros(shape if by_position else shape[:2], dtype=run.settings.dtype)
        self.possible = torch.zeros(shape[:2], dtype=torch.bool)
        self.streams = 0.0
        self.derivatives = 0.0

    def add(self, traced: Traced, derivatives: Derivatives, read_at: int, weight: float) -> None:
        """Add the edges by one run's derivatives.

        Args:
            traced: The run, whose norm scales are used.
            derivatives: By its kept tensors.
            read_at: The layer at whose input the target is read; the number of layers is the end.
            weight: Of this run.

        Raises:
            CompletenessError: if the derivatives by a layer's inputs are not that by the residual stream, or senders are not
                the residual stream where it is a sum of them.
        """
        n_positions, width = self.clean.tape.kept["residual", 0].shape[1:]
        each = len(self.senders) * width * self.values.element_size()
        at_once = max(1, BUFFER_BYTES // each)
        for first in range(0, n_positions, at_once):
            EdgeWalk(self, traced, derivatives, slice(first, first + at_once), weight).through(read_at)
        self._hold()

    def labelled(self, labels: tuple[str, ...], target: GraphTarget) -> EdgeEstimates:
        """What was summed, as its reader holds it."""
        summed = self.values.sum(dim=-1) if self.values.ndim == 3 else self.values
        rows, columns = self.possible.nonzero(as_tuple=True)
        weights = summed[rows, columns]
        senders, receivers = torch.tensor(self.senders), torch.tensor(self.receivers)
        into, out = dict(zip(self.receivers, summed.sum(dim=0).tolist(), strict=True)), summed.sum(dim=1).tolist()
        shares = into | dict(zip(self.senders, out, strict=True))
        return EdgeEstimates(
            model=self.run.model.name,
            labels=labels,
            targets=(target,),
            nodes=tuple(
                replace(node, shares=(shares[number],), own_shares=(0.0,)) for number, node in enumerate(self.nodes)
            ),
            ends=torch.stack([senders[rows], receivers[columns]], dim=1),
            weights=weights[:, None],
            sizes=weights.abs(),
            at_positions=self.values[rows, columns] if self.values.ndim == 3 else None,
            certificate=GraphCertificate(
                {"streams": self.streams, "derivatives": self.derivatives}, self.run.settings.rtol
            ),
            rules=self.clean.rules.name,
        )

    def own(self, tensor: Float[Tensor, "1 length ..."], positions: slice) -> Float[Tensor, "pos ..."]:
        """Some positions of a tensor of a run, in the result's arithmetic."""
        return tensor.detach()[0, positions].to(self.values.dtype)

    def change(self, name: str, layer: int, positions: slice) -> Float[Tensor, "pos ..."]:
        """A kept tensor of the corrupted run less that of the clean one."""
        first, second = (traced.tape.kept[name, layer] for traced in (self.clean, self.corrupted))
        return self.own(second, positions) - self.own(first, positions)

    def _hold(self) -> None:
        run = self.run
        rtol, edited = run.settings.rtol, self.clean.tape.edited | self.corrupted.tape.edited
        if not self.derivatives <= rtol:
            raise CompletenessError(
                f"{run.model.name}: derivatives by the inputs of heads and feed-forwards miss that by the residual stream by "
                f"{self.derivatives:.1e} (tolerance {rtol:.0e}). No edges are made; an edit of your hooks inside a layer does this."
            )
        plain = run.model.family.order in ("pre_ln", "parallel", "attn_only") and not edited
        if plain and not self.streams <= rtol:
            raise CompletenessError(
                f"{run.model.name}: the changes of all senders miss that of the residual stream by {self.streams:.1e} of its norm "
                f"(tolerance {rtol:.0e}). No edges are made."
            )


def _refuse_unseen(run: Run, traced: Traced, n_fed: int) -> None:
    kept = [("v", layer) for layer in range(run.model.n_layers)]
    kept += [(name, layer) for layer in range(n_fed) for name in ("ff_in", "mlp_out")]
    missing = sorted({name for name, layer in kept if (name, layer) not in traced.tape.kept})
    if missing:
        raise UnsupportedModelError(
            f"{run.model.name} ({run.model.family.name}): no HookPoint showed {', '.join(missing)} of its layers, so there are no "
            "edges. Leave edges=True out."
        )
