"""Known answers for the statistics of the load generator, from SciPy, NumPy and statsmodels.

    python3 -m venv venv && venv/bin/pip install scipy==1.15.3 numpy==2.2.6 statsmodels==0.15.0
    venv/bin/python statistics.py >statistics.json

The samples are drawn from a fixed seed, so the file comes out the same.
"""

import itertools
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


def inverted(ends, p):
    """The locations that a test does not reject at 5 %, tried between its ends; none if it rejects nothing far outside."""
    ends = np.unique(ends)
    between = [ends[0] - 1.0, *((ends[1:] + ends[:-1]) / 2), ends[-1] + 1.0]
    accepted = [p(location) > 0.05 for location in between]
    if accepted[0]:
        return None
    first, last = accepted.index(True), len(accepted) - accepted[::-1].index(True) - 1
    return [float(ends[first - 1]), float(ends[last])]


def walsh_intervals():
    for n in (3, 5, 6, 7, 8, 10, 13, 20):
        values = random.lognormal(0, 0.5, n).round(6)
        averages = [(values[i] + values[j]) / 2 for i in range(n) for j in range(i, n)]
        interval = inverted(averages, lambda centre: stats.wilcoxon(values - centre, method="exact").pvalue)
        yield {"values": values.tolist(), "interval": interval}


def median_intervals():
    for n in (5, 6, 8, 10, 12, 30, 100):
        values = random.lognormal(0, 0.5, n).round(6)
        interval = stats.quantile_test(values, q=1.0, p=0.5).confidence_interval(0.95)
        interval = [float(interval.low), float(interval.high)]
        yield {"values": values.tolist(), "interval": None if np.isnan(interval).any() else interval}


def shifts():
    for n, m in ((3, 3), (4, 4), (3, 5), (2, 7), (4, 6), (6, 6), (7, 5), (12, 9)):
        first, second = random.lognormal(0, 0.5, n).round(6), random.lognormal(0.3, 0.5, m).round(6)
        differences = [a - b for a in first for b in second]
        p = lambda shift: stats.mannwhitneyu(first - shift, second, method="exact").pvalue
        yield {
            "first": first.tolist(),
            "second": second.tolist(),
            "shift": float(np.median(differences)),
            "interval": inverted(differences, p),
        }


def joint():
    """Families of figures of two sides, tested by every division of the units; the statistic is the correlation."""
    for n, m, figures in ((4, 4, 1), (4, 4, 6), (5, 3, 4), (2, 6, 3)):
        values = random.normal(0, 1, (figures, n + m)).round(6)
        values[0, :n] += 3
        divisions = [np.isin(range(n + m), chosen) for chosen in itertools.combinations(range(n + m), n)]
        every = np.array([[abs(stats.pearsonr(division, of).statistic) for division in divisions] for of in values])
        order = sorted(range(figures), key=lambda figure: -every[figure, 0])
        p, largest = [0.0] * figures, 0.0
        for place, figure in enumerate(order):
            among = every[order[place:]].max(axis=0)
            largest = max(largest, float((among >= every[figure, 0] - 1e-9).mean()))
            p[figure] = largest
        yield {"first": values[:, :n].tolist(), "second": values[:, n:].tolist(), "p": p}


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
            "walsh": list(walsh_intervals()),
            "median": list(median_intervals()),
            "shift": list(shifts()),
            "joint": list(joint()),
            "holm": [{"p": p, "corrected": [float(q) for q in multipletests(p, method="holm")[1]]} for p in families],
        },
        sys.stdout,
        indent=1,
    )
    print()


if __name__ == "__main__":
    main()
