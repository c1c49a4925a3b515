"""What llama.cpp's `perplexity --kl-divergence` would print of the logits of cli/tests/cli/scores.rs, computed with NumPy.

The formulas are those of its tools/perplexity/perplexity.cpp: the base model's log probabilities are stored in 16 bits, rows
are computed in float, sums in double. Percentiles are told here with all digits.

    python scripts/reference/llama_cpp_scores.py
"""

import numpy as np

f4 = np.float32
SIZE, TOKENS = 64, 120


def tables():
    t, v = np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij")
    base = ((t * 31 + v * 17 + (t * v) % 23) % 97) / 8 - 4
    return base.astype(f4), (base + ((t * 13 + v * 7) % 11 - 5) / 16).astype(f4)


def stored(logits):
    largest = logits.max()
    least = max(logits.min(), f4(largest - f4(16)))
    total = np.exp(logits - largest).astype(np.float64).sum()
    log_sum = f4(np.log(total))
    lowest = f4(f4(least - largest) - log_sum)
    scale = f4(f4(largest - least) / f4(65535))
    steps = np.where(logits > least, np.rint((f4(1) / scale) * (logits - least)), 0).astype(
        np.uint16
    )
    return (scale * steps.astype(f4) + lowest).astype(f4)


def row(base, logits, token):
    log_p = stored(base)
    largest = logits.max()
    log_sum = f4(largest + f4(np.log(np.exp(logits - largest).astype(np.float64).sum())))
    wanted = log_p > -16
    terms = np.exp(log_p) * ((log_p - logits) + log_sum)
    divergence = terms[wanted].astype(np.float64).sum()
    return (
        divergence,
        np.argmax(log_p) == np.argmax(logits),
        -log_p[token],
        f4(log_sum - logits[token]),
    )


def mean(values):
    n = len(values)
    spread = np.mean(np.square(values)) - np.mean(values) ** 2
    return np.mean(values), np.sqrt(spread / (n - 1))


def percentile(values, share):
    values = np.sort(values).astype(f4)
    place = f4(share) * f4(len(values) - 1)
    below = int(place)
    part = f4(place - below)
    return (f4(1) - part) * values[below] + part * values[min(below + 1, len(values) - 1)]


def main():
    a, b = tables()
    ids = (np.arange(TOKENS) * 37 + 11) % SIZE
    # The last row has no token after it, and counts for the divergence alone.
    rows = [row(a[t], b[t], ids[min(i + 1, TOKENS - 1)]) for i, t in enumerate(ids)]
    divergences = np.array([r[0] for r in rows])
    print("kl_mean", *mean(divergences))
    print("kl_median", percentile(divergences, 0.5))
    print("kl_999", percentile(divergences, 0.999))
    same = np.mean([r[1] for r in rows])
    print("same_top", same, np.sqrt(same * (1 - same) / (TOKENS - 1)))
    nll_a = np.array([r[2] for r in rows[:-1]], np.float64)
    nll_b = np.array([r[3] for r in rows[:-1]], np.float64)
    (ln_a, error_a), (ln_b, error_b) = mean(nll_a), mean(nll_b)
    n = len(nll_a)
    covariance = (np.mean(nll_a * nll_b) - ln_a * ln_b) / (n - 1)
    error = np.sqrt(error_a**2 + error_b**2 - 2 * covariance)
    print("reference", np.exp(ln_a), np.exp(ln_a) * error_a)
    print("converted", np.exp(ln_b), np.exp(ln_b) * error_b)
    print("ln_ratio", ln_b - ln_a, error)
    print("ratio", np.exp(ln_b - ln_a), np.exp(ln_b - ln_a) * error)


if __name__ == "__main__":
    main()
