# SPDX-License-Identifier: Apache-2.0
"""People's files (arrays, images, sound, tables) as the bytes of a model's inputs."""
