"""Known answers for the statistics of the load generator, from SciPy, NumPy and statsmodels.

    python3 -m venv venv && venv/bin/pip install scipy==1.15.3 numpy==2.2.6 statsmodels==0.15.0
    venv/bin/python statistics.py >statistics.json

The samples are drawn from a fixed seed, so the file comes out the same. What is random in SciPy (the bootstrap) is given
with many resamples, and compared with a tolerance.
"""

import json
import sys

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests

random = np.random.default_rng(20260102)


def samples():
    """Differences without ties, with ties and with zeros, of several lengths."""
    for n in (1, 2, 5, 6, 8, 10, 12, 13):
        yield random.normal(0.3, 1.0, n).round(6).tolist()
        yield random.integers(-4, 5, n).astype(float).tolist()


def wilcoxon(differences):
    nonzero = [d for d in differences if d != 0]
    if len(nonzero) < 2:
        # SciPy permutes no single value; with one sign to flip both ways are as likely.
        return 1.0
    # Every way to flip the signs, which is exact with ties, too.
    every = stats.PermutationMethod(n_resamples=2 ** len(nonzero))
    return float(stats.wilcoxon(nonzero, method=every).pvalue)


def hodges_lehmann(values):
    pairs = [(values[i] + values[j]) / 2 for i in range(len(values)) for j in range(i, len(values))]
    return float(np.median(pairs))


def rank_sums():
    for n, m in ((3, 3), (4, 6), (6, 6), (7, 5)):
        for draw in (
            lambda k: random.normal(0, 1, k).round(6),
            lambda k: random.integers(0, 5, k).astype(float),
        ):
            first, second = draw(n), draw(m) + random.integers(0, 2)
            every = stats.PermutationMethod(n_resamples=np.inf)
            # Of the U statistic, which orders the samples as the rank sum does; two-sided as twice the smaller tail.
            tails = [
                stats.mannwhitneyu(first, second, alternative=side, method=every).pvalue for side in ("less", "greater")
            ]
            yield {
                "first": first.tolist(),
                "second": second.tolist(),
                "p": float(min(1.0, 2 * min(tails))),
                "shift": float(np.median([a - b for a in first for b in second])),
            }


def bootstraps():
    for n in (6, 10, 30):
        values = random.lognormal(0, 0.5, n).round(6)
        interval = stats.bootstrap(
            (values,), np.median, n_resamples=200_000, method="percentile", rng=random, vectorized=True, batch=10_000
        ).confidence_interval
        yield {"values": values.tolist(), "low": float(interval.low), "high": float(interval.high)}


def main():
    rates = [(0, 1), (0, 10), (1, 10), (5, 10), (10, 10), (0, 30), (3, 30), (7, 100), (150, 200)]
    paired = list(samples())
    families = [random.uniform(0, 0.2, n).round(6).tolist() for n in (1, 2, 5, 9)] + [[0.01, 0.01, 0.04, 0.03, 0.9]]
    json.dump(
        {
            "clopper_pearson": [
                {
                    "bad": k,
                    "trials": n,
                    "upper_95": float(stats.binomtest(k, n, alternative="less").proportion_ci(0.95, "exact").high),
                }
                for k, n in rates
            ],
            "paired": [
                {"differences": d, "p": wilcoxon(d), "hodges_lehmann": hodges_lehmann(d)} for d in paired
            ],
            "rank_sum": list(rank_sums()),
            "holm": [{"p": p, "corrected": [float(q) for q in multipletests(p, method="holm")[1]]} for p in families],
            "bootstrap_of_median": list(bootstraps()),
        },
        sys.stdout,
        indent=1,
    )
    print()


if __name__ == "__main__":
    main()
