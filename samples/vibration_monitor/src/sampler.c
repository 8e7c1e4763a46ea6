/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler.h"

#include <errno.h>

#include <zephyr/device.h>
#include <zephyr/drivers/sensor.h>
#include <zephyr/kernel.h>
#include <zephyr/logging/log.h>
#include <zephyr/sys/atomic.h>
#include <zephyr/sys/util.h>

LOG_MODULE_DECLARE(vibration, CONFIG_VIBRATION_LOG_LEVEL);

#define FULL_SCALE_G 4
/* A late thread reads the next sample; nothing in the application is more urgent. */
#define PRIORITY K_PRIO_PREEMPT(0)

static const struct device *const accelerometer = DEVICE_DT_GET(DT_ALIAS(accel0));

BUILD_ASSERT(CONFIG_SYS_CLOCK_TICKS_PER_SEC >= 20 * SAMPLER_RATE_HZ, "too few ticks for even samples");
BUILD_ASSERT(IS_POWER_OF_TWO(SAMPLER_HELD), "sample numbers wrap around");
static int16_t ring[SAMPLER_HELD][SAMPLER_AXES];
static atomic_t next;
static struct sampler_stats counted;
static sampler_fn on_sample;

static K_TIMER_DEFINE(period, NULL, NULL);
static K_THREAD_STACK_DEFINE(stack, CONFIG_VIBRATION_SAMPLER_STACK_SIZE);
static struct k_thread thread;

static int read_sample(int16_t *mg)
{
	struct sensor_value values[SAMPLER_AXES];
	int result = sensor_sample_fetch_chan(accelerometer, SENSOR_CHAN_ACCEL_XYZ);

	if (result == 0) {
		result = sensor_channel_get(accelerometer, SENSOR_CHAN_ACCEL_XYZ, values);
	}
	for (int axis = 0; result == 0 && axis < SAMPLER_AXES; axis++) {
		mg[axis] = CLAMP(sensor_ms2_to_mg(&values[axis]), INT16_MIN, INT16_MAX);
	}
	return result;
}

static void sample(void *a, void *b, void *c)
{
	bool gap = false;

	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	k_timer_start(&period, K_USEC(USEC_PER_SEC / SAMPLER_RATE_HZ), K_USEC(USEC_PER_SEC / SAMPLER_RATE_HZ));
	while (true) {
		uint32_t passed = k_timer_status_sync(&period);
		uint32_t number = atomic_get(&next);
		int result;

		if (passed > 1) {
			counted.lost += passed - 1;
			gap = true;
			LOG_WRN("%u samples lost", passed - 1);
		}
		result = read_sample(ring[number % SAMPLER_HELD]);
		if (result != 0) {
			if (counted.errors++ == 0) {
				LOG_ERR("%s: error %d", accelerometer->name, result);
			}
			gap = true;
			continue;
		}
		counted.samples++;
		atomic_set(&next, number + 1);
		on_sample(gap);
		gap = false;
	}
}

/* A sensor whose rate or range is fixed otherwise, in Kconfig or devicetree, does not take them here. */
static void set(enum sensor_attribute attribute, struct sensor_value value, const char *name)
{
	int result = sensor_attr_set(accelerometer, SENSOR_CHAN_ACCEL_XYZ, attribute, &value);

	if (result != 0) {
		LOG_WRN("%s: its %s is not set here (%d)", accelerometer->name, name, result);
	}
}

int sampler_start(sampler_fn sampled)
{
	struct sensor_value range;

	if (!device_is_ready(accelerometer)) {
		LOG_ERR("%s is not ready", accelerometer->name);
		return -ENODEV;
	}
	sensor_g_to_ms2(FULL_SCALE_G, &range);
	set(SENSOR_ATTR_FULL_SCALE, range, "range");
	set(SENSOR_ATTR_SAMPLING_FREQUENCY, (struct sensor_value){.val1 = SAMPLER_RATE_HZ}, "rate");
	on_sample = sampled;
	k_thread_create(&thread, stack, K_THREAD_STACK_SIZEOF(stack), sample, NULL, NULL, NULL, PRIORITY, 0, K_NO_WAIT);
	k_thread_name_set(&thread, "sampler");
	return 0;
}

uint32_t sampler_next(void)
{
	return atomic_get(&next);
}

const int16_t *sampler_at(uint32_t number)
{
	return ring[number % SAMPLER_HELD];
}

void sampler_stats(struct sampler_stats *stats)
{
	*stats = counted;
}
