"""Prints the series of `src/ops/fixes/functions/arithmetic.rs` for the complementary error function.

With t = 2 / (2 + z), it is of ln(erfc(z) / t) + z^2, in powers of u = 2t - 1, for z from 0 on. It needs mpmath.
"""

from mpmath import chebyfit, erfc, log, mp, mpf, nstr, pi, sqrt

TERMS = 17


def exponent(u):
    """What is the series of, at a place."""
    t = max((u + 1) / 2, mpf("1e-6"))
    z = 2 / t - 2
    if z < 200:
        return log(erfc(z) / t) + z * z
    # Beyond, erfc is the exponential times this, to more digits than are asked for.
    tail = 1 - 1 / (2 * z**2) + mpf(3) / (4 * z**4) - mpf(15) / (8 * z**6)
    return log((tail + mpf(105) / (16 * z**8)) / (z * sqrt(pi) * t))


def main():
    """Print the terms from the constant one on, and how far the series is off at most."""
    mp.dps = 40
    terms, error = chebyfit(exponent, [-1, 1], TERMS, error=True)
    for term in reversed(terms):
        print(nstr(term, 18))
    print("error", nstr(error, 3))


if __name__ == "__main__":
    main()
