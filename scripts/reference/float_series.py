"""Prints the series of `src/ops/fixes/functions/floats.rs` and `pairs.rs`, and how far each is off.

Each begins with the constant term; it is the polynomial whose largest weighted error is least (Remez's exchange). It needs
mpmath.
"""

from mpmath import atanh, cos, erf, erfc, exp, log, lu_solve, matrix, mp, mpf, nstr, pi, sign, sqrt

EXCHANGES = 8
# The FLOAT next to 0.3.
SLOPE = mpf("0.300000011920928955078125")


def exponential(r):
    """What is left of e^r behind 1 + r."""
    return (exp(r) - 1 - r) / r**2 if abs(r) > mpf("1e-12") else mpf(1) / 2


def logarithm(square):
    """What is left of atanh(s) / s behind 1."""
    s = sqrt(square)
    return (atanh(s) / s - 1) / square if square > mpf("1e-20") else mpf(1) / 3


def erf_near(square):
    """The error function of x over x, less 1."""
    x = sqrt(square)
    return erf(x) / x - 1 if square > mpf("1e-20") else 2 / sqrt(pi) - 1


def tail(v):
    """The normal distribution's tail over its density's shape, times 1 + SLOPE u, where v = 1 / (1 + SLOPE u) - 1/2."""
    u = (1 / (v + mpf(1) / 2) - 1) / SLOPE
    return erfc(u / sqrt(2)) * exp(u * u / 2) / 2 * (1 + SLOPE * u)


def fit(function, weight, low, high, terms):
    """The terms of a polynomial, and its largest weighted error."""
    middle, half = (low + high) / 2, (high - low) / 2
    places = [middle + half * cos(pi * (terms - i) / terms) for i in range(terms + 1)]
    for _ in range(EXCHANGES):
        rows, values = matrix(terms + 1, terms + 1), matrix(terms + 1, 1)
        for i, x in enumerate(places):
            for power in range(terms):
                rows[i, power] = x**power
            rows[i, terms] = (-1) ** i / weight(x)
            values[i] = function(x)
        solved = list(lu_solve(rows, values))[:terms]
        count = 60 * terms
        grid = [middle - half * cos(pi * i / count) for i in range(count + 1)]
        errors = [
            (function(x) - sum(c * x**power for power, c in enumerate(solved))) * weight(x)
            for x in grid
        ]
        places = extremes(grid, errors, terms + 1) or places
    return solved, max(abs(error) for error in errors)


def extremes(grid, errors, count):
    """Where errors of alternating signs are largest."""
    found = [0]
    for i in range(1, len(grid)):
        if sign(errors[i]) != sign(errors[found[-1]]):
            found.append(i)
        elif abs(errors[i]) > abs(errors[found[-1]]):
            found[-1] = i
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return [grid[i] for i in found] if len(found) == count else None


def main():
    """Print every series."""
    mp.dps = 30
    reach = log(2) / 2 * mpf("1.0001")
    one = mpf(1)
    edge = mpf("0.875")
    series = {
        "EXPONENTIAL": (exponential, lambda r: r * r / exp(r), -reach, reach, 5),
        "LOGARITHM": (logarithm, lambda square: square, mpf("1e-9"), one / 9, 4),
        "ERF_NEAR": (erf_near, lambda _: one, mpf("1e-12"), edge**2, 7),
        "ERF_FAR": (lambda x: -log(erfc(x)) / x, lambda x: x * erfc(x), edge, mpf(4), 7),
        "TAIL": (tail, lambda v: 1 / tail(v), 1 / (1 + SLOPE * mpf("15.1")) - one / 2, one / 2, 10),
    }
    for name, arguments in series.items():
        terms, error = fit(*arguments)
        print(
            name, ", ".join(nstr(term, 10) for term in terms), "to 2 to the", nstr(log(error, 2), 4)
        )


if __name__ == "__main__":
    main()
