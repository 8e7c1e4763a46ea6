# SPDX-License-Identifier: Apache-2.0
"""The commands, one module each: parsed arguments in, text and JSON out. They print nothing; `cli.main` does.

A command's module is imported when the command runs, as together they take a second.
"""
