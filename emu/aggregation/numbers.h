/* Float32 numbers as the integers that switches add up; quantise.py is the same in numpy.
 *
 * The loops are plain, so that the compiler makes vectors of them.  Scaling happens in double: there a
 * float32 times a power of two is exact, whatever their exponents are.
 */
#ifndef GRADWIRE_NUMBERS_H
#define GRADWIRE_NUMBERS_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

enum {
	NO_PEAK = INT32_MIN,   /* in place of the exponent of zeros */
	LEAST_EXPONENT = -148, /* of float32's smallest number, 2^-149 */
	MOST_EXPONENT = 128,
	SUM_BITS = 30,
};

#define FLOAT_INFINITY 0x7f800000u /* bits from here on, without the sign, are infinity and NaN */

static inline uint32_t magnitude(const float *at)
{
	uint32_t bits;

	memcpy(&bits, at, sizeof(bits));
	return bits & 0x7fffffff;
}

/* The bits of the largest |x|: they are ordered as the numbers are. */
static inline uint32_t largest(const float *data, uint64_t n)
{
	uint32_t most = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint32_t bits = magnitude(data + i);

		most = bits > most ? bits : most;
	}
	return most;
}

/* The smallest e with |x| < 2^e, given the bits of a finite |x|. */
static inline int32_t exponent(uint32_t bits)
{
	if (!bits)
		return NO_PEAK;
	if (bits >> 23)
		return (int32_t)(bits >> 23) - 126;
	return 32 - __builtin_clz(bits) - 149; /* a subnormal number: bits * 2^-149 */
}

static inline int is_exponent(int32_t peak)
{
	return peak == NO_PEAK || (peak >= LEAST_EXPONENT && peak <= MOST_EXPONENT);
}

static inline double power_of_two(int k) /* |k| < 1023 */
{
	uint64_t bits = (uint64_t)(1023 + k) << 52;
	double power;

	memcpy(&power, &bits, sizeof(power));
	return power;
}

/* Rounded half to even.  1.5 * 2^52 has no room after the point, and a mantissa that ends in the integer. */
static inline void to_ints(uint32_t *restrict out, const float *restrict data, uint32_t n, int k)
{
	const double scale = power_of_two(k), to_integer = 0x1.8p52;

	for (uint32_t i = 0; i < n; i++) {
		double scaled = data[i] * scale + to_integer;
		uint64_t bits;

		memcpy(&bits, &scaled, sizeof(bits));
		out[i] = htobe32((uint32_t)bits);
	}
}

static inline void to_floats(float *restrict out, const uint32_t *restrict sums, uint32_t n, double unit)
{
	for (uint32_t i = 0; i < n; i++)
		out[i] = (float)((int32_t)be32toh(sums[i]) * unit);
}

#endif
