// SPDX-License-Identifier: Apache-2.0
"use strict";
// Foreign text reaches the page by textContent alone.
(() => {
  const number = (value) => value.toLocaleString("en-US");
  const line = (className, text) => {
    const p = document.createElement("p");
    p.className = className;
    p.textContent = text;
    return p;
  };

  for (const section of document.querySelectorAll("section.arena")) {
    const data = JSON.parse(document.getElementById(`data-${section.dataset.model}`).textContent);
    const map = section.querySelector(".map");
    const field = section.querySelector(".field");
    const pan = section.querySelector(".pan");
    const details = section.querySelector(".details");
    const marker = section.querySelector(".marker");
    let selected = null;

    const shown = () => {
      const chosen = map.querySelector("input:checked");
      return field.querySelector(`.placing[data-map="${chosen.value}"]`);
    };
    const orders = new Map();
    const ordered = (group) => {
      if (!orders.has(group)) {
        const place = (rect) => [rect.x.baseVal.value, -rect.y.baseVal.value];
        const found = [...group.querySelectorAll(".b")].map((rect) => [...place(rect), rect]);
        orders.set(group, found.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((entry) => entry[2]));
      }
      return orders.get(group);
    };
    const placing = (group) => data[group.dataset.names.split(" ").find((name) => name in data)];

    const describe = (rect) => {
      const { steps, buffers } = placing(rect.parentNode);
      const [name, typed, kind, first, last, offset, size, over] = buffers[Number(rect.dataset.i)];
      const at = (step) => (step <= 0 ? "the start" : `step ${step}${steps[step] ? ` (operator ${steps[step]})` : ""}`);
      const lines = [
        line("who", name),
        line("", `${kind === "scratch" ? "scratch buffer" : kind}${typed ? `, ${typed}` : ""}, ${number(size)} bytes at ${number(offset)}–${number(offset + size)}`),
        line("", first === last ? `alive in ${at(first)} alone` : `alive from ${at(first)} to ${at(last)}`),
      ];
      if (over >= 0) lines.push(line("good", `in place: over ${buffers[over][0]}`));
      details.replaceChildren(...lines);
    };
    const select = (rect) => {
      selected = rect;
      for (const key of ["x", "y", "width", "height"]) marker.setAttribute(key, rect.getAttribute(key));
      describe(rect);
    };
    const clear = () => {
      selected = null;
      marker.setAttribute("width", 0);
      marker.setAttribute("height", 0);
    };

    const pointed = (event) => {
      const found = event.target.closest("rect[data-i]");
      if (!found) return;
      select(found.classList.contains("b") ? found : found.parentNode.querySelector(`.b[data-i="${found.dataset.i}"]`));
    };
    field.addEventListener("pointerover", pointed);
    field.addEventListener("click", pointed);
    map.addEventListener("change", clear);
    pan.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
      if (move === undefined) return;
      const inOrder = ordered(shown());
      const at = inOrder.indexOf(selected);
      const next = inOrder[Math.min(inOrder.length - 1, Math.max(0, at + move))];
      if (next) {
        select(next);
        if (field.hasAttribute("width")) {
          const step = field.clientWidth / field.viewBox.baseVal.width;
          pan.scrollLeft = next.x.baseVal.value * step - pan.clientWidth / 2;
        }
      }
      event.preventDefault();
    });
    if (field.viewBox.baseVal.width > 400) field.classList.add("dense");
  }

  for (const treemap of document.querySelectorAll(".treemap")) {
    const details = treemap.nextElementSibling;
    treemap.addEventListener("pointerover", (event) => {
      const { part, detail, bytes, total } = event.target.dataset;
      if (!part) return;
      details.textContent = `${part}: ${detail}, ${number(Number(bytes))} bytes of ${number(Number(total))}`;
    });
  }

  for (const command of document.querySelectorAll(".command")) {
    const [code, button] = command.children;
    button.hidden = false;
    button.addEventListener("click", async () => {
      getSelection().selectAllChildren(code);
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Selected";
      }
    });
  }

  for (const box of document.querySelectorAll(".rows")) {
    const groups = [...box.querySelectorAll("tbody")].map((body) => body.rows.length);
    if (Math.max(...groups) <= 40) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "all";
    button.textContent = `Show all ${number(groups.reduce((sum, rows) => sum + rows))} rows`;
    button.addEventListener("click", () => {
      box.classList.remove("short");
      button.remove();
    });
    box.classList.add("short");
    box.after(button);
  }

  for (const section of document.querySelectorAll("section.graph")) {
    const input = section.querySelector(".filter input");
    const count = section.querySelector(".count");
    const rows = [...section.querySelectorAll(".operators tbody tr")];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    input.addEventListener("input", () => {
      section.querySelector("button.all")?.click();
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      rows.forEach((row, k) => {
        row.hidden = !words.every((word) => texts[k].includes(word));
        left += !row.hidden;
      });
      count.textContent = words.length ? `${number(left)} of ${number(rows.length)}` : "";
    });
  }
})();
