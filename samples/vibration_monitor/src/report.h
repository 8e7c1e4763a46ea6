/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a change of the state goes beside the log: over CoAP with CONFIG_VIBRATION_REPORT_COAP,
 * else nowhere.
 */
#ifndef REPORT_H_
#define REPORT_H_

#include "monitor.h"

#ifdef CONFIG_VIBRATION_REPORT_COAP
/* Takes a copy and returns at once. When the network is slow, the oldest reports are dropped. */
void report_state(const struct monitor_result *result);
#else
static inline void report_state(const struct monitor_result *result)
{
	(void)result;
}
#endif

#endif /* REPORT_H_ */
