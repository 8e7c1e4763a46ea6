/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine for the emulated accelerometer: four seconds of each state, made by train.py, over and
 * over.
 */
#ifndef SIMULATED_MACHINE_H_
#define SIMULATED_MACHINE_H_

#define MACHINE_CYCLES -1

/*
 * Puts the machine into the state of that index in vibration_labels, or MACHINE_CYCLES: each state
 * for a while.
 */
void machine_set(int state);

#endif /* SIMULATED_MACHINE_H_ */
