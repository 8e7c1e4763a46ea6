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
/* Without a sample for so long the sensor, or its interrupt's wire, is dead. */
#define SILENCE      K_SECONDS(1)
/* A late thread reads the next sample; nothing in the application is more urgent. */
#define PRIORITY     K_PRIO_PREEMPT(0)

#if !DT_NODE_HAS_STATUS_OKAY(DT_ALIAS(accel0))
#error "this board's devicetree has no alias accel0: name the accelerometer in an overlay"
#endif

static const struct device *const accelerometer = DEVICE_DT_GET(DT_ALIAS(accel0));

BUILD_ASSERT(CONFIG_SYS_CLOCK_TICKS_PER_SEC >= 20 * SAMPLER_RATE_HZ,
	     "too few ticks for even samples");
BUILD_ASSERT(IS_POWER_OF_TWO(SAMPLER_HELD), "sample numbers wrap around");
static int16_t ring[SAMPLER_HELD][SAMPLER_AXES];
static atomic_t next;
static struct sampler_stats counted;
static sampler_fn on_sample;

static K_SEM_DEFINE(due, 0, K_SEM_MAX_LIMIT);
static K_THREAD_STACK_DEFINE(stack, CONFIG_VIBRATION_SAMPLER_STACK_SIZE);
static struct k_thread thread;

static int read_sample(int16_t *mg)
{
	struct sensor_value values[SAMPLER_AXES];
	int result = sensor_sample_fetch(accelerometer);

	if (result == 0) {
		result = sensor_channel_get(accelerometer, SENSOR_CHAN_ACCEL_XYZ, values);
	}
	for (int axis = 0; result == 0 && axis < SAMPLER_AXES; axis++) {
		mg[axis] = CLAMP(sensor_ms2_to_mg(&values[axis]), INT16_MIN, INT16_MAX);
	}
	return result;
}

static void ready(const struct device *sensor, const struct sensor_trigger *trigger)
{
	ARG_UNUSED(sensor);
	ARG_UNUSED(trigger);
	k_sem_give(&due);
}

static void period_passed(struct k_timer *timer)
{
	ARG_UNUSED(timer);
	k_sem_give(&due);
}

static K_TIMER_DEFINE(period, period_passed, NULL);

/*
 * The sensor's interrupt sets the pace where its driver has one: two clocks of 400 Hz differ, and
 * drivers may wait, busily, for a sample that is not there yet. Without it, a timer does.
 */
static void set_pace(void)
{
	static const struct sensor_trigger trigger = {
		.type = SENSOR_TRIG_DATA_READY,
		.chan = SENSOR_CHAN_ACCEL_XYZ,
	};
	int result = sensor_trigger_set(accelerometer, &trigger, ready);

	if (result == 0) {
		return;
	}
	LOG_DBG("%s: no data-ready trigger (%d), a timer sets the pace", accelerometer->name,
		result);
	k_timer_start(&period, K_USEC(USEC_PER_SEC / SAMPLER_RATE_HZ),
		      K_USEC(USEC_PER_SEC / SAMPLER_RATE_HZ));
}

/*
 * Waits for the next sample's time. Returns how many samples were lost before it, or -EAGAIN when
 * none comes.
 */
static int wait_for_sample(void)
{
	int lost = 0;

	if (k_sem_take(&due, SILENCE) != 0) {
		return -EAGAIN;
	}
	while (k_sem_take(&due, K_NO_WAIT) == 0) {
		lost++;
	}
	return lost;
}

static void read_samples(void *a, void *b, void *c)
{
	bool gap = false;

	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	set_pace();
	while (true) {
		int lost = wait_for_sample();
		uint32_t number = atomic_get(&next);
		int result;

		if (lost < 0) {
			/* Reading on frees an interrupt's line that nobody saw rise. */
			LOG_ERR("%s: no sample comes", accelerometer->name);
			gap = true;
		} else if (lost > 0) {
			counted.lost += lost;
			gap = true;
			LOG_WRN("%d samples lost", lost);
		}
		result = read_sample(ring[number % SAMPLER_HELD]);
		if (result != 0) {
			counted.errors++;
			if (counted.errors == 1) {
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

/*
 * A sensor whose rate or range is fixed otherwise, in Kconfig or devicetree, does not take them
 * here.
 */
static void set_attribute(enum sensor_attribute attribute, struct sensor_value value,
			  const char *name)
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
	set_attribute(SENSOR_ATTR_FULL_SCALE, range, "range");
	set_attribute(SENSOR_ATTR_SAMPLING_FREQUENCY,
		      (struct sensor_value){.val1 = SAMPLER_RATE_HZ}, "rate");
	on_sample = sampled;
	k_thread_create(&thread, stack, K_THREAD_STACK_SIZEOF(stack), read_samples, NULL, NULL,
			NULL, PRIORITY, 0, K_NO_WAIT);
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
