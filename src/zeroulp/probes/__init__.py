"""
Input families, each with a reason to exist and a certificate.

One file per probe; importing this package fills the table. ``base`` says what a probe is,
``sizing`` holds the arithmetic that fits magnitudes and exponents to a budget.
"""

from zeroulp.probes import binary, cancel, fractional, one_hot, signed, sparse, specials, wide
from zeroulp.probes.base import TABLE, Options, Overlaid, Partial, Probe, probe_named
from zeroulp.probes.places import axis_of_k, draw_all, elements_of
from zeroulp.probes.pool import Pool, pool_of
from zeroulp.probes.scaling import Scales, draw_scales, family_of

__all__ = [
    "TABLE",
    "Options",
    "Overlaid",
    "Partial",
    "Pool",
    "Probe",
    "Scales",
    "axis_of_k",
    "binary",
    "cancel",
    "draw_all",
    "draw_scales",
    "elements_of",
    "family_of",
    "fractional",
    "one_hot",
    "pool_of",
    "probe_named",
    "signed",
    "sparse",
    "specials",
    "wide",
]
