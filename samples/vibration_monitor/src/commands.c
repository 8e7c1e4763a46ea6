/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/shell/shell.h>

#include "monitor.h"
#include "simulated_machine.h"

static int8_t input[VIBRATION_INPUT_ELEMENTS];
static int8_t output[VIBRATION_OUTPUT_ELEMENTS];

static int cmd_status(const struct shell *sh, size_t argc, char **argv)
{
	struct sampler_stats samples;
	struct monitor_stats windows;

	ARG_UNUSED(argc);
	ARG_UNUSED(argv);
	sampler_stats(&samples);
	monitor_stats(&windows);
	shell_print(sh, "uptime %lld ms", k_uptime_get());
	shell_print(sh, "samples: %u read, %u lost, %u errors", samples.samples, samples.lost,
		    samples.errors);
	shell_print(sh, "windows: %u done, %u missed, %u late, %u failed", windows.windows,
		    windows.missed, windows.late, windows.failed);
	shell_print(sh,
		    "longest: %u us from the last sample to the result, %u us of it in the model",
		    windows.longest_delay_us, windows.longest_invoke_us);
#ifdef CONFIG_SCHED_THREAD_USAGE_ALL
	k_thread_runtime_stats_t core;

	if (k_thread_runtime_stats_all_get(&core) == 0) {
		shell_print(sh, "core: asleep for %u %% of the time",
			    (uint32_t)(100 * core.idle_cycles / MAX(core.execution_cycles, 1)));
	}
#endif
	return 0;
}

static int cmd_scores(const struct shell *sh, size_t argc, char **argv)
{
	ARG_UNUSED(argc);
	ARG_UNUSED(argv);
	if (!monitor_last(input, output)) {
		shell_error(sh, "there was no window yet");
		return -EAGAIN;
	}
	for (int state = 0; state < VIBRATION_LABELS; state++) {
		shell_print(sh, "%-13s %3d %%", vibration_labels[state],
			    (int)(100.0f * vibration_output_dequantize(output[state]) + 0.5f));
	}
	return 0;
}

static int cmd_tensors(const struct shell *sh, size_t argc, char **argv)
{
	ARG_UNUSED(argc);
	ARG_UNUSED(argv);
	if (!monitor_last(input, output)) {
		shell_error(sh, "there was no window yet");
		return -EAGAIN;
	}
	shell_print(sh, "model %s", vibration_sha256());
	for (size_t i = 0; i < sizeof(input); i += 32) {
		for (size_t j = i; j < MIN(i + 32, sizeof(input)); j++) {
			shell_fprintf(sh, SHELL_NORMAL, "%02x", (uint8_t)input[j]);
		}
		shell_print(sh, "%s", "");
	}
	shell_fprintf(sh, SHELL_NORMAL, "output ");
	for (size_t j = 0; j < sizeof(output); j++) {
		shell_fprintf(sh, SHELL_NORMAL, "%02x", (uint8_t)output[j]);
	}
	shell_print(sh, "%s", "");
	return 0;
}

static int cmd_machine(const struct shell *sh, size_t argc, char **argv)
{
	ARG_UNUSED(argc);
	if (strcmp(argv[1], "cycle") == 0) {
		machine_set(MACHINE_CYCLES);
		return 0;
	}
	for (int state = 0; state < VIBRATION_LABELS; state++) {
		if (strcmp(argv[1], vibration_labels[state]) == 0) {
			machine_set(state);
			return 0;
		}
	}
	shell_error(sh, "%s: not a state of the machine", argv[1]);
	return -EINVAL;
}

SHELL_STATIC_SUBCMD_SET_CREATE(
	subcommands,
	SHELL_CMD(status, NULL, "Counts of samples and windows, times, sleep", cmd_status),
	SHELL_CMD(scores, NULL, "Scores of the last window", cmd_scores),
	SHELL_CMD(tensors, NULL, "Input and output of the last window, in hexadecimal digits",
		  cmd_tensors),
	SHELL_COND_CMD_ARG(CONFIG_VIBRATION_SIMULATED_MACHINE, machine, NULL,
			   "Put the simulated machine into a state; cycle goes through all",
			   cmd_machine, 2, 0),
	SHELL_SUBCMD_SET_END);
SHELL_CMD_REGISTER(vibration, &subcommands, "The vibration monitor", NULL);
