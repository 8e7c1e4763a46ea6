/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor.h"

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/logging/log.h>
#include <zephyr/sys/atomic.h>
#include <zephyr/sys/util.h>

LOG_MODULE_REGISTER(vibration, CONFIG_VIBRATION_LOG_LEVEL);

/* Below the sampler and above the log and the shell. */
#define PRIORITY K_PRIO_PREEMPT(5)

BUILD_ASSERT(VIBRATION_INPUT_ELEMENTS % SAMPLER_AXES == 0, "the model takes windows of three axes");
BUILD_ASSERT(MONITOR_WINDOW + CONFIG_VIBRATION_HOP <= SAMPLER_HELD,
	     "samples are overwritten before the inference has a hop's time to read them");
BUILD_ASSERT(CONFIG_VIBRATION_DEADLINE_MS * SAMPLER_RATE_HZ < CONFIG_VIBRATION_HOP * MSEC_PER_SEC,
	     "the deadline of a window is after the end of the next one");

static K_THREAD_STACK_DEFINE(stack, CONFIG_VIBRATION_INFERENCE_STACK_SIZE + VIBRATION_STACK_BYTES);
static struct k_work_q queue;
static monitor_fn on_result;
/* Written in the work queue alone, but for the missed windows. */
static struct monitor_stats counted;
static atomic_t missed;

/* The window that the work queue computes, set by the sampler while `busy` is 0. */
static uint32_t first_sample;
static uint32_t last_sample_cycles;
static uint32_t number;
static atomic_t busy;

/* Copies for monitor_last(): the model may compute in place of its input. */
static int8_t last_input[VIBRATION_INPUT_ELEMENTS];
static int8_t last_output[VIBRATION_OUTPUT_ELEMENTS];
static K_MUTEX_DEFINE(last);

/*
 * It says that a result is late when it is late, not when it comes: an inference that hangs is seen
 * as well.
 */
static void deadline_passed(struct k_timer *timer)
{
	ARG_UNUSED(timer);
	LOG_ERR("window %u: no result within %d ms", number, CONFIG_VIBRATION_DEADLINE_MS);
}

static K_TIMER_DEFINE(deadline, deadline_passed, NULL);

/*
 * The window without its mean, which has gravity in it, in g. False when newer samples came over it
 * meanwhile.
 */
static bool fill_input(int8_t *input)
{
	int32_t sum[SAMPLER_AXES] = {0};
	float mean[SAMPLER_AXES];

	for (uint32_t i = 0; i < MONITOR_WINDOW; i++) {
		for (int axis = 0; axis < SAMPLER_AXES; axis++) {
			sum[axis] += sampler_at(first_sample + i)[axis];
		}
	}
	for (int axis = 0; axis < SAMPLER_AXES; axis++) {
		mean[axis] = (float)sum[axis] / MONITOR_WINDOW;
	}
	for (uint32_t i = 0; i < MONITOR_WINDOW; i++) {
		for (int axis = 0; axis < SAMPLER_AXES; axis++) {
			float mg = sampler_at(first_sample + i)[axis] - mean[axis];

			*input++ = vibration_input_quantize(mg / 1000.0f);
		}
	}
	return sampler_next() - first_sample < SAMPLER_HELD;
}

/* Runs the model. Returns 0 or a negative errno. */
static int classify(struct monitor_result *result)
{
	uint32_t start = k_cycle_get_32();
	uint32_t took_us;
	int failed;

	if (IS_ENABLED(CONFIG_SHELL)) {
		k_mutex_lock(&last, K_FOREVER);
		memcpy(last_input, vibration_input(), sizeof(last_input));
	}
	failed = vibration_invoke();
	took_us = k_cyc_to_us_floor32(k_cycle_get_32() - start);
	counted.longest_invoke_us = MAX(counted.longest_invoke_us, took_us);
	if (failed == 0) {
		result->state = vibration_output_argmax();
		result->percent =
			100.0f * vibration_output_dequantize(vibration_output()[result->state]) +
			0.5f;
	}
	if (IS_ENABLED(CONFIG_SHELL)) {
		memcpy(last_output, vibration_output(), sizeof(last_output));
		k_mutex_unlock(&last);
	}
	return failed;
}

static void infer(struct k_work *work)
{
	struct monitor_result result = {.window = number};
	int failed = 0;
	bool whole;

	ARG_UNUSED(work);
	whole = fill_input(vibration_input());
	if (whole) {
		failed = classify(&result);
	}
	k_timer_stop(&deadline);
	result.late = k_timer_status_get(&deadline) > 0;
	result.delay_us = k_cyc_to_us_floor32(k_cycle_get_32() - last_sample_cycles);
	if (!whole) {
		atomic_inc(&missed);
		LOG_ERR("window %u: its samples are gone", result.window);
	} else if (failed != 0) {
		counted.failed++;
		LOG_ERR("window %u: %s", result.window, tflm_result_text(failed));
	} else {
		counted.windows++;
		counted.late += result.late;
		counted.longest_delay_us = MAX(counted.longest_delay_us, result.delay_us);
		on_result(&result);
	}
	atomic_set(&busy, 0);
}

static K_WORK_DEFINE(inference, infer);

/*
 * In the sampler's thread: a window is whole, a hop after the one before or its own length after a
 * gap.
 */
static void sampled(bool gap)
{
	static uint32_t wanted = MONITOR_WINDOW;
	static uint32_t following;
	uint32_t window;

	if (gap) {
		wanted = MONITOR_WINDOW;
	}
	if (--wanted > 0) {
		return;
	}
	wanted = CONFIG_VIBRATION_HOP;
	window = following++;
	if (!atomic_cas(&busy, 0, 1)) {
		atomic_inc(&missed);
		LOG_ERR("window %u: the one before is not done", window);
		return;
	}
	number = window;
	first_sample = sampler_next() - MONITOR_WINDOW;
	last_sample_cycles = k_cycle_get_32();
	k_timer_start(&deadline, K_MSEC(CONFIG_VIBRATION_DEADLINE_MS), K_NO_WAIT);
	k_work_submit_to_queue(&queue, &inference);
}

static int built = -EAGAIN;

/* In the work queue, so that no other thread needs a stack for TFLM. */
static void build(struct k_work *work)
{
	ARG_UNUSED(work);
	built = vibration_init();
}

static K_WORK_DEFINE(building, build);

int monitor_start(monitor_fn done)
{
	const struct k_work_queue_config config = {.name = "inference"};
	struct k_work_sync sync;

	on_result = done;
	k_work_queue_start(&queue, stack, K_THREAD_STACK_SIZEOF(stack), PRIORITY, &config);
	k_work_submit_to_queue(&queue, &building);
	k_work_flush(&building, &sync);
	if (built != 0) {
		LOG_ERR("model %s: %s", vibration_sha256(), tflm_result_text(built));
		return built;
	}
	return sampler_start(sampled);
}

void monitor_stats(struct monitor_stats *stats)
{
	*stats = counted;
	stats->missed = atomic_get(&missed);
}

bool monitor_last(int8_t input[VIBRATION_INPUT_ELEMENTS], int8_t output[VIBRATION_OUTPUT_ELEMENTS])
{
	bool any;

	k_mutex_lock(&last, K_FOREVER);
	any = counted.windows > 0;
	memcpy(input, last_input, sizeof(last_input));
	memcpy(output, last_output, sizeof(last_output));
	k_mutex_unlock(&last);
	return any;
}
