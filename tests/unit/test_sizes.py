"""Shapes as people write them: grids and files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroulp.errors import UsageError
from zeroulp.sizes import Sizes, parse_grid, parse_shape, parse_shapes, read_shapes

SHAPES = st.lists(st.builds(Sizes, *[st.integers(0, 2**31 - 1)] * 3), min_size=1, max_size=8)


def test_one_list_is_for_all_three():
    assert parse_grid("64,128") == tuple(Sizes(m, n, k) for m in (64, 128) for n in (64, 128) for k in (64, 128))


def test_three_lists_are_m_and_n_and_k():
    assert parse_grid("1x2,3x4") == (Sizes(1, 2, 4), Sizes(1, 3, 4))
    assert parse_grid(" 1, 1 X 2 x 4") == (Sizes(1, 2, 4),)


@pytest.mark.parametrize("text", ["", "64,", "64x64", "1x2x3x4", "64,-1", "64..128", "1.5", "0x40", "64;128", "9999999999", "²", "1_0"])
def test_what_is_no_grid_is_refused_with_an_example(text):
    with pytest.raises(UsageError) as caught:
        parse_grid(text)
    assert "--grid 64,128,256" in caught.value.do
    assert caught.value.why


def test_a_shape():
    assert parse_shape("1x20x300") == (1, 20, 300)
    for text in ("", "1x2", "1x2x3x4", "axbxc", "1,2,3"):
        with pytest.raises(UsageError, match="is no shape"):
            parse_shape(text)


@given(SHAPES, st.sampled_from(["{} {} {}", "{},{},{}", "  {}\t{} ; {}", "{}x{}x{} # one", "[{}, {}, {}]", '{{"k": {2}, "m": {0}, "n": {1}}}']),
       st.sampled_from(["\n", "\r\n", "\n\n# a comment\n"]))
def test_every_form_gives_the_same_shapes_in_order_and_each_once(shapes, form, end):
    assert parse_shapes(end.join(form.format(*sizes) for sizes in shapes)) == tuple(dict.fromkeys(shapes))


@given(SHAPES, st.permutations("mnk"))
def test_csv_columns_are_found_by_their_names(shapes, names):
    rows = [", ".join(str(getattr(sizes, name)) for name in names) for sizes in shapes]
    assert parse_shapes("\n".join(["# from a model", ",".join(names).upper(), *rows])) == tuple(dict.fromkeys(shapes))


@given(st.text(max_size=40))
def test_any_text_gives_shapes_or_one_clear_error(text):
    try:
        shapes = parse_shapes(text, source="shapes.txt")
    except UsageError as error:
        assert error.where.startswith("shapes.txt:") or error.what == "shapes.txt holds no shape"
        assert error.do
    else:
        assert shapes
        assert all(len(sizes) == 3 and min(sizes) >= 0 for sizes in shapes)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("mnkx"), inner, max_size=4), max_leaves=6))
def test_json_of_another_kind_is_refused(value):
    line = json.dumps(value)
    try:
        found = parse_shapes(line)
    except UsageError:
        return
    given = [value[name] for name in "mnk"] if isinstance(value, dict) else value if isinstance(value, list) else [value]
    assert list(found[0]) == given


@pytest.mark.parametrize(("text", "line", "why"), [
    ("1 2 3\n# c\n1 2\n", 3, "it has 2 numbers, not three"),
    ("1 2 3 4", 1, "it has 4 numbers"),
    ("1 2 -3", 1, "'-3' is no size"),
    ("m,n\n1,2", 1, "it names m, n where m, n and k are asked for"),
    ("m,n,k,batch\n1,2,3,4", 1, "it names m, n, k, batch"),
    ("m,n,k\n1,2", 2, "it has 2 values, and the header 3"),
    ("m,n,k\n1,2,k", 2, "'k' is no size"),
    ('{"m": 1, "n": 2, "k": 3}\n{"m": 1}', 2, "it names m where"),
    ('{"m": 1, "n": 2, "k": 3}\n1 2 3', 2, "it is neither an object nor a list|it is no JSON"),
    ("[1, 2, 3]\n[1, 2, 3.5]", 2, "sizes are whole numbers"),
    ("[1, 2, true]", 1, "sizes are whole numbers"),
    ("[1, 2, 3", 1, "it is no JSON"),
    ("1 2 3\n\n\nm n k", 4, "it has 3 numbers|'m' is no size"),
])
def test_an_error_names_the_file_and_the_line(text, line, why):
    with pytest.raises(UsageError) as caught:
        parse_shapes(text, source="s.txt")
    assert caught.value.where == f"s.txt:{line}"
    assert any(part in caught.value.why for part in why.split("|"))


def test_files(tmp_path):
    file = tmp_path / "shapes.csv"
    file.write_bytes(b"\xef\xbb\xbfm,n,k\r\n1,2,3\r\n")
    assert read_shapes(file) == (Sizes(1, 2, 3),)
    for content in (b"", b"# nothing\n", b"m,n,k\n"):
        file.write_bytes(content)
        with pytest.raises(UsageError, match="holds no shape"):
            read_shapes(file)
    file.write_bytes(b"\xff\xfe1")
    with pytest.raises(UsageError, match="cannot be read"):
        read_shapes(file)
    with pytest.raises(UsageError, match="cannot be read"):
        read_shapes(tmp_path / "none.txt")
