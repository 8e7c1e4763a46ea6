/* SPDX-License-Identifier: Apache-2.0 */
// A port on stdin and stdout; the process ends when stdin does.
#ifndef POSIX_PORT_HPP_
#define POSIX_PORT_HPP_

#include "link/device.hpp"

namespace posix_port {

tflm_link::Port Open();
// Past the port: all of it, at once.
void Send(const void *data, size_t size);
// What has come, at most `size` bytes; waits 0.1 s for it.
size_t Read(void *, uint8_t *data, size_t size);
uint32_t Ticks();  // microseconds

}  // namespace posix_port

#endif  // POSIX_PORT_HPP_
