# SPDX-License-Identifier: Apache-2.0
"""A stand-in for west as `python -m west`; see __main__.py."""
