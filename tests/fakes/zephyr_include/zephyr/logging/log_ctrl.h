/* SPDX-License-Identifier: Apache-2.0 */
// What the generated app uses of Zephyr's header, with logging off.
#ifndef FAKE_ZEPHYR_LOGGING_LOG_CTRL_H_
#define FAKE_ZEPHYR_LOGGING_LOG_CTRL_H_

#define LOG_PANIC()

#endif
