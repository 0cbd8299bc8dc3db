"""
Input families, each with a reason to exist and a certificate.

One file per probe; importing this package fills the table. ``base`` says what a probe is,
``sizing`` holds the arithmetic that fits magnitudes and exponents to a budget.
"""

from zeroulp.probes import binary, cancel, cover, fractional, one_hot, real, signed, sparse, specials, wide
from zeroulp.probes.base import TABLE, Cyclic, Options, Overlaid, Probe, probe_named
from zeroulp.probes.scaling import Scales, draw_scales, family_of

__all__ = [
    "TABLE",
    "Cyclic",
    "Options",
    "Overlaid",
    "Probe",
    "Scales",
    "binary",
    "cancel",
    "cover",
    "draw_scales",
    "family_of",
    "fractional",
    "one_hot",
    "probe_named",
    "real",
    "signed",
    "sparse",
    "specials",
    "wide",
]
