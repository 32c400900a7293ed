/* Adds received numbers to the rank's own, to the nearest even as numpy does. */
#include <string.h>

#include "rank.h"

static float float_of(uint32_t bits)
{
	float made;

	memcpy(&made, &bits, sizeof(made));
	return made;
}

static uint32_t bits_of(float number)
{
	uint32_t bits;

	memcpy(&bits, &number, sizeof(bits));
	return bits;
}

/* IEEE 754: the exponent is biased by 15 in 5 bits here, by 127 in a float32. */
static float from_half(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7FFF;

	if (size >= 0x7C00)
		return float_of(sign | 0x7F800000 | (size & 0x3FF) << 13);
	if (size < 0x400) /* subnormal: in units of 2^-24 */
		return float_of(bits_of((float)size * 0x1p-24f) | sign);
	return float_of(sign | ((size << 13) + ((127 - 15) << 23)));
}

static uint16_t to_half(float number)
{
	uint32_t bits = bits_of(number), size = bits & 0x7FFFFFFF, made;

	if (size > 0x7F800000)
		made = 0x7E00; /* not a number */
	else if (size < (127 - 14) << 23) /* the sum of two float16 is exact there */
		made = (uint32_t)(float_of(size) * 0x1p24f);
	else
		made = (size + 0xFFF + (size >> 13 & 1) - ((127 - 15) << 23)) >> 13;
	return (bits >> 16 & 0x8000) | (made > 0x7C00 && size <= 0x7F800000 ? 0x7C00 : made);
}

static uint16_t to_bfloat16(float number)
{
	uint32_t bits = bits_of(number);

	if ((bits & 0x7FFFFFFF) > 0x7F800000)
		return (bits >> 16 & 0x8000) | 0x7FC0;
	return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

/* `nbytes` is a multiple of a number's size; both begin where numbers do. */
__attribute__((visibility("default"))) void add_up(
	uint8_t *own, const uint8_t *others, int64_t nbytes, enum adding adding)
{
	if (adding == ADDS_FLOAT32) {
		float *sums = (float *)own;
		const float *numbers = (const float *)others;

		for (int64_t at = 0; at < nbytes / 4; at++)
			sums[at] += numbers[at];
		return;
	}
	uint16_t *sums = (uint16_t *)own;
	const uint16_t *numbers = (const uint16_t *)others;

	for (int64_t at = 0; at < nbytes / 2; at++)
		sums[at] = adding == ADDS_FLOAT16
			? to_half(from_half(sums[at]) + from_half(numbers[at]))
			: to_bfloat16(float_of((uint32_t)sums[at] << 16) + float_of((uint32_t)numbers[at] << 16));
}
