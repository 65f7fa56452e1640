"""What is read of a run: one family of functions of logits [batch pos d_vocab] to one number a run.

    metric = ffb.logit(" Mary", minus=" John", model=model)
    metric(model(tokens))  # [batch]

metric.py       what a metric is; a function that somebody else wrote
answers.py      the logit, probability or rank of a token
comparisons.py  divergence from the clean run, loss
"""

from tl_ffblock.metrics.answers import logit, logit_difference, probability, rank
from tl_ffblock.metrics.comparisons import KLDivergence, kl_divergence, loss
from tl_ffblock.metrics.metric import CleanRun, LogitFunction, Metric, PlainMetric, as_metric, run_by_run

__all__ = [
    "CleanRun",
    "KLDivergence",
    "LogitFunction",
    "Metric",
    "PlainMetric",
    "as_metric",
    "kl_divergence",
    "logit",
    "logit_difference",
    "loss",
    "probability",
    "rank",
    "run_by_run",
]
