"""
Input families, each with a reason to exist and a certificate.

One file per probe; importing this package fills the table. ``base`` says what a probe is,
``sizing`` holds the arithmetic that fits magnitudes and exponents to a budget.
"""

from zeroulp.probes import binary, cancel, cover, fractional, halves, one_hot, real, signed, sparse, specials, wide
from zeroulp.probes.base import TABLE, Cyclic, Options, Overlaid, Partial, Probe, cyclic, overlaid, probe_named
from zeroulp.probes.places import axis_of_k, draw_all, elements_of, looked_up
from zeroulp.probes.pool import Pool, pool_of
from zeroulp.probes.scaling import Scales, draw_scales, family_of

__all__ = [
    "TABLE",
    "Cyclic",
    "Options",
    "Overlaid",
    "Partial",
    "Pool",
    "Probe",
    "Scales",
    "axis_of_k",
    "binary",
    "cancel",
    "cover",
    "cyclic",
    "draw_all",
    "draw_scales",
    "elements_of",
    "family_of",
    "fractional",
    "halves",
    "looked_up",
    "one_hot",
    "overlaid",
    "pool_of",
    "probe_named",
    "real",
    "signed",
    "sparse",
    "specials",
    "wide",
]
