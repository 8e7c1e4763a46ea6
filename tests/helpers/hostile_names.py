# SPDX-License-Identifier: Apache-2.0
"""Names that would break a generated file if they stood in it as they are."""

from __future__ import annotations

HOSTILE = {
    "newline": "a\nint main() { return 1; } //",
    "comment end": "a */ #error */",
    "comment start": "/* a /*",
    "backslash": "continued \\",
    "backslash before newline": "x \\\n#error",
    "quotes": "say \"no\" and 'never'",
    "trigraph": "what???/",
    "trigraphs": "????/??/\n??/",
    "jinja": "{{ 1/0 }}{% raw %}",
    "unicode": "größe/模型/\U0001f600\u2028\u2029",
    "carriage return": "a\r#error\r",
    "nul and delete": "a\0b\x7f\x1b[31m",
    "long": "x" * 10_000,
    "cmake": "${ENV}; $ENV{HOME} @PWD@ )",
    "yaml": "a: b # c\n- d",
    "empty": "",
}
