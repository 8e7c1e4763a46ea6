/* SPDX-License-Identifier: Apache-2.0 */
/* A sliding window over the accelerometer's samples, and the model in a work queue of its own. */
#ifndef MONITOR_H_
#define MONITOR_H_

#include <stdbool.h>
#include <stdint.h>

#include "sampler.h"
#include "vibration.h"

#define MONITOR_WINDOW (VIBRATION_INPUT_ELEMENTS / SAMPLER_AXES)

struct monitor_result {
	uint32_t window;   /* its number, from 0 */
	uint8_t state;     /* the index of vibration_labels */
	uint8_t percent;   /* the state's score */
	bool late;         /* after the deadline */
	uint32_t delay_us; /* from the window's last sample to this result */
};

struct monitor_stats {
	uint32_t windows; /* that have a result */
	uint32_t missed;  /* whose samples were gone, or for which the one before took too long */
	uint32_t late;    /* results after their deadline */
	uint32_t failed;  /* runs of the model that gave an error */
	uint32_t longest_delay_us;
	uint32_t longest_invoke_us;
};

/* Called in the inference work queue, after each window. */
typedef void (*monitor_fn)(const struct monitor_result *result);

/* Builds the interpreter, starts the work queue and the sampler. Returns 0 or a negative errno. */
int monitor_start(monitor_fn done);

void monitor_stats(struct monitor_stats *stats);

/* The input and output of the last window's run, for CONFIG_SHELL. False before the first. */
bool monitor_last(int8_t input[VIBRATION_INPUT_ELEMENTS], int8_t output[VIBRATION_OUTPUT_ELEMENTS]);

#endif /* MONITOR_H_ */
