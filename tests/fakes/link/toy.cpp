/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.hpp"

#include <cstring>

namespace toy {

void (*during_invoke)(uint8_t first);
bool stateful;
uint32_t (*now)();

namespace {

using tflm_link::Observer;
using tflm_link::Span;

// Tensors: 0 input and, later, 2 output at the same place; 1 between them; 3 the count of runs.
uint8_t g_shared[kBytes];
uint8_t g_middle[kBytes];
uint32_t g_runs;
uint32_t g_ticks[2];
const int32_t kShape[] = {1, 96, 96};
const int32_t kOne[] = {1};
const int32_t kMiddle[] = {1};
const int32_t kLast[] = {2, 3};

int Reset()
{
	g_runs = 0;
	return 0;
}

int Init()
{
	std::memset(g_shared, 0, sizeof(g_shared));
	return Reset();
}

int Invoke(const Observer *observer)
{
	if (during_invoke != nullptr) {
		during_invoke(g_shared[0]);
	}
	if (g_shared[0] == 0xbd && g_shared[1] == 0xbd) {
		return 5;
	}
	uint32_t start = now();
	for (size_t i = 0; i < kBytes; ++i) {
		g_middle[i] = static_cast<uint8_t>(g_shared[kBytes - 1 - i] ^ 0x55);
	}
	if (observer != nullptr) {
		observer->ended(observer->context, 0, now() - start);
	}
	start = now();
	++g_runs;
	for (size_t i = 0; i < kBytes; ++i) {
		g_shared[i] = static_cast<uint8_t>(3 * g_middle[i] + 1);
	}
	if (observer != nullptr) {
		observer->ended(observer->context, 1, now() - start);
	}
	return 0;
}

Span Count()
{
	return {reinterpret_cast<uint8_t *>(&g_runs), sizeof(g_runs)};
}

bool Tensor(size_t subgraph, size_t index, tflm_link::Tensor *tensor)
{
	if (subgraph != 0 || index > 3) {
		return false;
	}
	static const char *const kNames[] = {"image", "middle", "result", "runs"};
	const bool count = index == 3;
	*tensor = {kNames[index], std::strlen(kNames[index]), count ? kOne : kShape, static_cast<uint8_t>(count ? 1 : 3),
		   static_cast<uint8_t>(count ? 2 : 9), count && stateful, !count, count ? 0.0f : 0.5f, count ? 0 : -3,
		   count ? Count() : Span{index == 1 ? g_middle : g_shared, kBytes}};
	return true;
}

bool Op(size_t index, tflm_link::Operator *op)
{
	if (index == 0) {
		*op = {105, nullptr, 0, 0, kMiddle, 1};
	} else {
		*op = {18, nullptr, 0, 1, kLast, 2};
	}
	return index < 2;
}

// The third model folds its input, which comes in pieces, into a few bytes.
constexpr size_t kFolded = 64;
const int32_t kFoldedShape[] = {1, 64};
const int32_t kFoldedTensor[] = {1};
uint8_t g_folded[kFolded];
size_t g_taken;

int Take(size_t, uint32_t offset, const uint8_t *data, size_t size)
{
	if (offset == 0) {
		g_taken = 0;
		std::memset(g_folded, 0, sizeof(g_folded));
	}
	if (offset != g_taken || size > kBytes - g_taken) {
		return 11;
	}
	for (size_t i = 0; i < size; ++i, ++g_taken) {
		uint8_t &place = g_folded[g_taken % kFolded];
		place = static_cast<uint8_t>(31 * place + data[i]);
	}
	return 0;
}

int Fold(const Observer *observer)
{
	if (g_taken != kBytes) {
		return 11;
	}
	g_taken = 0;
	if (observer != nullptr) {
		observer->ended(observer->context, 0, 1);
	}
	return 0;
}

bool FoldTensor(size_t subgraph, size_t index, tflm_link::Tensor *tensor)
{
	if (subgraph != 0 || index > 1) {
		return false;
	}
	if (index == 0) {
		*tensor = {"image", 5, kShape, 3, 9, false, true, 0.5f, -3, {nullptr, kBytes}, true};
	} else {
		*tensor = {"folded", 6, kFoldedShape, 2, 9, false, true, 0.5f, -3, {g_folded, kFolded}};
	}
	return true;
}

const tflm_link::Model kModels[] = {
	{
		"toy",
		"0123456789abcdef",
		"given",
		Init,
		Reset,
		Invoke,
		[](size_t) { return Span{g_shared, kBytes}; },
		[](size_t index) { return index == 0 ? Span{g_shared, kBytes} : Count(); },
		[](size_t) -> int32_t { return 0; },
		[](size_t index) -> int32_t { return index == 0 ? 2 : 3; },
		Tensor,
		Op,
		[] { return tflm_link::Arena{20000, 2 * kBytes, 128}; },
		1,
		2,
		4,
		2,
		g_ticks,
	},
	{
		"refused",
		"fedcba9876543210",
		"given",
		[] { return 4; },
		Reset,
		Invoke,
		[](size_t) { return Span{nullptr, 0}; },
		[](size_t) { return Span{nullptr, 0}; },
		[](size_t) -> int32_t { return 0; },
		[](size_t) -> int32_t { return 0; },
		Tensor,
		Op,
		[] { return tflm_link::Arena{100, 0, 0}; },
		0,
		0,
		0,
		0,
		g_ticks,
	},
	{
		"streamed",
		"00112233445566778",
		"given",
		[] { return 0; },
		[] {
			g_taken = 0;
			return 0;
		},
		Fold,
		[](size_t) { return Span{nullptr, kBytes}; },
		[](size_t) { return Span{g_folded, kFolded}; },
		[](size_t) -> int32_t { return 0; },
		[](size_t) -> int32_t { return 1; },
		FoldTensor,
		[](size_t index, tflm_link::Operator *op) {
			*op = {105, nullptr, 0, 0, kFoldedTensor, 1};
			return index < 1;
		},
		[] { return tflm_link::Arena{100, 100, 0}; },
		1,
		1,
		2,
		1,
		g_ticks,
		Take,
		0,
	},
};

}  // namespace

const tflm_link::Model *const *Models()
{
	static const tflm_link::Model *const kAll[] = {&kModels[0], &kModels[1], &kModels[2]};
	return kAll;
}

}  // namespace toy
