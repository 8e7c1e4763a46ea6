/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accelerometer, read at a fixed rate by a thread of its own, and the ring of its newest
 * samples.
 */
#ifndef SAMPLER_H_
#define SAMPLER_H_

#include <stdbool.h>
#include <stdint.h>

#define SAMPLER_RATE_HZ 400
#define SAMPLER_AXES    3
/* Samples in the ring. A power of two: their numbers wrap around after 124 days. */
#define SAMPLER_HELD    512

struct sampler_stats {
	uint32_t samples; /* read since the start */
	uint32_t lost;    /* whose time passed before the thread came to read them */
	uint32_t errors;  /* of the sensor or its bus */
};

/* Called in the sampler's thread after each sample. `gap`: one or more before it are lost. */
typedef void (*sampler_fn)(bool gap);

/* Sets the sensor up and starts the thread. Returns 0 or a negative errno. */
int sampler_start(sampler_fn sampled);

/* The number of the next sample. */
uint32_t sampler_next(void);

/* Sample `number`, one of the newest SAMPLER_HELD, in thousandths of g. */
const int16_t *sampler_at(uint32_t number);

void sampler_stats(struct sampler_stats *stats);

#endif /* SAMPLER_H_ */
