# SPDX-License-Identifier: Apache-2.0
"""What each command does: parsed arguments in, text and JSON out. Prints nothing; `cli.main` does.

A command's module is imported when the command runs, as together they take a second.
"""
