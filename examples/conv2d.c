/*
 * cc -O2 -shared -fPIC -o conv2d.so examples/conv2d.c
 *
 * A 3 x 3 convolution with stride 2 and padding 1 in float32, in plain C11, and a way to get it wrong.
 *
 * The problem is `in_float32` of conv2d_problem.py. conv2d gets x (images, channels, height, width), weight
 * (filters, channels, 3, 3), bias (filters) and out, all contiguous, and then the sizes:
 *
 *     zeroulp check ./conv2d.so:conv2d --problem examples/conv2d_problem.py:in_float32 \
 *         --signature 'x, weight, bias, out, x.0, x.1, x.2, x.3, weight.0'
 */

#include <stddef.h>

enum { SIZE = 3, STRIDE = 2, PADDING = 1 };

typedef float pixel_at(const float *image, int height, int width, int row, int column);

static void convolve(const float *x, const float *weight, const float *bias, float *out, int images, int channels,
                     int height, int width, int filters, pixel_at *pixel)
{
    int rows = (height + 2 * PADDING - SIZE) / STRIDE + 1, columns = (width + 2 * PADDING - SIZE) / STRIDE + 1;
    for (int image = 0; image < images; image++)
        for (int filter = 0; filter < filters; filter++)
            for (int row = 0; row < rows; row++)
                for (int column = 0; column < columns; column++) {
                    float sum = bias[filter];
                    for (int channel = 0; channel < channels; channel++) {
                        const float *plane = x + ((size_t)image * channels + channel) * height * width;
                        const float *taps = weight + ((size_t)filter * channels + channel) * SIZE * SIZE;
                        for (int i = 0; i < SIZE; i++)
                            for (int j = 0; j < SIZE; j++)
                                sum += taps[i * SIZE + j] * pixel(plane, height, width, row * STRIDE - PADDING + i,
                                                                  column * STRIDE - PADDING + j);
                    }
                    *out++ = sum;
                }
}

static float or_zero(const float *plane, int height, int width, int row, int column)
{
    return row < 0 || row >= height || column < 0 || column >= width ? 0 : plane[row * width + column];
}

/* The nearest pixel of the image in place of a zero at its lower edge. */
static float or_nearest_below(const float *plane, int height, int width, int row, int column)
{
    return or_zero(plane, height, width, row < height ? row : height - 1, column);
}

/* Right. */
void conv2d(const float *x, const float *weight, const float *bias, float *out, int images, int channels, int height,
            int width, int filters)
{
    convolve(x, weight, bias, out, images, channels, height, width, filters, or_zero);
}

/* Wrong: the padding below an image repeats its last row. */
void last_row_repeated(const float *x, const float *weight, const float *bias, float *out, int images, int channels,
                       int height, int width, int filters)
{
    convolve(x, weight, bias, out, images, channels, height, width, filters, or_nearest_below);
}
