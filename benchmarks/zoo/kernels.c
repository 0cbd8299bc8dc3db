/* Kernels of the zoo in C: row-major a (m x k), b (k x n), out (m x n). */

#include <stdint.h>
#include <string.h>

enum { TILE = 16 };

/* Wrong: the number of k tiles is counted in 8 bits. */
void k_tiles_counted_in_8_bits(const float *a, const float *b, float *out, int m, int n, int k)
{
    uint8_t tiles = (uint8_t)((k + 1) / 2);

    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int p = 0; p < 2 * tiles && p < k; p++)
                sum += a[i * k + p] * b[p * n + j];
            out[i * n + j] = sum;
        }
}

/* Wrong: the bound check of the last k tile compares with the next multiple of 8. */
void k_bound_rounded_up(const float *a, const float *b, float *out, int m, int n, int k)
{
    int bound = (k + 7) / 8 * 8;

    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int p = 0; p < bound; p++)
                sum += a[i * k + p] * b[p * n + j];
            out[i * n + j] = sum;
        }
}

/* Wrong: the accumulators are cleared for the first tile only. */
void tile_cleared_once(const float *a, const float *b, float *out, int m, int n, int k)
{
    float sums[TILE * TILE] = {0};

    for (int i0 = 0; i0 < m; i0 += TILE)
        for (int j0 = 0; j0 < n; j0 += TILE)
            for (int i = i0; i < m && i < i0 + TILE; i++)
                for (int j = j0; j < n && j < j0 + TILE; j++) {
                    float *sum = &sums[(i - i0) * TILE + j - j0];
                    for (int p = 0; p < k; p++)
                        *sum += a[i * k + p] * b[p * n + j];
                    out[i * n + j] = *sum;
                }
}

/* Wrong: rows are stored in vectors of 4; the last one of the last row runs past the output. */
void vector_store_past_the_end(const float *a, const float *b, float *out, int m, int n, int k)
{
    for (int i = 0; i < m; i++)
        for (int j0 = 0; j0 < n; j0 += 4) {
            float sums[4] = {0};
            for (int j = j0; j < n && j < j0 + 4; j++)
                for (int p = 0; p < k; p++)
                    sums[j - j0] += a[i * k + p] * b[p * n + j];
            memcpy(out + i * n + j0, sums, sizeof sums);
        }
}

/* Wrong: the packed panel of b is kept between calls and repacked only when its size changes. */
void panel_kept(const float *a, const float *b, float *out, int m, int n, int k, float *panel, int *packed)
{
    if (*packed != n * k) {
        for (int p = 0; p < k; p++)
            for (int j = 0; j < n; j++)
                panel[j * k + p] = b[p * n + j];
        *packed = n * k;
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                sum += a[i * k + p] * panel[j * k + p];
            out[i * n + j] = sum;
        }
}

/* Wrong: the product is rounded to a multiple of 2^-10, as a fixed-point unit would. */
void fixed_point_products(const float *a, const float *b, float *out, int m, int n, int k)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            int64_t sum = 0;
            for (int p = 0; p < k; p++)
                sum += (int64_t)(a[i * k + p] * b[p * n + j] * 1024);
            out[i * n + j] = (float)sum / 1024;
        }
}

/* Right: four accumulators, blocks of k, any remainder. */
void four_accumulators(const float *a, const float *b, float *out, int m, int n, int k)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sums[4] = {0};
            for (int p = 0; p < k; p++)
                sums[p % 4] += a[i * k + p] * b[p * n + j];
            out[i * n + j] = (sums[3] + sums[1]) + (sums[0] + sums[2]);
        }
}

/* Right: k outermost, sums in double. */
void outer_products(const float *a, const float *b, float *out, int m, int n, int k, double *sums)
{
    memset(sums, 0, sizeof *sums * (size_t)m * (size_t)n);
    for (int p = k; p-- > 0;)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                sums[i * n + j] += (double)a[i * k + p] * b[p * n + j];
    for (int i = 0; i < m * n; i++)
        out[i] = (float)sums[i];
}
