"use strict";
/* A run as it goes: the stream of the service's events to numbers, charts and sentences. Text is only ever text. */
(() => {
  const MOST_POINTS = 600; // of a chart; more are thinned
  const MOST_SAID = 300;
  const ROWS = 12; // of the table below a chart
  const SPEAK_MS = 15000; // between two summaries for screen readers
  const AGAIN_MS = 30000; // before a stream that was refused is asked for again
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const live = document.getElementById("live");
  const at = (id) => document.getElementById(id);
  const events = `/api/v1/runs/${encodeURIComponent(live.dataset.run)}/events`;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const known = (v) => v !== null && v !== undefined;
  const digits = (v) => (Math.abs(v) >= 100 ? Math.round(v).toLocaleString("en") : String(Number(v.toPrecision(3))));
  const FORMAT = {
    number: (v) => digits(v),
    count: (v) => Math.round(v).toLocaleString("en"),
    share: (v) => `${(100 * v).toFixed(1)} %`,
    s: (v) => (Math.abs(v) < 1e-3 ? `${digits(v * 1e6)} µs` : Math.abs(v) < 1 ? `${digits(v * 1e3)} ms` : `${digits(v)} s`),
  };
  const shown = (v, unit) => (known(v) ? FORMAT[unit](v) : "–");
  const bySpeculation = (key) => (a) => Object.entries(a.speculation).map(([task, s]) => [task, s[key]]);
  const quantiles = (key) => (a) => [["P50", a[key].p50], ["P95", a[key].p95]];

  /** What of a look each chart shows of an arm: names and values, the first drawn solid. `by`: what a colour stands for. */
  const CHARTS = {
    load: { unit: "number", by: "arm", of: (a) => [["sent", a.sent_per_s], ["asked", a.asked_per_s], ["ok", a.ok_per_s], ["failed", a.failed_per_s || null]] },
    flight: { unit: "number", by: "arm", of: (a) => [["in flight", a.in_flight], ["asked", a.target_concurrency || null], ["waiting", a.server_waiting || null]] },
    throughput: { unit: "number", by: "arm", of: (a) => [["", a.output_tokens_per_s]] },
    ttft: { unit: "s", by: "arm", of: quantiles("ttft_s") },
    tpot: { unit: "s", by: "arm", of: quantiles("tpot_s") },
    acceptance: { unit: "share", by: "name", of: bySpeculation("acceptance_rate") },
    rollback: { unit: "share", by: "name", of: bySpeculation("rollback_low") },
  };
  const LOAD = [
    ["in flight", "number", (a) => a.in_flight], ["waiting in the server", "number", (a) => a.server_waiting],
    ["asked per second", "number", (a) => a.asked_per_s], ["sent per second", "number", (a) => a.sent_per_s],
    ["ok per second", "number", (a) => a.ok_per_s], ["due since the start", "count", (a) => a.scheduled],
    ["sent since the start", "count", (a) => a.sent], ["ok since the start", "count", (a) => a.outcomes.ok || 0],
    ["not ok since the start", "count", (a) => failed(a)], ["send lag P99", "s", (a) => a.send_lag_s.p99],
  ];
  const SPEED = [
    ["output tokens per second", "number", (a) => a.output_tokens_per_s],
    ["TTFT P50", "s", (a) => a.ttft_s.p50], ["TTFT P95", "s", (a) => a.ttft_s.p95],
    ["TPOT P50", "s", (a) => a.tpot_s.p50], ["TPOT P95", "s", (a) => a.tpot_s.p95],
  ];
  const failed = (a) => Object.entries(a.outcomes).reduce((n, [kind, k]) => (kind === "ok" ? n : n + k), 0);

  let looks = []; // at most MOST_POINTS, oldest first
  let newest = null; // the last look told, also where it became no point
  let frame = []; // what every part of the page shows: one set of looks, set with each drawing
  let every = 1; // so many looks become one point
  let skipped = 0;
  let source = null;
  let over = false;
  let spoken = 0;
  let drawing = false;
  let again = false; // something has changed since the drawing began

  /* Charts */

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** Series by arm and name, in the order in which they came up; a value a look, null where there is none. */
  function seriesOf(chart) {
    const found = new Map();
    frame.forEach((look, i) => {
      for (const [arm, a] of Object.entries(look.arms)) {
        for (const [name, value] of chart.of(a)) {
          const key = `${arm}\n${name}`;
          if (!found.has(key)) found.set(key, { arm, name, values: new Array(frame.length).fill(null) });
          found.get(key).values[i] = known(value) ? value : null;
        }
      }
    });
    return [...found.values()].filter((s) => s.values.some(known));
  }

  const plain = (s) => String(s).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (s) => (s.length > 28 ? `${s.slice(0, 27)}…` : s);
  const titleOf = (s) => (s.name ? `${s.arm}, ${s.name}` : s.arm);

  function traces(chart, series, x) {
    const arms = [...new Set(series.map((s) => s.arm))];
    const names = [...new Set(series.map((s) => s.name))];
    return series.map((s) => {
      const [colour, dash] = chart.by === "arm" ? [arms.indexOf(s.arm), names.indexOf(s.name)] : [names.indexOf(s.name), arms.indexOf(s.arm)];
      return {
        type: "scatter", mode: frame.length > 60 ? "lines" : "lines+markers", connectgaps: false, name: plain(short(titleOf(s))), x, y: s.values,
        line: { color: css(`--series${colour % 8}`), width: 1.8, dash: DASHES[dash % DASHES.length] }, marker: { size: 4 },
        text: s.values.map((v, i) => `${plain(titleOf(s))}<br>${shown(v, chart.unit)} at ${Math.round(x[i])} s`), hoverinfo: "text",
      };
    });
  }

  function layout(chart) {
    const axis = { gridcolor: css("--line"), linecolor: css("--line"), zerolinecolor: css("--line"), automargin: true };
    const [format, suffix] = { number: ["~g", ""], share: [".0%", ""], s: ["~s", "s"] }[chart.unit];
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--ink"), size: 12, family: "system-ui, DejaVu Sans, sans-serif" },
      margin: { l: 8, r: 8, t: 8, b: 8 }, showlegend: true, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      xaxis: { ...axis, showgrid: false, zeroline: false, rangemode: "tozero", ticksuffix: " s", nticks: 6 },
      yaxis: { ...axis, rangemode: "tozero", tickformat: format, ticksuffix: suffix, nticks: 6, ...(chart.unit === "share" ? { range: [0, 1.02] } : {}) },
      hoverlabel: { bgcolor: css("--paper"), bordercolor: css("--line"), font: { color: css("--ink") }, align: "left" }, dragmode: false,
    };
  }

  async function draw(figure) {
    const chart = CHARTS[figure.querySelector(".plot").dataset.chart];
    const plot = figure.querySelector(".plot");
    const series = seriesOf(chart);
    figure.querySelector(".nothing").hidden = series.length > 0;
    plot.hidden = series.length === 0;
    figure.querySelector("details").hidden = series.length === 0;
    if (!series.length) return;
    const x = frame.map((look) => look.run_s);
    table(figure, chart, series);
    await Plotly.react(plot, traces(chart, series, x), layout(chart), { displayModeBar: false, responsive: true });
  }

  /** Numbers, sentences and charts together, of one look: nothing is shown before or after the rest. One drawing at a
      time, when somebody looks; a slow browser draws less often. */
  async function drawAll() {
    again = true;
    if (drawing || document.hidden) return;
    [drawing, again] = [true, false];
    const begun = performance.now();
    frame = newest === null || looks[looks.length - 1] === newest ? looks.slice() : [...looks, newest];
    if (newest !== null) now(newest);
    try {
      if (typeof Plotly === "object") await Promise.all([...document.querySelectorAll(".live-chart")].map(draw));
    } catch (error) {
      at("unable").textContent = `The charts cannot be drawn (${error.message}). Their numbers stand in the tables.`;
      at("unable").hidden = false;
    }
    setTimeout(() => { drawing = false; if (again) drawAll(); }, Math.min(10000, 4 * (performance.now() - begun)));
  }

  function cell(row, text, kind = "td", scope = "") {
    const made = document.createElement(kind);
    made.textContent = text;
    if (scope) made.scope = scope;
    if (scope === "row") made.className = "label";
    row.append(made);
  }

  /** Only where somebody looks at it: at once when it is opened, then with each drawing. */
  function table(figure, chart, series) {
    if (!figure.querySelector("details").open) return;
    const node = figure.querySelector("table");
    const x = frame.map((look) => look.run_s);
    const head = document.createElement("tr");
    cell(head, "second", "th", "col");
    series.forEach((s) => cell(head, titleOf(s), "th", "col"));
    node.tHead.replaceChildren(head);
    const rows = x.map((second, i) => [second, i]).slice(-ROWS).reverse().map(([second, i]) => {
      const row = document.createElement("tr");
      cell(row, String(Math.round(second)), "th", "row");
      series.forEach((s) => cell(row, shown(s.values[i], chart.unit)));
      return row;
    });
    node.tBodies[0].replaceChildren(...rows);
  }

  /* Numbers */

  function numbers(node, arms, rows) {
    const head = document.createElement("tr");
    cell(head, "number", "th", "col");
    head.firstChild.className = "label";
    arms.forEach(([arm]) => cell(head, arm, "th", "col"));
    node.tHead.replaceChildren(head);
    node.tBodies[0].replaceChildren(...rows.map(([name, unit, of]) => {
      const made = document.createElement("tr");
      cell(made, name, "th", "row");
      arms.forEach(([, a]) => cell(made, shown(of(a), unit)));
      return made;
    }));
  }

  function now(look) {
    const arms = Object.entries(look.arms);
    document.querySelectorAll(".window").forEach((node) => { node.textContent = String(Math.round(look.window_s)); });
    const tasks = [...new Set(arms.flatMap(([, a]) => Object.keys(a.speculation)))];
    const of = (key, task) => (a) => (a.speculation[task] || {})[key];
    const drafts = tasks.flatMap((task) => [
      [`acceptance (α), ${task}`, "share", of("acceptance_rate", task)], [`rollback at least, ${task}`, "share", of("rollback_low", task)],
    ]);
    at("as-of").textContent = `Every number and chart here is as of second ${Math.round(look.run_s)} of the load (${look.at.slice(11, 19)} UTC).`;
    live.dataset.shown = String(look.run_s);
    numbers(at("now-load"), arms, LOAD);
    numbers(at("now-speed"), arms, [...SPEED, ...drafts]);
    validity(arms);
    speak(look, arms);
  }

  function validity(arms) {
    const found = arms.flatMap(([arm, a]) => [
      [a.dropped, "not sent"], [a.late, "sent late"], [failed(a), "not ok"],
    ].filter(([n]) => n > 0).map(([n, what]) => `${arm}: ${n.toLocaleString("en")} of ${a.scheduled.toLocaleString("en")} due were ${what}`));
    at("validity").textContent = found.length ? `Against the measurement so far: ${found.join("; ")}. The run's end says what that means.` : "Nothing speaks against the measurement so far.";
    at("validity").className = found.length ? "warning" : "note";
  }

  function speak(look, arms) {
    if (Date.now() - spoken < SPEAK_MS) return;
    spoken = Date.now();
    const said = arms.map(([arm, a]) => `${arm}: ${shown(a.in_flight, "number")} in flight, ${shown(a.output_tokens_per_s, "number")} tokens per second, time to first token ${shown(a.ttft_s.p50, "s")}`);
    at("spoken").textContent = `After ${Math.round(look.run_s)} seconds. ${said.join(". ")}.`;
  }

  /* What the service tells */

  function take(look) {
    newest = look;
    skipped += 1;
    if (skipped >= every) {
      skipped = 0;
      looks.push(look);
      if (looks.length > MOST_POINTS) {
        looks = looks.filter((_, i) => i % 2 === 0);
        every *= 2;
      }
    }
    live.dataset.looks = String(looks.length);
  }

  function state(run) {
    at("state").textContent = run.state;
    const tones = { finished: "good", failed: "bad", interrupted: "warning", stopped: "warning", running: "info", queued: "info" };
    at("state").className = `tag ${tones[run.state] || ""}`;
    if (run.state === "queued") status("Waiting in the queue.");
    else if (run.state === "running") status("The run is under way.");
    if (run.state === "running" && at("stop-button") && at("stop-button").textContent === "Take it from the queue") stopSays("Stop this run", "Requests in flight may finish; what was measured is kept.");
  }

  function status(text) {
    if (at("status").textContent !== text) at("status").textContent = text;
  }

  function segment(told) {
    if (!told) return;
    at("progress").max = told.total;
    at("progress").value = told.number;
    const load = known(told.concurrency) ? `, ${told.concurrency} at once` : known(told.rate_per_s) ? `, ${told.rate_per_s} per second` : "";
    const part = told.phase === "measure" ? `repeat ${told.repeat_idx + 1}, block ${told.block + 1}` : told.phase === "warmup" ? "warm-up" : told.phase;
    at("segment").textContent = `segment ${told.number + 1} of ${told.total}: ${told.stage}, ${told.arm}, ${part}${load}`;
  }

  function say(told) {
    const line = document.createElement("li");
    const time = document.createElement("time");
    time.dateTime = told.at;
    time.textContent = told.at.slice(11, 19);
    const text = document.createElement("span");
    text.textContent = told.text;
    line.append(time, text);
    at("said").append(line);
    while (at("said").children.length > MOST_SAID) at("said").firstChild.remove();
    at("silence").hidden = true;
  }

  function ended(run) {
    over = true;
    source.close();
    state(run);
    status("The run is over.");
    if (run.state === "finished") at("progress").value = at("progress").max;
    if (at("stop")) at("stop").hidden = true;
    const result = at("result");
    const word = run.verdict ? `Verdict: ${run.verdict}. ` : "";
    const why = run.reason ? `${run.reason}. ` : "";
    result.textContent = `The run is ${run.state}. ${word}${run.validity ? `The measurement is ${run.validity}. ` : ""}${why}`;
    const link = document.createElement("a");
    link.href = `/runs/${encodeURIComponent(run.id)}`;
    link.textContent = "Open its report";
    result.append(link);
    result.className = `word ${run.verdict || (run.state === "finished" ? "" : "inconclusive")}`;
    result.hidden = false;
    if (!looks.length) document.querySelectorAll(".nothing").forEach((node) => { node.textContent = "Nothing is kept of how it went: the report has what was measured."; });
    drawAll();
  }

  function snapshot(told) {
    looks = [];
    newest = null;
    every = 1;
    skipped = 0;
    told.looks.forEach(take);
    at("said").replaceChildren();
    told.said.forEach(say);
    state(told.run);
    segment(told.segment);
    // of a run that is over nothing comes after it
    if (["queued", "running"].includes(told.run.state)) drawAll();
    else ended(told.run);
  }

  function connect() {
    source = new EventSource(events);
    const on = (kind, act) => source.addEventListener(kind, (event) => act(JSON.parse(event.data)));
    source.addEventListener("open", () => { live.dataset.connected = "yes"; });
    source.addEventListener("error", () => {
      live.dataset.connected = "";
      if (over) return;
      if (source.readyState !== EventSource.CLOSED) {
        status("The connection was lost; trying again …");
        return;
      }
      status("The service gives no stream now (log in again, or too many watch). Trying again in 30 seconds.");
      setTimeout(connect, AGAIN_MS);
    });
    on("snapshot", snapshot);
    on("state", state);
    on("begun", () => status("The run is under way."));
    on("segment", segment);
    on("said", say);
    on("look", (look) => { take(look); if (at("state").textContent === "running") status("The run is under way."); drawAll(); });
    on("ended", ended);
  }

  /* Stopping without leaving the page; without script the form does it. */

  function stopSays(text, hint) {
    at("stop-button").textContent = text;
    at("stop-hint").textContent = hint;
  }

  const HOW = {
    drain: ["Cut it now", "Requests in flight may finish. Press again to drop them; what was measured is kept."],
    cut: ["Being cut", "What was measured is kept."],
    unqueued: ["Taken from the queue", ""],
  };

  async function stop(event) {
    event.preventDefault();
    const answer = await fetch(`/api/v1/runs/${encodeURIComponent(live.dataset.run)}/stop`, { method: "POST", headers: { "X-CSRF-Token": live.dataset.csrf } });
    const told = await answer.json();
    if (answer.ok) stopSays(...HOW[told.how]);
    else at("stop-hint").textContent = told.detail;
  }

  if (at("stop")) at("stop").addEventListener("submit", stop);
  document.querySelectorAll(".live-chart").forEach((figure) => {
    const chart = CHARTS[figure.querySelector(".plot").dataset.chart];
    figure.querySelector("details").addEventListener("toggle", () => table(figure, chart, seriesOf(chart)));
  });
  dark.addEventListener("change", drawAll);
  document.addEventListener("visibilitychange", drawAll);
  connect();
})();
