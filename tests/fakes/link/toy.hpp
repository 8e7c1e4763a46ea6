/* SPDX-License-Identifier: Apache-2.0 */
// A model without TFLM: two operators on 9216 bytes, output in the memory of the input, and a count of runs.
#ifndef TOY_HPP_
#define TOY_HPP_

#include "link/device.hpp"

namespace toy {

constexpr size_t kBytes = 9216;
// What a run does besides: prints, takes its time, dies.
extern void (*during_invoke)(uint8_t first);
extern bool stateful;
extern uint32_t (*now)();
const tflm_link::Model *const *Models();

}  // namespace toy

#endif  // TOY_HPP_
