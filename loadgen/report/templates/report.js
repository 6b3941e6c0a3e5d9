"use strict";
(() => {
  // of report.css: --series0 …
  const COLOURS = 8;
  const MARKERS = ["circle", "square", "diamond", "cross", "x", "pentagon", "star", "hexagram"];
  const DASHES = ["/", "\\", "x", "-", "|", "+", ".", ""];
  const FORMAT = { s: ["~s", "s"], share: ["~%", ""], times: ["~g", "×"], number: ["~g", ""] };
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const read = () => Object.fromEntries(JSON.parse(document.getElementById("data").textContent).map((f) => [f.id, f]));
  let figures = read();
  let chosen = null;
  let ready = false;

  // plotly reads a few tags in labels: names of servers and scenarios are text
  const text = (s) => String(s).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (s) => (s.length > 22 ? s.slice(0, 21) + "…" : s);
  const known = (v) => v !== null && v !== undefined;

  const theme = () => chosen || (system.matches ? "dark" : "light");

  function symbol(point, marker) {
    if (!known(point.y)) return known(point.low) && !known(point.high) ? "triangle-up-open" : "line-ew-open";
    return known(point.low) && known(point.high) && point.low !== point.high ? marker : marker + "-open";
  }

  /** Where only bounds are known, the range hangs on the lower one. */
  const height = (p) => (known(p.y) ? p.y : known(p.low) ? p.low : p.high);

  /** Length of the bar from the point to a bound; none where they are the same. */
  function reach(p, bound) {
    if ([p.low, p.high].every((b) => !known(b) || b === height(p))) return NaN;
    return known(bound) ? Math.abs(bound - height(p)) : 0;
  }

  /** Where a category stands on the axis, and the least distance of two. */
  const place = (panel, i) => (panel.places ? panel.places[i] : i);
  function spacing(panel) {
    const at = panel.categories.map((_, i) => place(panel, i)).sort((a, b) => a - b);
    const gaps = at.slice(1).map((x, i) => x - at[i]).filter((gap) => gap > 0);
    return gaps.length ? Math.min(...gaps) : 1;
  }

  /** Lines go through every category, with a gap where there is nothing; single marks leave it out. */
  function points(panel, series, k, count, colours) {
    const joined = panel.kind === "lines";
    const all = series.points.map((p, i) => [p, i]);
    const there = all.filter(([p]) => p && known(height(p)));
    const at = joined && there.length ? all : there;
    const step = Math.min(joined ? 0.03 : 0.14, 0.7 / count) * spacing(panel);
    const colour = colours[series.colour % colours.length];
    const marker = MARKERS[series.colour % MARKERS.length];
    const on = (f, none) => at.map(([p, i]) => (p && known(height(p)) ? f(p, i) : none));
    return {
      type: "scatter", cliponaxis: false, mode: joined ? "lines+markers" : "markers", connectgaps: false, showlegend: true,
      name: text(short(series.name)) + (there.length ? "" : " (none)"),
      x: at.length ? at.map(([, i]) => place(panel, i) + (k - (count - 1) / 2) * step) : [null], y: at.length ? on(height, null) : [null],
      error_y: {
        type: "data", symmetric: false, thickness: 1.6, width: 3, color: colour,
        array: on((p) => reach(p, p.high), NaN), arrayminus: on((p) => reach(p, p.low), NaN),
      },
      line: { color: colour, width: 1.6, dash: series.dashed ? "dash" : "solid" },
      marker: { size: series.dashed ? 5 : 8, color: colour, symbol: at.length ? on((p) => symbol(p, marker), marker) : marker, line: { width: 1.5, color: colour } },
      text: on((p, i) => label(panel, series, p, i), ""), hoverinfo: "text",
    };
  }

  /** One trace: a row a series. The ground is the reference; full colour is as far from it as the farthest field, and at
      least a quarter, so that noise around it stays pale. */
  function heat(panel, colours, ground) {
    const middle = panel.reference === null ? 0 : panel.reference;
    const rows = panel.series.map((s) => s.points.map((p) => (p ? p.y : null)));
    const reach = Math.max(0.25, ...rows.flat().filter(known).map((y) => Math.abs(y - middle)));
    return {
      type: "heatmap", z: rows, x: panel.categories.map((_, i) => i), y: panel.series.map((_, i) => i), xgap: 2, ygap: 2,
      zmin: middle - reach, zmax: middle + reach, colorscale: [[0, colours[1]], [0.5, ground], [1, colours[0]]], showscale: false,
      text: panel.series.map((s) => s.points.map((p) => (p ? text(p.cell[0].split(" [")[0]) : "–"))), texttemplate: "%{text}", textfont: { size: 12 },
      hovertext: panel.series.map((s) => s.points.map((p, i) => (p ? label(panel, s, p, i) : text(`${s.name}, ${panel.categories[i]}`)))), hoverinfo: "text",
    };
  }

  const label = (panel, series, p, i) =>
    text(`${series.name}, ${panel.categories[i]}`) + "<br>" + text(p.cell[0]) + (p.cell[1] ? "<br>" + text(p.cell[1]) : "");

  function bars(panel, series, k, colours, paper) {
    const colour = colours[series.colour % colours.length];
    return {
      type: "bar", name: text(short(series.name)), x: series.points.map((_, i) => i),
      y: series.points.map((p) => (p ? p.y : null)),
      marker: { color: colour, pattern: { shape: k === 0 ? "" : DASHES[(k - 1) % DASHES.length], solidity: 0.25, fillmode: "overlay", fgcolor: paper, fgopacity: 0.8 } },
      text: series.points.map((p, i) => (p ? label(panel, series, p, i) : "")), textposition: "none", hoverinfo: "text",
    };
  }

  const seconds = (v) => (v < 1e-3 ? `${+(v * 1e6).toPrecision(3)} µs` : v < 1 ? `${+(v * 1e3).toPrecision(3)} ms` : `${+v.toPrecision(3)} s`);

  /** From zero; with a reference around it; logarithmic, with 1, 2, 5 … at the marks, where the values are far apart. */
  function scale(panel) {
    const all = panel.series.flatMap((s) => s.points.filter(Boolean).flatMap((p) => [p.y, p.low, p.high])).filter(known);
    if (panel.kind === "heat") {
      const rows = panel.series.map((s) => text(short(s.name)));
      return { tickvals: rows.map((_, i) => i), ticktext: rows, tickformat: "", ticksuffix: "", showgrid: false, zeroline: false, autorange: "reversed" };
    }
    if (!["points", "lines"].includes(panel.kind) || !all.length) return { rangemode: "tozero" };
    let [low, high] = [Math.min(...all), Math.max(...all)];
    if (panel.reference !== null) {
      [low, high] = [Math.min(low, panel.reference), Math.max(high, panel.reference)];
      const spare = 0.12 * (high - low || 1);
      return { range: [low - spare, high + spare] };
    }
    if (!panel.wide || low <= 0 || high / low < 8) return { range: [0, high * 1.08 || 1] };
    const marks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (const digit of [1, 2, 5]) marks.push(digit * 10 ** power);
    }
    return {
      type: "log", range: [Math.log10(low) - 0.1, Math.log10(high) + 0.1], tickvals: marks, ticktext: marks.map(seconds),
      ticksuffix: "", title: { text: "logarithmic", standoff: 4, font: { size: 11 } },
    };
  }

  function layout(panel, css) {
    const [format, suffix] = panel.kind === "stack" ? ["~g", "%"] : FORMAT[panel.unit];
    const at = panel.categories.map((_, i) => place(panel, i));
    const spare = 0.6 * spacing(panel);
    const axis = { gridcolor: css("--line"), linecolor: css("--line"), zerolinecolor: css("--line"), automargin: true };
    const line = { type: "line", xref: "paper", x0: 0, x1: 1, y0: panel.reference, y1: panel.reference };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--ink"), size: 12, family: "system-ui, DejaVu Sans, sans-serif" },
      margin: { l: 8, r: 8, t: 8, b: 8 }, showlegend: panel.kind !== "heat" && (panel.series.length > 1 || panel.kind === "stack"),
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
      barmode: panel.kind === "stack" ? "stack" : "group", barnorm: panel.kind === "stack" ? "percent" : "",
      xaxis: {
        ...axis, range: [Math.min(...at) - spare, Math.max(...at) + spare], showgrid: false, zeroline: false, title: { text: text(panel.axis), standoff: 4 },
        tickvals: at, ticktext: panel.categories.map((c) => text(short(c))),
      },
      yaxis: {
        ...axis, tickformat: format, ticksuffix: suffix,
        nticks: 7, ...scale(panel),
      },
      shapes: panel.reference === null || panel.kind === "heat" ? [] : [{ ...line, line: { color: css("--dim"), width: 1.5, dash: "dash" } }],
      hoverlabel: { bgcolor: css("--paper"), bordercolor: css("--line"), font: { color: css("--ink") }, align: "left" },
      dragmode: false,
    };
  }

  function draw(node) {
    const panel = figures[node.dataset.figure].panels[Number(node.dataset.panel)];
    const style = getComputedStyle(root);
    const css = (name) => style.getPropertyValue(name).trim();
    const colours = Array.from({ length: COLOURS }, (_, i) => css(`--series${i}`));
    const ground = css("--panel");
    const traces = panel.kind === "heat" ? [heat(panel, colours, ground)] : panel.series.map((s, k) =>
      ["points", "lines"].includes(panel.kind) ? points(panel, s, k, panel.series.length, colours) : bars(panel, s, k, colours, ground));
    const config = { displaylogo: false, responsive: true, displayModeBar: false };
    return Plotly.react(node, traces, layout(panel, css), config);
  }

  async function drawAll() {
    const dark = theme() === "dark";
    root.dataset.theme = theme();
    if (button) button.setAttribute("aria-pressed", String(dark));
    if (!ready) return;
    root.dataset.drawn = "";
    await Promise.all([...document.querySelectorAll(".plot")].map(draw));
    root.dataset.drawn = theme();
  }

  /** The page brings plotly along, or loads it before this script. */
  async function unpack() {
    if (typeof Plotly === "object") {
      ready = true;
      return;
    }
    const packed = document.getElementById("plotly").textContent;
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    ready = typeof Plotly === "object";
  }

  function unable(error) {
    const place = document.getElementById("unable");
    place.textContent = `The figures could not be drawn (${error.message}). Their numbers stand in the tables below each.`;
    place.hidden = false;
    document.querySelectorAll(".panels").forEach((node) => { node.hidden = true; });
    document.querySelectorAll("figure details").forEach((node) => { node.open = true; });
  }

  let opened = [];
  function beforePrint() {
    opened = [...document.querySelectorAll("figure details:not([open])")];
    opened.forEach((node) => { node.open = true; });
    opened.theme = chosen;
    chosen = "light";
    drawAll();
  }
  function afterPrint() {
    opened.forEach((node) => { node.open = false; });
    chosen = opened.theme;
    drawAll();
  }

  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => { chosen = theme() === "dark" ? "light" : "dark"; drawAll(); });
  }
  system.addEventListener("change", drawAll);
  addEventListener("figures", () => { figures = read(); drawAll(); }); // of a page that has put others in their place
  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", afterPrint);
  drawAll();
  if (document.querySelector(".plot")) unpack().then(drawAll).catch(unable);
})();
