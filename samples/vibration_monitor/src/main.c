/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the application does with the results: a state that several windows agree on is logged, and
 * reported.
 */
#include <zephyr/kernel.h>
#include <zephyr/logging/log.h>

#include "monitor.h"
#include "report.h"

LOG_MODULE_DECLARE(vibration, CONFIG_VIBRATION_LOG_LEVEL);

/* In the inference work queue. */
static void classified(const struct monitor_result *result)
{
	static uint8_t candidate = UINT8_MAX;
	static uint8_t reported = UINT8_MAX;
	static uint32_t equal;

	LOG_DBG("window %u: %s, %u %%, %u us after its last sample", result->window,
		vibration_labels[result->state], result->percent, result->delay_us);
	equal = result->state == candidate ? equal + 1 : 1;
	candidate = result->state;
	if (equal < CONFIG_VIBRATION_STEADY_WINDOWS || candidate == reported) {
		return;
	}
	reported = candidate;
	LOG_INF("%s (window %u, %u %%)", vibration_labels[reported], result->window,
		result->percent);
	report_state(result);
}

int main(void)
{
	size_t size, head, tail;
	int failed = monitor_start(classified);

	if (failed == 0) {
		vibration_arena(&size, &head, &tail);
		LOG_INF("model %s, arena %u of %u bytes, a window each %u ms", vibration_sha256(),
			head + tail, size, CONFIG_VIBRATION_HOP * MSEC_PER_SEC / SAMPLER_RATE_HZ);
	}
	return failed; /* the threads go on */
}
