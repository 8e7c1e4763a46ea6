/* SPDX-License-Identifier: Apache-2.0 */
// Written once by tflm-zephyr: this file is yours.
#include "run.hpp"

int main()
{
	// Tests the models and prints the results, or answers a host. README.md shows a model in code of your own.
	return tflm_app::Run();
}
