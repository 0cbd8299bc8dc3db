"""What we ask of an array library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from zeroulp.encoding import Array
    from zeroulp.formats import Format


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
    block_elements: int
    """How many elements to work on at a time, so that temporaries stay small (and in cache)."""

    def words(self, key: int, first: int, count: int) -> Any:
        """Words *first* to *first* + *count* - 1 of the stream with this *key*; 32 bits each."""
        ...

    def words_at(self, key: int, indices: Any) -> Any:
        """The words at these *indices* (int64)."""
        ...

    def below(self, words: Any, bound: int) -> Any:
        """floor(word * bound / 2^32) as int32, for a *bound* up to 2^31."""
        ...

    def is_below(self, words: Any, threshold: int) -> Any:
        """Whether each word, as an unsigned number, is less than *threshold*."""
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

    def cast(self, array: Any, dtype: str) -> Any:
        """The same numbers as int32, int64, float32, float64 or bool."""
        ...

    def values(self, codes: Any, format_: Format) -> Any:
        """What encodings stand for, as float64, exactly."""
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

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """float64 zeros."""
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

    def checksum(self, raw: Any) -> int:
        """A number of 64 bits made of bytes and their places."""
        ...
