"""What we ask of an array library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zeroulp.encoding import Array
    from zeroulp.formats import Format

Item = TypeVar("Item")
Found = TypeVar("Found")


class Fused(Protocol):
    """
    What a library does in one pass over memory instead of many: the same bits, sooner.

    Each answers None (or False) where it has no such way, and the plain operations are to be used.
    """

    sums_up: bool
    """Whether `sums` ever answers anything."""

    stores_words: bool
    """Whether `store_words` ever does."""

    def store(self, target: Any, integers: Any, rows: Any, columns: Any) -> bool:
        """
        Put integers, multiplied by powers of two, into a stored matrix.

        Args:
            target: (r, c), of a format with at most 32 bits that is not one of integers.
            integers: (r, c) int32 of at most 24 bits.
            rows: (r,) float32 factors; or a number.
            columns: (c,) float32 factors; or a number.
        """
        ...

    def store_words(self, target: Any, words: Any, magnitude: int, rows: Any, columns: Any) -> bool:
        """
        The same of what random words say: integers from {±1, ..., ±magnitude}, as `Arrays.integers` has them.

        Args:
            target: As above.
            words: (r * c,) as of `Arrays.words`.
            magnitude: The largest integer.
            rows: As above.
            columns: As above.
        """
        ...

    def sums(self, codes: Any, format_: Format, vectors: Any, factors: tuple[Any, Any], limit: int | None) -> Any:
        """
        A matrix times some vectors, in float64.

        Args:
            codes: (r, c) encodings.
            format_: Their format.
            vectors: (c, v) float64.
            factors: (r,) and (c,) float64 factors of the elements along rows and columns; or numbers.
            limit: None, or the largest modulus that an element may have.

        Returns:
            (r, v) sums, and (r,) whether a row has an element that is no integer or exceeds *limit* (None without).
        """
        ...

    def is_rounded(self, codes: Any, format_: Format, sums: Any, columns: Any, factors: tuple[Any, Any]) -> Any:
        """
        Whether ``codes[i, j]`` is ``sums[i, columns[j]]`` times its factors, converted once, everywhere.

        Args:
            codes: (r, c) encodings.
            format_: Their format.
            sums: (r, t) float32 or float64.
            columns: (c,) int32.
            factors: (r,) float64 powers of two, or 1.0; and (c,) float64, with signs. Products with them are
                exact in float64, and those for formats of at most 16 bits are float32 numbers.

        Exactness:
            Zeros of either sign are the same; NaN is never right.
        """
        ...

    def chunk_sums(self, words: Any, keys: Any) -> Any:
        """
        For each row of an int32 matrix, the sum of products of its two halves, each plus the *keys*; modulo 2^64.

        Words and their sums with keys, modulo 2^32, count as unsigned.
        """
        ...


class Arrays(Protocol):
    """
    The operations on arrays of one library, in one place.

    Arithmetic, comparison and indexing are the arrays' own operators, which mean the same in
    all libraries. Arrays of 32-bit words hold bits, whatever the sign of their type.
    """

    name: str
    keeps_subnormals: bool
    """Whether its conversions keep subnormal numbers, whatever a kernel has set the processor to."""
    workspace: int
    """Bytes that verification may use there, if nobody says otherwise."""
    few: int
    """Rows or columns of a product that are worked out in full sooner than anything is searched for."""

    multiplied: frozenset[str]
    """Names of the formats that it may have a `stored_product` of."""
    block_elements: int
    """How many elements to work on at a time, so that temporaries stay small (and in cache)."""

    def words(self, key: int, first: int, count: int) -> Any:
        """Words *first* to *first* + *count* - 1 of the stream with this *key*; 32 bits each."""
        ...

    def words_at(self, key: int, indices: Any) -> Any:
        """The words at these *indices* (int64)."""
        ...

    def integers(self, key: int, places: Any, bound: int, *, signed: bool = False) -> Any:
        """
        Random integers as int32: `below` of the words of a stream.

        Args:
            key: Of the stream.
            places: (first, count) of consecutive words; or (rows, width): those of whole rows, by their numbers
                (int64); or an array of their indices (int64).
            bound: They are less than that; 2^32 for the words themselves.
            signed: From {±1, ..., ±bound/2} instead, for an even *bound*.
        """
        ...

    def below(self, words: Any, bound: int) -> Any:
        """floor(word * bound / 2^32) as int32, for a *bound* up to 2^31."""
        ...

    def is_below(self, words: Any, threshold: int) -> Any:
        """Whether each word, as an unsigned number, is less than *threshold*."""
        ...

    @property
    def fused(self) -> Fused | None:
        """What it does in one pass; None: nothing."""
        ...

    def spread(self, work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
        """What *work* makes of each item; at once, where that is faster."""
        ...

    def from_host(self, array: Array) -> Any:
        """A numpy array as one of this library's."""
        ...

    def table(self, array: Array) -> Any:
        """The same for a numpy array that nobody changes any more: brought there once, for as long as it is in use."""
        ...

    def to_host(self, array: Any) -> Array:
        """One of its arrays as a numpy array."""
        ...

    def arange(self, start: int, stop: int) -> Any:
        """The int64 numbers from *start* to *stop* - 1."""
        ...

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """Elements of *one* where *condition*, of *other* elsewhere."""
        ...

    def columns(self, array: Any, numbers: Any) -> Any:
        """Some columns of a matrix, by their *numbers* (int64)."""
        ...

    def block_rows(self, width: int) -> int:
        """How many rows of this *width* to work on at a time where memory does not matter."""
        ...

    def cast(self, array: Any, dtype: str) -> Any:
        """The same numbers as int32, int64, float32, float64 or bool."""
        ...

    def values(self, codes: Any, format_: Format, dtype: str = "float64") -> Any:
        """What encodings stand for, exactly: as float64, or as float32 where that holds them."""
        ...

    def store(self, target: Any, values: Any) -> None:
        """
        Put float32 or float64 *values* into a stored array, converted once by the library's own conversion.

        Where the target has at most 16 bits the values are float32 numbers: some libraries convert
        float64 by way of float32.
        """
        ...

    def encoded(self, values: Any, format_: Format) -> Any:
        """
        Encodings of float64 *values*, converted once by the library's own conversion.

        To formats of at most 16 bits by way of float32: then they are float32 numbers already.
        """
        ...

    def zeros(self, shape: tuple[int, ...], dtype: str = "float64") -> Any:
        """Zeros."""
        ...

    def fast_dtype(self, bound: int) -> str:
        """The narrowest dtype in which its fast product of integers is exact, for sums of moduli up to *bound*."""
        ...

    def codes(self, stored: Any) -> Any:
        """The encodings of a stored array: same shape, no copy."""
        ...

    def matmul(self, a: Any, b: Any) -> Any:
        """The matrix product of float64 (or, on the host, float32) arrays in that precision."""
        ...

    def times(self, array: Any, vectors: Any) -> Any:
        """The product of a float32 or float64 matrix with a few float64 vectors, in float64."""
        ...

    def stored_product(self, a: Any, b: Any, format_: Format) -> Any:
        """
        The product of two stored matrices of one format, as encodings, by the fastest way that the library has.

        It is float32, and nobody says how it was summed up: believe it when it is confirmed. None: it cannot.
        """
        ...

    def equal(self, one: Any, other: Any) -> bool:
        """Whether two arrays of one shape agree everywhere."""
        ...

    def copy(self, array: Any) -> Any:
        """A private copy, contiguous."""
        ...

    def view(self, block: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Any:
        """
        An array within a *block* of bytes.

        Args:
            block: Bytes.
            dtype: Name of the stored dtype.
            shape: In elements.
            strides: In elements.
            start: Byte at which the first element lies: a multiple of the element's size.
        """
        ...

    def fill(self, array: Any, code: int, size: int) -> None:
        """Put the *code* of *size* bytes everywhere into a one-dimensional array of bytes, or of codes."""
        ...

    def put(self, stored: Any, place: tuple[Any, ...], code: int) -> None:
        """Put one encoding at one place, or at all places that are selected, of a stored array."""
        ...


def indices_of(places: Any, arrays: Arrays) -> Any:
    """Indices of the words of whole rows, as (rows, width); those of an array as they are."""
    if not isinstance(places, tuple):
        return places
    rows, width = places
    return rows[:, None] * width + arrays.arange(0, width)[None, :]
