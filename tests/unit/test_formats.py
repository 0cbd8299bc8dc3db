from __future__ import annotations

import pytest

from zeroulp.errors import UnknownNameError
from zeroulp.formats import TABLE, format_named


@pytest.mark.parametrize("format_", TABLE, ids=str)
def test_every_alias_leads_to_its_format(format_):
    for name in (format_.name, format_.name.upper(), *format_.aliases):
        assert format_named(name) is format_


def test_aliases_are_unique():
    names = [name for f in TABLE for name in (f.name, *f.aliases)]
    assert len(names) == len(set(names))


def test_unknown_name_lists_close_ones():
    with pytest.raises(UnknownNameError) as caught:
        format_named("flaot16")
    assert caught.value.name == "flaot16"
    assert "float16" in caught.value.do


@pytest.mark.parametrize(
    ("name", "precision", "max_finite", "emin", "quantum"),
    [("float64", 53, 1.7976931348623157e308, -1022, -1074), ("float32", 24, 3.4028234663852886e38, -126, -149),
     ("tfloat32", 11, 3.4011621342146535e38, -126, -136), ("float16", 11, 65504, -14, -24),
     ("bfloat16", 8, 3.3895313892515355e38, -126, -133), ("float8_e4m3fn", 4, 448, -6, -9),
     ("float8_e4m3fnuz", 4, 240, -7, -10), ("float8_e5m2", 3, 57344, -14, -16), ("float8_e5m2fnuz", 3, 57344, -15, -17),
     ("float6_e2m3fn", 4, 7.5, 0, -3), ("float6_e3m2fn", 3, 28, -2, -4), ("float4_e2m1fn", 2, 6, 0, -1),
     ("float8_e8m0fnu", 1, 2.0**127, -127, -127)],
)
def test_derived_quantities(name, precision, max_finite, emin, quantum):
    """The table of the theory: numbers written down once more, by hand."""
    f = format_named(name)
    assert (f.precision, f.max_finite, f.emin, f.quantum_exponent_min) == (precision, max_finite, emin, quantum)
