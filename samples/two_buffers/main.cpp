/* SPDX-License-Identifier: Apache-2.0 */
// Two threads, two buffers, no copies: a sensor fills one frame while the model reads the other in place.
#include <cstring>

#include <zephyr/kernel.h>

#include "models/digits.hpp"
#include "models/digits_data.hpp"
#include "report.hpp"

namespace {

namespace model = models::digits;

constexpr size_t kFrameBytes = 64;
constexpr size_t kBuffers = 2;

// `frame` is the one that app.yaml names: the input tensor's until another is registered.
alignas(16) uint8_t second_frame[kFrameBytes];
uint8_t *const g_buffers[kBuffers] = {frame, second_frame};

// How many buffers the sensor may fill, and how many it has filled.
K_SEM_DEFINE(g_empty, kBuffers, kBuffers);
K_SEM_DEFINE(g_full, 0, kBuffers);

// Frame k of the sensor: here the self-test's, 8 x 8 grey pixels; the expected scores follow them.
const uint8_t *Pixels(size_t k)
{
	return model::kGolden.bytes + k * (kFrameBytes + model::Output0().size());
}

// Stands for a camera's driver, or its DMA channel, which writes straight to where the model reads.
void Sensor(void *, void *, void *)
{
	for (size_t k = 0; k < model::kGolden.runs; ++k) {
		k_sem_take(&g_empty, K_FOREVER);
		uint8_t *const buffer = g_buffers[k % kBuffers];
		for (size_t pixel = 0; pixel < kFrameBytes; ++pixel) {
			buffer[pixel] = Pixels(k)[pixel];
			if (pixel % 16 == 0) {
				k_sleep(K_USEC(100));  // a line takes its time; the model runs meanwhile
			}
		}
		k_sem_give(&g_full);
	}
}

K_THREAD_STACK_DEFINE(g_sensor_stack, 1024);
struct k_thread g_sensor;

}  // namespace

int main()
{
	tflm_app::RecordBegin("digits", model::kModelSha256);
	const tflm_app::Status started = model::Init();
	if (started != tflm_app::Status::kOk) {
		tflm_app::RecordError(static_cast<int>(started), "init");
		tflm_app::RecordEnd("fail");
		return 0;
	}
	k_thread_create(&g_sensor, g_sensor_stack, K_THREAD_STACK_SIZEOF(g_sensor_stack), Sensor, nullptr, nullptr, nullptr,
			K_PRIO_PREEMPT(CONFIG_MAIN_THREAD_PRIORITY - 1), 0, K_NO_WAIT);
	bool good = true;
	for (size_t k = 0; k < model::kGolden.runs; ++k) {
		k_sem_take(&g_full, K_FOREVER);
		uint8_t *const buffer = g_buffers[k % kBuffers];
		good &= model::RegisterPreallocatedTensor(model::kTensor_frame, buffer, kFrameBytes) == tflm_app::Status::kOk;
		good &= model::InputBytes(0).data == buffer;  // in place
		good &= model::Invoke() == tflm_app::Status::kOk;
		k_sem_give(&g_empty);
		const tflm_app::Bytes scores = model::OutputBytes(0);
		good &= std::memcmp(scores.data, Pixels(k) + kFrameBytes, scores.size) == 0;
		tflm_app::RecordOutput(k, 0, "int8", scores);
	}
	tflm_app::RecordEnd(good ? "pass" : "fail");
	return 0;
}
