/* SPDX-License-Identifier: Apache-2.0 */
#include "simulated_machine.h"

#include <zephyr/drivers/emul.h>
#include <zephyr/drivers/emul_sensor.h>
#include <zephyr/drivers/sensor.h>
#include <zephyr/init.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/byteorder.h>

#include "sampler.h"
#include "vibration.h"

#define RECORDED      (4 * SAMPLER_RATE_HZ)
#define SAMPLE_BYTES  (SAMPLER_AXES * sizeof(int16_t))
/*
 * An acceleration of 1 as Zephyr's emulators take it: a fixed-point number within +-2^SHIFT m/s^2.
 */
#define SHIFT         7
#define Q31_OF_MG(mg) ((q31_t)((mg) * (9.80665e-3 * (1LL << (31 - SHIFT)))))

static const uint8_t recordings[] = {
#include "machine.bin.inc"
};
BUILD_ASSERT(sizeof(recordings) == VIBRATION_LABELS * RECORDED * SAMPLE_BYTES,
	     "train.py wrote another machine.bin");

static const struct emul *const sensor = EMUL_DT_GET(DT_ALIAS(accel0));
static atomic_t chosen = MACHINE_CYCLES;

/* The physical world: the sensor has another acceleration, whether anybody reads it or not. */
static void move(struct k_timer *timer)
{
	static uint32_t moment;
	const uint32_t period = CONFIG_VIBRATION_MACHINE_STATE_SECONDS * SAMPLER_RATE_HZ;
	int state = atomic_get(&chosen);
	const uint8_t *sample;

	ARG_UNUSED(timer);
	if (state == MACHINE_CYCLES) {
		state = moment / period % VIBRATION_LABELS;
	}
	sample = &recordings[(state * RECORDED + moment++ % RECORDED) * SAMPLE_BYTES];
	for (int axis = 0; axis < SAMPLER_AXES; axis++) {
		struct sensor_chan_spec channel = {.chan_type = SENSOR_CHAN_ACCEL_X + axis};
		q31_t value = (int16_t)sys_get_le16(&sample[axis * sizeof(int16_t)]) *
			      (int64_t)Q31_OF_MG(1000) / 1000;

		emul_sensor_backend_set_channel(sensor, channel, &value, SHIFT);
	}
}

static K_TIMER_DEFINE(world, move, NULL);

void machine_set(int state)
{
	atomic_set(&chosen, state);
}

static int machine_start(void)
{
	k_timer_start(&world, K_NO_WAIT, K_USEC(USEC_PER_SEC / SAMPLER_RATE_HZ));
	return 0;
}
SYS_INIT(machine_start, APPLICATION, CONFIG_APPLICATION_INIT_PRIORITY);
