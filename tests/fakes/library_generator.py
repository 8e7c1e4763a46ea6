# SPDX-License-Identifier: Apache-2.0
"""Stands in for `python cmake/generator.py library`: a model is a text of TFLM's sources and a line of weights."""

from __future__ import annotations

import os
import sys
from pathlib import Path

C_HEADER = "const char *{name}_weights(void);\n"
CXX = 'extern "C" const char {name}_data[];\nextern "C" const char *{name}_weights(void) {{ return {name}_data; }}\n'
DATA = "\t.section .rodata\n\t.global {name}_data\n{name}_data:\n\t.incbin TFLM_MODEL_FILE\n\t.byte 0\n"


def main(argv: list[str]) -> int:
    """Write the library as `library` does: a file only when its content differs."""
    with Path(os.environ["GENERATOR_LOG"]).open("a") as log:
        log.write(" ".join(argv) + "\n")
    model, out = Path(argv[2]), Path(argv[argv.index("-o") + 1])
    name = argv[argv.index("--name") + 1]
    kernels = argv[argv.index("--kernels") + 1]
    lines = model.read_text().splitlines()
    if lines[0] == "broken":
        print(f"tflm-zephyr: error: {model}: broken", file=sys.stderr)
        return 1
    files = {
        f"include/{name}.h": C_HEADER,
        f"src/models/{name}.cpp": CXX,
        f"src/models/{name}_data.S": DATA,
        f"src/models/{name}.tflite": lines[-1],
        "src/port.cpp": "void port() {{}}\n",
    }
    lists = {
        "SOURCES": [f"src/models/{name}.cpp", f"src/models/{name}_data.S"],
        "TFLM_SOURCES": lines[:-1],
        "TFLM_INCLUDE_DIRS": ["."],
        "CMSIS_NN_SOURCES": ["arm.c"] if kernels == "cmsis_nn" else [],
        "FILES": [*files, "library.cmake"],
        "KERNELS": ["reference" if kernels == "auto" else kernels],
    }
    files["library.cmake"] = "".join(f"set(TFLM_MODEL_{key} {' '.join(value)})\n" for key, value in lists.items())
    for path, text in files.items():
        file, content = out / path, text.format(name=name) if path != "library.cmake" else text
        if not file.is_file() or file.read_text() != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    print(f"{name}: arena of nothing\na second remark")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
