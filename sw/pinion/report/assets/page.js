"use strict";
(() => {
const failures = [];
addEventListener("error", e => failures.push(String(e.message)));
const data = JSON.parse(document.getElementById("data").textContent);
const all = (what, where = document) => [...where.querySelectorAll(what)];
document.documentElement.classList.add("scripted");
const charts = [];

// Tabs: one build at a time, all of them on paper.
const tabs = all("[role=tab]");
const choose = k => {
  tabs.forEach((tab, i) => {
    tab.setAttribute("aria-selected", i === k);
    tab.tabIndex = i === k ? 0 : -1;
    document.getElementById("build" + i).hidden = i !== k;
  });
  charts.forEach(chart => chart.fit());
};
tabs.forEach((tab, k) => {
  tab.addEventListener("click", () => choose(k));
  tab.addEventListener("keydown", e => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!step) return;
    const next = (k + step + tabs.length) % tabs.length;
    choose(next);
    tabs[next].focus();
  });
});

// Parts: bars against the one that is selected.
all("select.parts").forEach(select => {
  const show = () => all(`[data-of="${select.id}"]`).forEach(bars =>
    bars.classList.toggle("other", bars.dataset.part !== select.value));
  select.addEventListener("change", show);
  show();
});

// The robot, turned. As `projected` of skeleton.py has it.
all("svg.turns").forEach(svg => {
  const robot = data.builds[+svg.closest(".build").id.slice(5)].robot, points = robot.points;
  const side = 300, middle = [0, 1, 2].map(i => {
    const own = points.map(p => p[i]);
    return (Math.max(...own) + Math.min(...own)) / 2;
  });
  const moved = points.map(p => p.map((x, i) => x - middle[i]));
  const reach = Math.max(1e-3, ...moved.map(p => Math.hypot(...p)));
  const scale = (side / 2 - 40) / reach;
  let azimuth = +svg.dataset.azimuth, elevation = +svg.dataset.elevation;
  const seen = p => {
    const a = azimuth * Math.PI / 180, e = elevation * Math.PI / 180;
    const deep = -Math.sin(a) * p[0] + Math.cos(a) * p[1];
    return [Math.cos(a) * p[0] + Math.sin(a) * p[1], p[2] * Math.cos(e) + deep * Math.sin(e)];
  };
  const set = (x, values) => Object.entries(values).forEach(([k, v]) => x.setAttribute(k, v.toFixed(2)));
  const draw = () => {
    const at = moved.map(p => { const [x, y] = seen(p); return [side / 2 + x * scale, side / 2 - y * scale]; });
    all("[data-a]", svg).forEach(x => {
      const [a, b] = [at[x.dataset.a], at[x.dataset.b]];
      set(x, {x1: a[0], y1: a[1], x2: b[0], y2: b[1]});
    });
    all("[data-axis]", svg).forEach(x => {
      const p = at[+x.dataset.axis + 1], [u, v] = seen(robot.axes[x.dataset.axis]);
      set(x, {x1: p[0] - 20 * u, y1: p[1] + 20 * v, x2: p[0] + 20 * u, y2: p[1] - 20 * v});
    });
    all("[data-frame]", svg).forEach(x => {
      const [u, v] = seen([0, 1, 2].map(i => +(i === +x.dataset.frame)));
      set(x, {x1: 40, y1: side - 40, x2: 40 + 24 * u, y2: side - 40 - 24 * v});
      const name = svg.querySelector(`[data-name="${x.dataset.frame}"]`);
      set(name, {x: 40 + 33 * u, y: side - 36.5 - 33 * v, opacity: +(Math.hypot(u, v) > .2)});
    });
    all("[data-t]", svg).forEach(x => set(x, {x: at[x.dataset.t][0] + 9, y: at[x.dataset.t][1] - 6}));
    all("[data-p]", svg).forEach(x => set(x, {cx: at[x.dataset.p][0], cy: at[x.dataset.p][1]}));
  };
  const turn = (a, e) => {
    azimuth += a;
    elevation = Math.max(-90, Math.min(90, elevation + e));
    draw();
  };
  let from = null;
  svg.addEventListener("pointerdown", e => { from = [e.clientX, e.clientY]; svg.setPointerCapture(e.pointerId); });
  svg.addEventListener("pointermove", e => {
    if (!from) return;
    turn((e.clientX - from[0]) * -.6, (e.clientY - from[1]) * .6);
    from = [e.clientX, e.clientY];
  });
  ["pointerup", "pointercancel"].forEach(name => svg.addEventListener(name, () => { from = null; }));
  svg.addEventListener("keydown", e => {
    const step = {ArrowLeft: [8, 0], ArrowRight: [-8, 0], ArrowUp: [0, 8], ArrowDown: [0, -8]}[e.key];
    if (step) { turn(...step); e.preventDefault(); }
  });
});

// The schedule: units down, cycles to the right, a box for each operation.
const LEFT = 92, HEAD = 22;
class Chart {
  constructor(box) {
    const s = data.builds[+box.dataset.build].schedule;
    this.s = s;
    this.box = box;
    this.canvas = box.querySelector("canvas");
    this.tip = box.querySelector(".tip");
    this.said = box.querySelector(".said");
    this.first = [];
    this.rows = s.units.reduce((sum, n, k) => { this.first[k] = sum; return sum + n; }, 0);
    this.ops = s.operations.map((o, i) => ({i, row: this.first[o[0]] + o[1], o}));
    this.ordered = [...this.ops].sort((a, b) => a.o[2] - b.o[2] || a.row - b.row);
    this.byRow = Array.from({length: this.rows}, () => []);
    this.ops.forEach(op => this.byRow[op.row].push(op));
    // The pass before the bracket names a colour.
    const passes = [...new Set(s.regions.map(r => r.replace(/\[.*/, "") || "elsewhere"))];
    this.passOf = s.regions.map(r => Math.min(7, passes.indexOf(r.replace(/\[.*/, "") || "elsewhere")));
    const legend = box.querySelector(".legend");
    passes.slice(0, 8).forEach((name, k) => {
      const one = document.createElement("span"), mark = document.createElement("i");
      mark.style.background = `var(--c${k})`;
      one.append(mark, k === 7 && passes.length > 8 ? "others" : name);
      legend.append(one);
    });
    this.all();
    this.listen();
    this.fit();
    new ResizeObserver(() => this.fit()).observe(this.canvas);
  }
  all() { this.x0 = 0; this.x1 = Math.max(1, this.s.length); this.y0 = 0; this.y1 = Math.max(1, this.rows); }
  fit() {
    const r = this.canvas.getBoundingClientRect(), dense = devicePixelRatio || 1;
    if (!r.width) return;
    this.w = r.width; this.h = r.height;
    this.canvas.width = Math.round(r.width * dense);
    this.canvas.height = Math.round(r.height * dense);
    this.g = this.canvas.getContext("2d");
    this.g.setTransform(dense, 0, 0, dense, 0, 0);
    this.draw();
  }
  px(c) { return LEFT + (c - this.x0) / (this.x1 - this.x0) * (this.w - LEFT); }
  py(r) { return HEAD + (r - this.y0) / (this.y1 - this.y0) * (this.h - HEAD); }
  draw() {
    const g = this.g;
    if (!g) return;
    const css = getComputedStyle(document.documentElement), v = n => css.getPropertyValue(n).trim();
    const colours = Array.from({length: 8}, (_, k) => v("--c" + k));
    g.clearRect(0, 0, this.w, this.h);
    g.font = "11px system-ui, sans-serif";
    const wide = (this.w - LEFT) / (this.x1 - this.x0), high = (this.h - HEAD) / (this.y1 - this.y0);
    g.save();
    g.beginPath(); g.rect(0, HEAD, this.w, this.h - HEAD); g.clip();
    this.s.kinds.forEach((kind, k) => {
      const top = this.py(this.first[k]), low = this.py(this.first[k] + this.s.units[k]);
      if (low < HEAD || top > this.h) return;
      if (k % 2 === 0) { g.fillStyle = v("--faint"); g.fillRect(0, top, this.w, low - top); }
    });
    g.strokeStyle = v("--rule");
    for (let c = Math.ceil(this.x0 / this.s.ii) * this.s.ii; c <= this.x1; c += this.s.ii) {
      g.beginPath(); g.moveTo(this.px(c) + .5, HEAD); g.lineTo(this.px(c) + .5, this.h); g.stroke();
    }
    g.save();
    g.beginPath(); g.rect(LEFT, HEAD, this.w - LEFT, this.h - HEAD); g.clip();
    const gap = high > 5 ? 1 : high > 2.5 ? .5 : 0;
    // The unit is taken for one cycle; the rest is on its way through it. All tails go first, or one
    // would lie over the box of a later operation.
    for (const tail of [true, false]) for (const op of this.ops) {
      const [, , start, latency, region] = op.o, x = this.px(start), y = this.py(op.row);
      const w = Math.max(1, latency) * wide;
      if (x > this.w || x + w < LEFT || y > this.h || y + high < HEAD) continue;
      g.fillStyle = colours[this.passOf[region]];
      g.globalAlpha = tail ? .28 : 1;
      g.fillRect(x, y + gap, tail ? w - .6 : Math.max(1, Math.min(wide, w) - .6), high - 2 * gap);
    }
    if (this.on) {
      g.strokeStyle = v("--ink"); g.lineWidth = 2;
      g.strokeRect(this.px(this.on.o[2]), this.py(this.on.row), Math.max(1, this.on.o[3]) * wide, high);
      g.lineWidth = 1;
    }
    g.restore();
    const names = [];
    this.s.kinds.forEach((kind, k) => {
      const top = Math.max(HEAD, this.py(this.first[k])), low = this.py(this.first[k] + this.s.units[k]);
      if (low < HEAD + 4 || top > this.h) return;
      const y = Math.max(top + Math.min(13, Math.max(9, (low - top) / 2 + 4)), names.length ? names.at(-1)[1] + 12 : 0);
      names.push([`${this.s.units[k]} ${kind}`.slice(0, 15), y]);
    });
    // Few units of a kind take less than a line: what would fall off the end pushes others up.
    for (let k = names.length - 1, end = this.h - 4; k >= 0; k--, end -= 12) {
      names[k][1] = Math.min(names[k][1], end);
      end = names[k][1];
    }
    g.fillStyle = v("--ink");
    names.forEach(([name, y]) => g.fillText(name, 6, y));
    if (high >= 13) {
      g.fillStyle = v("--soft"); g.textAlign = "right";
      for (let r = Math.max(0, Math.floor(this.y0)); r < Math.min(this.rows, this.y1); r++) {
        const kind = this.first.findLastIndex(f => f <= r);
        if (this.py(r) > HEAD - 2) g.fillText(String(r - this.first[kind]), LEFT - 5, this.py(r) + high / 2 + 4);
      }
      g.textAlign = "left";
    }
    g.restore();
    g.fillStyle = v("--soft");
    let step = 1;
    for (const s of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]) { step = s; if (s * wide > 46) break; }
    g.textAlign = "center";
    for (let c = Math.ceil(this.x0 / step) * step; c < this.x1; c += step) g.fillText(c, this.px(c), 14);
    g.textAlign = "left"; g.fillText("cycle", 6, 14);
  }
  find(x, y) {
    if (x < LEFT || y < HEAD) return null;
    const row = Math.floor(this.y0 + (y - HEAD) / (this.h - HEAD) * (this.y1 - this.y0));
    const c = this.x0 + (x - LEFT) / (this.w - LEFT) * (this.x1 - this.x0);
    // What begins here goes before what still is on its way.
    const own = (this.byRow[row] || []).filter(op => op.o[2] <= c && c < op.o[2] + Math.max(1, op.o[3]));
    return own.sort((a, b) => b.o[2] - a.o[2])[0] || null;
  }
  words(op) {
    const [kind, unit, start, latency, region, line, node, width, frac, name, said] = op.o, s = this.s;
    const out = (s.outputs[node] || []).join(", "), text = s.texts[line];
    return `operation %${node}${out ? " = " + out : ""}\n${s.names[name]}: ${said}\nunit ${s.kinds[kind]} ${unit}\n`
      + `cycle ${start}, result in cycle ${start + latency} (place ${start % s.ii} of ${s.ii})\n`
      + `region ${s.regions[region] || "none"}\nsource ${s.lines[line] || "unknown"}${text && ": " + text}\n`
      + `format: ${width} bits, ${width - frac} integer, ${frac} fraction`;
  }
  show(op, x, y) {
    if (op !== this.on) { this.on = op; this.draw(); }
    this.tip.hidden = !op;
    if (!op) return;
    this.tip.textContent = this.words(op);
    const top = this.canvas.offsetTop, wide = this.tip.offsetWidth, high = this.tip.offsetHeight;
    this.tip.style.left = Math.max(0, x + 14 + wide > this.w ? x - wide - 12 : x + 14) + "px";
    this.tip.style.top = top + Math.max(0, y + 14 + high > this.h ? y - high - 10 : y + 14) + "px";
  }
  within() {
    const keep = (a, b, most) => {
      const size = Math.min(b - a, most), low = Math.max(0, Math.min(a, most - size));
      return [low, low + size];
    };
    [this.x0, this.x1] = keep(this.x0, this.x1, Math.max(1, this.s.length));
    [this.y0, this.y1] = keep(this.y0, this.y1, Math.max(1, this.rows));
  }
  zoom(by, x = LEFT + (this.w - LEFT) / 2, y = HEAD + (this.h - HEAD) / 2) {
    const fx = Math.max(0, (x - LEFT) / (this.w - LEFT)), fy = Math.max(0, (y - HEAD) / (this.h - HEAD));
    const scale = (a, b, f, least) => {
      const at = a + f * (b - a), size = Math.max(least, (b - a) * by);
      return [at - f * size, at + (1 - f) * size];
    };
    [this.x0, this.x1] = scale(this.x0, this.x1, fx, Math.min(4, this.s.length));
    [this.y0, this.y1] = scale(this.y0, this.y1, fy, Math.min(4, this.rows));
    this.within();
    this.draw();
  }
  pan(x, y) {
    const c = x / (this.w - LEFT) * (this.x1 - this.x0), r = y / (this.h - HEAD) * (this.y1 - this.y0);
    this.x0 -= c; this.x1 -= c; this.y0 -= r; this.y1 -= r;
    this.within();
    this.draw();
  }
  go(step) {
    const at = this.on ? this.ordered.indexOf(this.on) : step > 0 ? -1 : this.ordered.length;
    const op = this.ordered[Math.max(0, Math.min(this.ordered.length - 1, at + step))];
    if (!op) return;
    if (this.px(op.o[2]) < LEFT || this.px(op.o[2]) > this.w - 10) this.pan(this.w / 2 - this.px(op.o[2]), 0);
    if (this.py(op.row) < HEAD || this.py(op.row) > this.h - 10) this.pan(0, this.h / 2 - this.py(op.row));
    this.show(op, this.px(op.o[2]), this.py(op.row));
    this.said.textContent = this.words(op);
  }
  listen() {
    const c = this.canvas, at = e => { const r = c.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
    let from = null;
    c.addEventListener("pointerdown", e => { from = at(e); if (e.pointerType === "mouse") c.setPointerCapture(e.pointerId); });
    c.addEventListener("pointermove", e => {
      const [x, y] = at(e);
      if (from && e.buttons) { this.pan(x - from[0], y - from[1]); from = [x, y]; this.show(null); return; }
      this.show(this.find(x, y), x, y);
    });
    ["pointerup", "pointercancel"].forEach(name => c.addEventListener(name, () => { from = null; }));
    c.addEventListener("pointerleave", () => this.show(null));
    c.addEventListener("blur", () => this.show(null));
    c.addEventListener("wheel", e => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      this.zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 150))), ...at(e));
    }, {passive: false});
    c.addEventListener("dblclick", e => this.zoom(.5, ...at(e)));
    c.addEventListener("keydown", e => {
      const does = {ArrowRight: () => this.go(1), ArrowDown: () => this.go(1), ArrowLeft: () => this.go(-1),
        ArrowUp: () => this.go(-1), "+": () => this.zoom(.6), "=": () => this.zoom(.6), "-": () => this.zoom(1 / .6),
        "0": () => { this.all(); this.draw(); }, Escape: () => this.show(null)}[e.key];
      if (does) { does(); e.preventDefault(); }
    });
    all("button[data-do]", this.box).forEach(b => b.addEventListener("click", () => ({
      in: () => this.zoom(.6), out: () => this.zoom(1 / .6), all: () => { this.all(); this.draw(); },
    })[b.dataset.do]()));
  }
}
all(".chart").forEach(box => charts.push(new Chart(box)));

// All signals with their formats: made when they are asked for, from what the schedule has.
all(".signals").forEach(box => box.closest("details").addEventListener("toggle", () => {
  if (box.firstChild) return;
  const s = data.builds[+box.dataset.build].schedule, table = document.createElement("table");
  const scroll = document.createElement("div");
  const row = (into, kind, cells) => {
    const line = into.appendChild(document.createElement("tr"));
    cells.forEach((text, k) => {
      const one = line.appendChild(document.createElement(k ? kind : "th"));
      one.textContent = text;
      if (k > 1 && k < 6) one.className = "n";
    });
  };
  const head = ["signal", "region", "bits", "integer", "fraction", "step", "what it is"];
  row(table.appendChild(document.createElement("thead")), "th", head);
  const body = table.appendChild(document.createElement("tbody"));
  const format = (w, f) => [w, w - f, f, (2 ** -f).toExponential(2)];
  s.inputs.forEach(([name, w, f]) => row(body, "td", [name, "", ...format(w, f), "request word"]));
  s.operations.forEach(([, , , , region, , node, w, f, name, said]) => {
    const out = (s.outputs[node] || []).join(", ");
    row(body, "td", [`%${node}`, s.regions[region], ...format(w, f), `${out && out + " = "}${s.names[name]}: ${said}`]);
  });
  scroll.className = "scroll high";
  scroll.tabIndex = 0;
  scroll.append(table);
  box.append(scroll);
  mark(scroll);
}));

// What scrolls sideways says so.
const mark = box => box.classList.toggle("more", box.scrollWidth > box.clientWidth + 1);
const watch = new ResizeObserver(seen => seen.forEach(x => mark(x.target)));
all(".scroll").forEach(box => watch.observe(box));
if (tabs.length) choose(0);
matchMedia("(prefers-color-scheme:dark)").addEventListener("change", () => charts.forEach(c => c.draw()));
addEventListener("beforeprint", () => charts.forEach(c => c.fit()));

// FILE#selftest: point at the first operation, zoom in, and leave what was seen in the page.
if (location.hash === "#selftest") addEventListener("load", () => {
  const chart = charts[0], canvas = chart.canvas, r = canvas.getBoundingClientRect();
  const point = op => canvas.dispatchEvent(new PointerEvent("pointermove", {
    clientX: r.left + chart.px(op.o[2] + .4), clientY: r.top + chart.py(op.row + .5)}));
  const inked = () => chart.g.getImageData(0, 0, canvas.width, canvas.height).data.some(x => x);
  const seen = {drawn: inked(), operations: chart.ops.length};
  point(chart.ops[0]);
  seen.tip = chart.tip.hidden ? "" : chart.tip.textContent;
  const before = chart.x1 - chart.x0;
  canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: -150, ctrlKey: true, cancelable: true,
    clientX: r.left + r.width / 2, clientY: r.top + r.height / 2}));
  seen.zoom = (chart.x1 - chart.x0) / before;
  all("button[data-do=all]", chart.box)[0].click();
  seen.back = (chart.x1 - chart.x0) / before;
  canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", cancelable: true}));
  seen.said = chart.said.textContent;
  const robot = document.querySelector("svg.turns"), place = () => robot && robot.innerHTML, first = place();
  if (robot) robot.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft", cancelable: true}));
  seen.turned = first !== place();
  // A box keeps its colour where an operation before it still is on its way.
  chart.y1 = Math.min(chart.rows, 20);
  chart.on = null;
  chart.draw();
  const paper = () => document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const dense = canvas.width / chart.w, ink = paper(), copy = paper();
  Object.assign(copy.canvas, {width: canvas.width, height: canvas.height});
  copy.drawImage(canvas, 0, 0);
  seen.covered = chart.ops.filter(op => {
    const x = chart.px(op.o[2] + .5), y = chart.py(op.row + .5);
    if (y > chart.h) return false;
    ink.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--c" + chart.passOf[op.o[4]]);
    ink.fillRect(0, 0, 1, 1);
    const want = ink.getImageData(0, 0, 1, 1).data;
    return copy.getImageData(x * dense, y * dense, 1, 1).data.some((c, k) => Math.abs(c - want[k]) > 9);
  }).length;
  chart.all();
  chart.draw();
  const list = document.querySelector(".signals");
  list.closest("details").open = true;
  list.closest("details").dispatchEvent(new Event("toggle"));
  seen.signals = all("tbody tr", list).length;
  seen.signal = all("tbody tr:last-child > *", list).map(x => x.textContent);
  seen.parts = all("select.parts").map(select => [...select.options].map(option => {
    select.value = option.value;
    select.dispatchEvent(new Event("change"));
    return all(`[data-of="${select.id}"]`).filter(x => getComputedStyle(x).display !== "none").map(x => x.dataset.part);
  }));
  seen.builds = tabs.map(tab => { tab.click(); return all(".build").filter(x => !x.hidden).map(x => x.id); });
  seen.charts = charts.map((one, k) => { if (tabs.length) choose(k); return one.g ? one.ops.length : 0; });
  if (tabs.length) choose(0);
  seen.unmarked = all(".scroll").filter(x => { mark(x); return x.scrollWidth > x.clientWidth + 1 && !x.classList.contains("more"); }).length;
  seen.requests = performance.getEntriesByType("resource").map(x => x.name);
  seen.wider = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  seen.ready = Math.round(performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart);
  seen.failures = failures;
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
});
})();
