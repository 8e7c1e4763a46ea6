/* SPDX-License-Identifier: Apache-2.0 */
// MLPerf Tiny's dialect on stdin and stdout. Arguments: the model's name, its input's type and number of elements, its
// output's; then: plain (neither is quantised), broken (it does not initialise), fails (nor does it run), two (inputs),
// streamed (the input is taken in pieces, anew for each run).
//
// The model halves its input's elements, as many as the output has, towards zero. The output is in the input's memory.
#include <cstdlib>
#include <cstring>

#include "link/mlperf.hpp"
#include "posix_port.hpp"

namespace {

using tflm_link::Span;

constexpr size_t kMostBytes = 1 << 16;
alignas(8) uint8_t g_data[kMostBytes];

struct Type {
	const char *name;
	uint8_t number;  // in the .tflite schema
	size_t bytes;
};
constexpr Type kTypes[] = {{"float32", 0, 4}, {"int32", 2, 4}, {"uint8", 3, 1}, {"int16", 7, 2}, {"int8", 9, 1}};

struct Form {
	const Type *type;
	size_t elements;
	size_t Bytes() const { return elements * type->bytes; }
};
Form g_in;
Form g_out;
bool g_plain;
bool g_broken;
bool g_fails;
bool g_streamed;
size_t g_taken;

Form FormOf(const char *type, const char *elements)
{
	for (const Type &known : kTypes) {
		if (std::strcmp(known.name, type) == 0) {
			return {&known, static_cast<size_t>(std::atoi(elements))};
		}
	}
	std::abort();
}

double Get(const Form &form, size_t index)
{
	const uint8_t *at = g_data + index * form.type->bytes;
	float real;
	int16_t wide;
	switch (form.type->number) {
	case 0:
		std::memcpy(&real, at, sizeof(real));
		return real;
	case 3:
		return *at;
	case 7:
		std::memcpy(&wide, at, sizeof(wide));
		return wide;
	default:
		return static_cast<int8_t>(*at);
	}
}

void Put(const Form &form, size_t index, double value)
{
	uint8_t *at = g_data + index * form.type->bytes;
	const float real = static_cast<float>(value);
	const int32_t level = form.type->number == 0 ? 0 : static_cast<int32_t>(value);
	// Little endian: the first bytes are the low ones.
	std::memcpy(at, form.type->number == 0 ? static_cast<const void *>(&real) : &level, form.type->bytes);
}

int Take(size_t, uint32_t offset, const uint8_t *data, size_t size)
{
	g_taken = offset == 0 ? 0 : g_taken;
	if (offset != g_taken || size > g_in.Bytes() - g_taken) {
		return 11;
	}
	std::memcpy(g_data + offset, data, size);
	g_taken += size;
	return 0;
}

int Invoke(const tflm_link::Observer *)
{
	if (g_streamed && g_taken != g_in.Bytes()) {
		return 11;
	}
	g_taken = 0;
	static double halves[kMostBytes];
	for (size_t i = 0; i < g_out.elements; ++i) {
		halves[i] = Get(g_in, i) / 2;
	}
	for (size_t i = 0; i < g_out.elements; ++i) {
		Put(g_out, i, halves[i]);
	}
	return g_fails ? 5 : 0;
}

bool Tensor(size_t, size_t index, tflm_link::Tensor *tensor)
{
	const Form &form = index == 0 ? g_in : g_out;
	*tensor = {};
	tensor->type = form.type->number;
	tensor->data = {g_data, form.Bytes()};
	if (form.type->number != 0 && !g_plain) {
		tensor->quantized = true;
		tensor->scale = index == 0 ? 0.25f : 0.5f;
		tensor->zero_point = index == 0 ? 3 : -7;
	}
	return true;
}

bool Has(int count, char **words, const char *word)
{
	for (int i = 6; i < count; ++i) {
		if (std::strcmp(words[i], word) == 0) {
			return true;
		}
	}
	return false;
}

}  // namespace

int main(int count, char **words)
{
	if (count < 6) {
		return 2;
	}
	g_in = FormOf(words[2], words[3]);
	g_out = FormOf(words[4], words[5]);
	g_plain = Has(count, words, "plain");
	g_broken = Has(count, words, "broken");
	g_fails = Has(count, words, "fails");
	tflm_link::Model model = {};
	model.name = words[1];
	model.init = [] { return g_broken ? 4 : 0; };
	model.invoke = Invoke;
	g_streamed = Has(count, words, "streamed");
	model.input = [](size_t) { return Span{g_streamed ? nullptr : g_data, g_in.Bytes()}; };
	model.take = g_streamed ? Take : nullptr;
	model.input_tensor = [](size_t) -> int32_t { return 0; };
	model.output_tensor = [](size_t) -> int32_t { return 1; };
	model.tensor = Tensor;
	model.inputs = Has(count, words, "two") ? 2 : 1;
	model.outputs = 1;
	tflm_link::App app = {};
	app.board = "host";
	app.hz = 1000000;
	// As large as the generated app's, so that the sanitizer sees what goes beyond.
	const size_t bytes = std::strcmp(model.name, "ad01") == 0 ? 4 * g_in.elements : g_in.Bytes();
	const Span loaded = {static_cast<uint8_t *>(std::malloc(bytes)), bytes};
	const tflm_link::Port port = posix_port::Open();
	tflm_link::Mlperf mlperf(port, app, model, loaded);
	mlperf.Start();
	while (true) {
		mlperf.Poll();
	}
}
