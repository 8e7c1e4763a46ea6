# SPDX-License-Identifier: Apache-2.0
"""Scripts that write data files of the package."""
