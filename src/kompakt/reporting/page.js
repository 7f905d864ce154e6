// What moves on the page: the size slider, the threshold, the what-if panel. All numbers come from the block #path-data.
(function () {
  const byId = (name) => document.getElementById(name);
  const source = byId("path-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);

  function element(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function written(value, digits) {
    const size = Math.abs(value);
    if (size >= 1e7 || (size > 0 && size < 1e-4)) return value.toExponential(2);
    return value.toLocaleString("en", { maximumSignificantDigits: Math.max(digits || 4, size >= 1 ? Math.ceil(Math.log10(size + 1)) : 0) });
  }

  const percent = (share) => (100 * share).toFixed(1) + " %";

  // -- size ------------------------------------------------------------------------------------------------

  function sizes(slider) {
    const cells = Array.from(document.querySelectorAll("#confusion td"));
    const dots = Array.from(document.querySelectorAll("#residuals use"));
    const vectors = Array.from(document.querySelectorAll("[data-rank]"));
    const last = data.sizes.length - 1;
    let spoken = 0;

    function show(index) {
      for (const [name, texts] of Object.entries(data.now)) {
        const place = byId("now-" + name);
        if (place) place.textContent = texts[index];
      }
      byId("size-output").textContent = data.now.size[index];
      slider.setAttribute("aria-valuetext", data.now.size[index] + " vectors");
      // drawn where the whole model is
      const dx = data.x[index] - data.x[last];
      byId("marker-rule").setAttribute("transform", `translate(${dx} 0)`);
      byId("marker-dot").setAttribute("transform", `translate(${dx} ${data.y[index] - data.y[last]})`);
      cells.forEach((cell, k) => {
        cell.textContent = data.cells[index][k];
        cell.style.setProperty("--v", data.shares[index][k]);
      });
      dots.forEach((dot, k) => {
        dot.setAttribute("x", data.rx[index][k]);
        dot.setAttribute("y", data.ry[index][k]);
      });
      vectors.forEach((vector) => vector.classList.toggle("off", Number(vector.dataset.rank) >= data.sizes[index]));
    }

    function say(index) {
      // once the slider rests, not at every step on the way
      clearTimeout(spoken);
      spoken = setTimeout(() => {
        byId("live").textContent =
          data.now.size[index] + " vectors: error " + data.now.error[index] + ", " + data.now.time[index] + " per row";
      }, 250);
    }

    slider.addEventListener("input", () => {
      show(Number(slider.value));
      say(Number(slider.value));
    });
    show(Number(slider.value)); // a browser may restore the slider where it was when the page is loaded again
  }

  // -- threshold ---------------------------------------------------------------------------------------------

  function thresholds(slider, table) {
    const alarmCost = byId("cost-alarm"), missCost = byId("cost-miss");
    const cost = (k) => Number(alarmCost.value) * table.alarms[k] + Number(missCost.value) * (table.positive - table.hits[k]);

    function show() {
      const k = Number(slider.value), hits = table.hits[k], alarms = table.alarms[k];
      const cheapest = table.at.reduce((best, _, i) => (cost(i) < cost(best) ? i : best), table.start);
      const texts = {
        at: table.at[k],
        precision: hits + alarms ? percent(hits / (hits + alarms)) : "none announced",
        recall: percent(hits / table.positive),
        hits: String(hits), alarms: String(alarms), missed: String(table.positive - hits),
        cost: written(cost(k)),
        code: `model.${table.function} > ${table.values[k]}`,
        cheapest: `${table.at[cheapest]} (cost ${written(cost(cheapest))}; the model's own threshold ${table.at[table.start]}: ${written(cost(table.start))})`,
      };
      for (const [name, text] of Object.entries(texts)) byId("threshold-" + name).textContent = text;
      slider.setAttribute("aria-valuetext", `threshold ${texts.at}: precision ${texts.precision}, recall ${texts.recall}, cost ${texts.cost}`);
      byId("to-cheapest").dataset.place = cheapest;
    }

    for (const input of [slider, alarmCost, missCost]) input.addEventListener("input", show);
    byId("to-cheapest").addEventListener("click", (event) => {
      slider.value = event.currentTarget.dataset.place;
      show();
    });
    show();
  }

  // -- what if -----------------------------------------------------------------------------------------------

  function whatIf(panel, place) {
    const machine = kompaktMachine(panel.machine);
    const isClassifier = panel.machine.kind === "classifier";
    let cells = [], waiting = false;

    // The row as the machine takes it, with one column set to another cell.
    function row(column, cell) {
      const changed = cells.slice();
      if (column !== undefined) changed[column] = cell;
      return machine.columns ? Object.fromEntries(changed.map((value, k) => [panel.keys[k], value])) : changed;
    }

    // The number that the small curves show: a value, or how much speaks for a class.
    function height(given, k) {
      if (!isClassifier) return machine.scores(given)[0];
      const chances = machine.probabilities(given), scores = machine.scores(given);
      if (chances) return chances[k];
      return scores.length === 1 ? (k === 1 ? scores[0] : -scores[0]) : scores[k];
    }

    function places(control) {
      if (control.kind !== "number") return control.levels;
      return Array.from({ length: 25 }, (_, i) => control.low + ((control.high - control.low) * i) / 24);
    }

    function sketch(control, k) {
      const at = places(control), values = at.map((cell) => height(row(control.column, cell), k));
      const now = height(row(), k), all = values.concat(now), low = Math.min(...all), span = Math.max(...all) - low || 1;
      const y = (value) => 25 - (22 * (value - low)) / span, x = (i) => 4 + (112 * i) / Math.max(1, at.length - 1);
      const point = (i, height) => `${x(i).toFixed(1)},${height.toFixed(1)}`;
      control.line.setAttribute("points", values.map((value, i) => (control.kind === "words" // words have no order: strokes
        ? `${point(i, 27)} ${point(i, y(value))} ${point(i, 27)}` : point(i, y(value)))).join(" "));
      const cell = cells[control.column];
      let i = control.kind === "number" ? (24 * (Number(cell) - control.low)) / (control.high - control.low || 1) : at.indexOf(cell);
      control.dot.setAttribute("cx", x(Math.max(0, Math.min(at.length - 1, i))));
      control.dot.setAttribute("cy", y(now));
      control.dot.setAttribute("visibility", cell === null || (i < 0 && control.kind !== "number") ? "hidden" : "visible");
    }

    // The share of rows seen at such a score, between the points of the reliability curve.
    function seenShare(score) {
      const { at, share } = panel.seen, last = at.length - 1;
      if (score <= at[0]) return share[0];
      if (score >= at[last]) return share[last];
      const i = at.findIndex((value) => value >= score);
      return share[i - 1] + ((share[i] - share[i - 1]) * (score - at[i - 1])) / (at[i] - at[i - 1] || 1);
    }

    function answer(given) {
      const scores = machine.scores(given), lines = [];
      if (panel.machine.kind === "outlier") return [[String(machine.predict(given)), ""], lines, 0];
      if (!isClassifier) {
        const values = scores.map((value) => written(value));
        const bounds = machine.intervals(given);
        if (bounds) lines.push(`${percent(panel.level)} of new values: ${bounds.map(([low, high]) => `${written(low)} to ${written(high)}`).join("; ")}`);
        else if (panel.residuals) lines.push(`nine of ten: ${written(scores[0] + panel.residuals[0])} to ${written(scores[0] + panel.residuals[1])}, by the errors on the given rows`);
        return [[values.join(", "), ""], lines, 0];
      }
      const k = machine.best(scores), chances = machine.probabilities(given), label = panel.labels[k];
      if (chances) return [[label, `probability ${percent(chances[k])}`], chances.map((chance, j) => [panel.labels[j], chance]).sort((a, b) => b[1] - a[1]).slice(0, 5), k];
      if (!panel.seen || !panel.seen.at.length) return [[label, ""], lines, k];
      if (scores.length === 1) {
        const share = seenShare(scores[0]);
        lines.push(`of the given rows with such a score (${written(scores[0], 3)}), ${percent(k === 1 ? share : 1 - share)} were ${label}`);
      } else {
        const ranked = scores.slice().sort((a, b) => b - a);
        lines.push(`of the given rows with such a lead, ${percent(seenShare(ranked[0] - ranked[1]))} were predicted right`);
      }
      return [[label, ""], lines, k];
    }

    function cases(given, k) {
      const list = byId("what-if-cases");
      if (!panel.cases) return;
      const similar = machine.similarities(given), weights = isClassifier ? machine.support(given, k) : similar;
      const order = weights.map((weight, j) => j).filter((j) => panel.cases[j] && weights[j] > 0 && (!isClassifier || panel.cases[j].class === k)).sort((a, b) => weights[b] - weights[a]);
      const rows = [], seen = new Set();
      for (const j of order) {
        if (!seen.has(panel.cases[j].row)) rows.push(j);
        seen.add(panel.cases[j].row);
        if (rows.length === 3) break;
      }
      list.replaceChildren(...rows.map((j) => element("li", {}, element("strong", {}, panel.cases[j].truth), ` (${panel.cases[j].row}, ${percent(similar[j])} alike): ${panel.cases[j].cells}`)));
      byId("what-if-far").hidden = Math.max(...similar) >= panel.far;
    }

    function show() {
      waiting = false;
      const label = byId("what-if-label"), detail = byId("what-if-detail"), lines = byId("what-if-lines");
      let result;
      try {
        result = answer(row());
      } catch (error) {
        label.textContent = "no answer";
        detail.textContent = error.message;
        lines.replaceChildren();
        return;
      }
      const [[name, more], rest, k] = result;
      label.textContent = name;
      detail.textContent = more;
      lines.replaceChildren(...rest.map((line) => (Array.isArray(line)
        ? element("li", {}, element("span", { class: "name" }, line[0]),
          element("span", { class: "track" }, element("span", { class: "bar c0", style: `--v:${line[1].toFixed(4)}` })),
          element("span", { class: "value" }, percent(line[1])))
        : element("li", { class: "plain" }, line))));
      cases(row(), k);
      panel.controls.forEach((control) => sketch(control, k));
    }

    function changed() {
      if (!waiting) requestAnimationFrame(show);
      waiting = true;
    }

    function reflect(control) {
      const cell = cells[control.column];
      if (control.kind === "number") {
        control.input.value = cell === null ? "" : String(Number(Number(cell).toPrecision(6)));
        control.slider.value = cell === null ? control.low : Number(cell);
      } else if (control.kind === "words") {
        control.input.value = cell === null ? "missing" : control.levels.includes(cell.trim()) ? "=" + cell.trim() : "other";
      } else {
        const i = control.levels.indexOf(cell);
        control.slider.value = i < 0 ? 0 : i;
        control.output.textContent = cell === null ? "missing" : cell;
      }
    }

    function build(control, number) {
      const id = "what-if-" + number;
      const set = (cell) => { cells[control.column] = cell; changed(); };
      const drawing = byId("sketch").content.cloneNode(true).firstChild;
      control.line = drawing.querySelector("polyline");
      control.dot = drawing.querySelector("circle");
      const parts = [element("label", { for: id }, control.name)];
      if (control.kind === "words") {
        control.input = element("select", { id }, ...control.levels.map((level) => element("option", { value: "=" + level }, level === "" ? "(empty)" : level)));
        if (control.other) control.input.append(element("option", { value: "other" }, "(another word)"));
        if (panel.fills) control.input.append(element("option", { value: "missing" }, "(missing)"));
        control.input.addEventListener("change", () => {
          const value = control.input.value;
          set(value === "missing" ? null : value === "other" ? "\u0001" : value.slice(1));
        });
        parts.push(control.input);
      } else {
        const last = control.kind === "number" ? control.high : control.levels.length - 1;
        const limits = control.kind === "number" ? { min: control.low, max: last, step: control.step } : { min: 0, max: last, step: 1 };
        control.slider = element("input", { type: "range", id: id + (control.kind === "number" ? "-slider" : ""), "aria-label": control.name, ...limits });
        if (control.kind === "number") {
          control.input = element("input", { type: "number", id, step: "any" });
          control.slider.addEventListener("input", () => { control.input.value = control.slider.value; set(Number(control.slider.value)); });
          control.input.addEventListener("input", () => {
            const cell = control.input.value === "" ? null : Number(control.input.value);
            if (cell !== null) control.slider.value = cell;
            set(cell);
          });
          parts.push(control.slider, control.input);
        } else {
          control.output = element("output", {});
          control.slider.addEventListener("input", () => {
            control.output.textContent = control.levels[Number(control.slider.value)];
            set(control.levels[Number(control.slider.value)]);
          });
          parts.push(control.slider, control.output);
        }
      }
      parts.push(drawing);
      return element("div", { class: "control " + control.kind }, ...parts);
    }

    panel.keys = machine.columns ? machine.columns.filter((column) => column.kind !== "unused").map((column) => column.name) : [];
    const first = 12, controls = panel.controls.map(build);
    place.append(...controls.slice(0, first));
    if (controls.length > first) {
      place.append(element("details", {}, element("summary", {}, `${controls.length - first} more columns`), ...controls.slice(first)));
    }
    const start = byId("what-if-start");
    panel.starts.forEach((given, k) => start.append(element("option", { value: k }, given.name)));
    function begin() {
      cells = panel.starts[Number(start.value)].cells.slice();
      panel.controls.forEach(reflect);
      changed();
    }
    start.addEventListener("change", begin);
    byId("what-if-reset").addEventListener("click", begin);
    begin();
  }

  // On a phone the rows of these tables become blocks, in which every cell has the head of its column.
  for (const table of document.querySelectorAll("table.stack")) {
    const heads = Array.from(table.querySelectorAll("thead th"), (head) => head.textContent);
    for (const row of table.tBodies[0].rows) Array.from(row.cells).forEach((cell, k) => { cell.dataset.head = heads[k]; });
    if (heads.length > 3) table.classList.add("ready");
  }
  if (byId("size")) sizes(byId("size"));
  if (byId("threshold")) thresholds(byId("threshold"), data.thresholds);
  if (byId("what-if-controls")) whatIf(data.panel, byId("what-if-controls"));
})();
