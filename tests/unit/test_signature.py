"""The one-line signature of a C symbol."""

from __future__ import annotations

import ctypes

import pytest

from zeroulp.errors import UsageError
from zeroulp.kernels.signature import parse_signature

POINTER, I32, I64, F32, F64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_double


@pytest.mark.parametrize(("text", "roles", "types", "returns"), [
    ("a, b, out", "a b out", [POINTER] * 3, None),
    ("a,b,out,m,n,k", "a b out m n k", [POINTER] * 3 + [I32] * 3, None),
    ("  k:i64 ,a : ptr,\tb, out -> i32", "k a b out", [I64, POINTER, POINTER, POINTER], I32),
    ("a, b, alpha, beta:f64, c -> i64", "a b alpha beta c", [POINTER, POINTER, F32, F64, POINTER], I64),
    ("a, b, out -> void", "a b out", [POINTER] * 3, None),
    ("a, b, out ->", "a b out", [POINTER] * 3, None),
    ("batch, a, stride_a:i64, b, stride_b, out, stride_out, ldout:i64", "batch a stride_a b stride_b out stride_out ldout",
     [I32, POINTER, I64, POINTER, I32, POINTER, I32, I64], None),
])
def test_roles_and_types_in_order(text, roles, types, returns):
    signature = parse_signature(text)
    assert signature.roles == tuple(roles.split())
    assert [parameter.type for parameter in signature.parameters] == types
    assert signature.returns is returns


def test_c_without_out_is_updated_in_place():
    assert parse_signature("a, b, c").in_place
    assert not parse_signature("a, b, out").in_place
    assert not parse_signature("a, b, c, out").in_place


@pytest.mark.parametrize(("text", "what"), [
    ("", "''"),
    ("a, b, d", "'d'"),
    ("A, b, out", "'A'"),
    ("a, b, out, m:int", "m:int"),
    ("a, b, out, m:f32", "m:f32"),
    ("a:i64, b, out", "a:i64"),
    ("a, b, out, beta:i32", "beta:i32"),
    ("a, b, out,", "''"),
    ("b, out", "no a"),
    ("a, c", "no b"),
    ("a, b", "no output"),
    ("a, b, out, a", "a twice"),
    ("a, b, out, k, m, k, m", "k, m twice"),
    ("a, b, out -> ptr", "return type 'ptr'"),
    ("a, b, out -> i32 -> i32", "return type 'i32 -> i32'"),
])
def test_signatures_that_make_no_sense_are_refused_with_an_example(text, what):
    with pytest.raises(UsageError) as caught:
        parse_signature(text)
    assert caught.value.what == f"{what} in the signature {text!r}"
    assert "'a, b, out, m, n, k, lda, ldb, ldout'" in caught.value.do
