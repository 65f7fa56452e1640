#!/usr/bin/env bash
set -euo pipefail

# Guess: The two-sided p value of scipy.stats.permutation_test is the share of permutations whose statistic is at
#   least as large in absolute value as the observed one.
# Truth: It is twice the smaller tail. For a lopsided null distribution the two differ: here the exact test of two
#   groups gives 0.060, and the share is 0.032, on the other side of the usual line.
# Where: scipy==1.17.1 (numpy==2.4.6).
# Why it matters: Scores of heads are skewed and groups unequal (5 induction heads against 139 others), so a test that
#   was checked against one's own loop over |t| disagrees with it.
# seen:
#   numpy==2.4.6 scipy==1.17.1
#   difference of means -1.7733, 3003 permutations, all of them
#   permutation_test, two-sided: p = 0.0599
#   share of |t*| >= |t|:        p = 0.0320
#   twice the smaller tail:      p = 0.0599

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile scipy==1.17.1 numpy==2.4.6
cat >run.py <<'PYTHON'
from importlib.metadata import version

import numpy as np
from scipy.stats import permutation_test

print(*(f"{name}=={version(name)}" for name in ("numpy", "scipy")))

generator = np.random.default_rng(206)
one, two = generator.exponential(size=8), generator.exponential(size=6) + 1
test = permutation_test(
    (one, two), lambda a, b, axis: a.mean(axis) - b.mean(axis), vectorized=True, n_resamples=np.inf
)
null, t = test.null_distribution, test.statistic
share = np.mean(np.abs(null) >= abs(t) - 1e-12)
tails = np.mean(null <= t + 1e-12), np.mean(null >= t - 1e-12)
print(f"difference of means {t:.4f}, {len(null)} permutations, all of them")
print(f"permutation_test, two-sided: p = {test.pvalue:.4f}")
print(f"share of |t*| >= |t|:        p = {share:.4f}")
print(f"twice the smaller tail:      p = {2 * min(tails):.4f}")
assert np.isclose(test.pvalue, 2 * min(tails))
assert share < 0.05 < test.pvalue
PYTHON
venv/bin/python run.py
