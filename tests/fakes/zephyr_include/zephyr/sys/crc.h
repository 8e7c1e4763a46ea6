/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <cstddef>
#include <cstdint>
inline uint32_t crc32_ieee_update(uint32_t crc, const uint8_t *data, size_t length)
{
	crc = ~crc;
	for (size_t i = 0; i < length; ++i) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; ++bit) {
			crc = (crc >> 1) ^ ((crc & 1) ? 0xedb88320u : 0u);
		}
	}
	return ~crc;
}
inline uint32_t crc32_ieee(const uint8_t *data, size_t length) { return crc32_ieee_update(0, data, length); }
