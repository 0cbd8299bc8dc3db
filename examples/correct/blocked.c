/*
 * cc -O2 -shared -fPIC -ffp-contract=off -o blocked.so examples/correct/blocked.c
 *
 * A blocked matmul in plain C11: correct.
 *
 * One function per format, matmul_<format>(a, b, out, m, n, k, lda, ldb, ldout), computes out := a * b, all
 * three row-major with leading dimensions in elements. Blocks of a and b are widened to float as they are
 * packed, sums are float, and each output is rounded once, ties to even. float8_e4m3fn has float32 output.
 *
 * gemm_float32_64 is the BLAS-like form: c := alpha * a * b + beta * c, with 64-bit sizes; 0 means success.
 *
 * float16, bfloat16 and float8_e4m3fn are converted here, bit by bit, so that any C compiler will do.
 *
 *     zeroulp check ./blocked.so:matmul_float16 -m 64 -n 64 -k 257 --a float16 \
 *         --signature 'a, b, out, m, n, k, lda, ldb, ldout'
 */

#include <stdint.h>
#include <string.h>

enum { BLOCK_M = 32, BLOCK_N = 64, BLOCK_K = 128 };

/* ---- formats ------------------------------------------------------------------------------------------- */

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Drop the low `shift` bits (1 to 31) of a significand, to nearest, ties to even. */
static uint32_t round_off(uint32_t significand, int shift)
{
    uint32_t half = UINT32_C(1) << (shift - 1);
    uint32_t odd = (significand >> shift) & 1;
    return (significand + (half - 1) + odd) >> shift;
}

static float load_float32(float value) { return value; }
static float store_float32(float value) { return value; }

/* bfloat16 is the upper half of a float. */
static float load_bfloat16(uint16_t code) { return float_from_bits((uint32_t)code << 16); }

static uint16_t store_bfloat16(float value)
{
    uint32_t bits = bits_from_float(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)((bits >> 16) | 0x0040); /* a quiet NaN: rounding might carry it to infinity or zero */
    return (uint16_t)round_off(bits, 16);         /* a carry into the exponent is the right next value */
}

/* float16: 1 sign, 5 exponent (bias 15), 10 significand bits. */
static float load_float16(uint16_t code)
{
    uint32_t sign = (uint32_t)(code & 0x8000) << 16;
    uint32_t exponent = (code >> 10) & 0x1f;
    uint32_t fraction = code & 0x3ff;
    if (exponent == 0x1f)
        return float_from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact */
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_from_bits(sign | (exponent + (127 - 15)) << 23 | fraction << 13);
}

static uint16_t store_float16(float value)
{
    uint32_t bits = bits_from_float(value);
    uint16_t sign = (uint16_t)((bits >> 16) & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return sign | 0x7e00; /* NaN */
    if (magnitude >= 0x477ff000)
        return sign | 0x7c00; /* from 65520 on, the midpoint above 65504: infinity */
    if (magnitude >= 0x38800000) /* from 2^-14 on: normal */
        return (uint16_t)(sign | round_off(magnitude - ((uint32_t)(127 - 15) << 23), 13));
    if (magnitude < 0x33000000)
        return sign; /* below 2^-25, half of the smallest subnormal: zero */
    int shift = 126 - (int)(magnitude >> 23); /* significand * 2^(exponent - 150) in units of 2^-24 */
    return (uint16_t)(sign | round_off((magnitude & 0x7fffff) | 0x800000, shift));
}

/* float8_e4m3fn: 1 sign, 4 exponent (bias 7), 3 significand bits; no infinity, one NaN for each sign. */
static float load_float8_e4m3fn(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24;
    uint32_t exponent = (code >> 3) & 0xf;
    uint32_t fraction = code & 0x7;
    if ((code & 0x7f) == 0x7f)
        return float_from_bits(sign | 0x7fc00000);
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-9, exact */
        float magnitude = (float)fraction * 0x1p-9f;
        return sign ? -magnitude : magnitude;
    }
    return float_from_bits(sign | (exponent + (127 - 7)) << 23 | fraction << 20);
}

/* ---- matmul -------------------------------------------------------------------------------------------- */

static int32_t shorter(int64_t length, int32_t limit) { return length < limit ? (int32_t)length : limit; }

/* sums += a_block * b_block, each sum in order of k. */
static void multiply_block(float sums[BLOCK_M][BLOCK_N], float a_block[BLOCK_M][BLOCK_K],
                           float b_block[BLOCK_K][BLOCK_N], int32_t rows, int32_t cols, int32_t depth)
{
    for (int32_t i = 0; i < rows; i++)
        for (int32_t p = 0; p < depth; p++)
            for (int32_t j = 0; j < cols; j++)
                sums[i][j] += a_block[i][p] * b_block[p][j];
}

/*
 * The three loops over blocks, for operands that LOAD turns into float. EMIT is run for every
 * output, with its position in i, j and its sum in `sum`. Positions are 64-bit: i * lda may pass 2^31.
 */
#define FOR_EACH_SUM(LOAD, EMIT)                                                                              \
    for (int64_t i0 = 0; i0 < m; i0 += BLOCK_M)                                                               \
        for (int64_t j0 = 0; j0 < n; j0 += BLOCK_N) {                                                         \
            float sums[BLOCK_M][BLOCK_N] = {{0}}, a_block[BLOCK_M][BLOCK_K], b_block[BLOCK_K][BLOCK_N];       \
            int32_t rows = shorter(m - i0, BLOCK_M), cols = shorter(n - j0, BLOCK_N);                         \
            for (int64_t k0 = 0; k0 < k; k0 += BLOCK_K) {                                                     \
                int32_t depth = shorter(k - k0, BLOCK_K);                                                     \
                for (int32_t i = 0; i < rows; i++)                                                            \
                    for (int32_t p = 0; p < depth; p++)                                                       \
                        a_block[i][p] = LOAD(a[(i0 + i) * (int64_t)lda + k0 + p]);                            \
                for (int32_t p = 0; p < depth; p++)                                                           \
                    for (int32_t j = 0; j < cols; j++)                                                        \
                        b_block[p][j] = LOAD(b[(k0 + p) * (int64_t)ldb + j0 + j]);                            \
                multiply_block(sums, a_block, b_block, rows, cols, depth);                                    \
            }                                                                                                 \
            for (int64_t i = i0; i < i0 + rows; i++)                                                          \
                for (int64_t j = j0; j < j0 + cols; j++) {                                                    \
                    float sum = sums[i - i0][j - j0];                                                         \
                    EMIT;                                                                                     \
                }                                                                                             \
        }

#define DEFINE_MATMUL(NAME, T, OUT, LOAD, STORE)                                                              \
    void NAME(const T *a, const T *b, OUT *out, int32_t m, int32_t n, int32_t k, int32_t lda, int32_t ldb,    \
              int32_t ldout)                                                                                  \
    {                                                                                                         \
        FOR_EACH_SUM(LOAD, out[i * (int64_t)ldout + j] = STORE(sum))                                       \
    }

DEFINE_MATMUL(matmul_float16, uint16_t, uint16_t, load_float16, store_float16)
DEFINE_MATMUL(matmul_bfloat16, uint16_t, uint16_t, load_bfloat16, store_bfloat16)
DEFINE_MATMUL(matmul_float32, float, float, load_float32, store_float32)
DEFINE_MATMUL(matmul_float8_e4m3fn, uint8_t, float, load_float8_e4m3fn, store_float32)

int gemm_float32_64(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                    int64_t ldb, float beta, float *c, int64_t ldc)
{
    if (beta == 0) { /* c may hold anything, NaN included, and is not read */
        FOR_EACH_SUM(load_float32, c[i * ldc + j] = alpha * sum)
    } else {
        FOR_EACH_SUM(load_float32, c[i * ldc + j] = alpha * sum + beta * c[i * ldc + j])
    }
    return 0;
}
