"use strict";
// A machine of kompakt from its numbers: `to_js` writes them behind this text, and the report page has both.
// A row is an array of features, or an object that gives the cells of a table by the names of its columns.
function kompaktMachine(model) {
  const arrays = {};
  for (const [name, text] of Object.entries(model.arrays)) {
    arrays[name] = new Float64Array(Uint8Array.from(atob(text), (byte) => byte.charCodeAt(0)).buffer);
  }
  const { basis, weights, intercept, fill, shift, scale, pieces, knots, slopes, map, codes, slope, start } = arrays;
  const n_outputs = intercept.length, n_vectors = weights.length / n_outputs, n_inputs = basis.length / n_vectors;
  const missing = new Set(model.missing || []), also = new Set(model.also_missing || []);
  const months = "jan feb mar apr may jun jul aug sep oct nov dec".split(" ");
  const patterns = {
    Y: "\\d{4}", y: "\\d\\d", m: "1[0-2]|0[1-9]|[1-9]", d: "3[01]|[12]\\d|0[1-9]|[1-9]| [1-9]", b: "[a-z]{3}", B: "[a-z]{3,9}",
    G: "\\d{4}", V: "5[0-3]|0[1-9]|[1-4]\\d|[1-9]", q: "[1-4]",
    H: "2[0-3]|[01]\\d|\\d", I: "1[0-2]|0[1-9]|[1-9]", M: "[0-5]\\d|\\d", S: "6[01]|[0-5]\\d|\\d", f: "\\d{1,6}", p: "am|pm",
  };
  const names = "january february march april may june july august september october november december".split(" ");

  // -- cells of a table ------------------------------------------------------------------------------

  function stripped(cell) {
    const text = typeof cell === "boolean" ? (cell ? "True" : "False") : String(cell);
    const blanks = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+";
    return text.replace(new RegExp(`^${blanks}|${blanks}$`, "g"), "");
  }

  function isGap(cell) {
    if (cell === null || cell === undefined || Number.isNaN(cell)) return true;
    return typeof cell === "string" && (missing.has(stripped(cell).toLowerCase()) || also.has(stripped(cell)));
  }

  // The number in a cell, with a currency sign, a per cent sign or grouped digits; NaN if there is none.
  function numberOf(cell, decimal) {
    if (typeof cell === "number") return cell;
    const cut = (text, signs) => text.replace(new RegExp(`^[${signs}]+|[${signs}]+$`, "g"), "");
    const currency = "$€£¥₹", groups = decimal === "." ? "[,'\u2019\u00a0\u202f ]" : "[.'\u2019\u00a0\u202f ]";
    let text = cut(stripped(cell).replace(/\u2212/g, "-"), currency).replace(/%+$/, "");
    text = cut(text, currency + " \u00a0");
    if (/^\(.+\)$/.test(text)) text = "-" + cut(text.slice(1, -1), currency);
    else if (/.-$/.test(text)) text = "-" + text.slice(0, -1);
    text = text.replace(/^([+-])[$€£¥₹](.+)$/, (_, sign, rest) => sign + rest.trim());
    if (decimal === "." && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return Number(text);
    if (decimal === "." && /^[+-]?inf(inity)?$/i.test(text)) return text[0] === "-" ? -Infinity : Infinity;
    const grouped = decimal === "."
      ? `^[+-]?[1-9]\\d{0,2}(${groups}\\d{3})+(\\.\\d*)?$`
      : `^([+-]?([1-9]\\d{0,2}(${groups}\\d{3})+|\\d+)(,\\d*)?(e[+-]?\\d+)?|[+-]?,\\d+)$`;
    if (!new RegExp(grouped, "i").test(text)) return NaN;
    return Number(text.replace(new RegExp(groups, "g"), "").replace(",", "."));
  }

  // Seconds since 1970 of a date, or of text in the form of the column (as Python's strptime); NaN if it is none.
  function secondsOf(cell, form) {
    if (cell instanceof Date) return cell.getTime() / 1000;
    let text = stripped(cell), shift = 0;
    if (form.startsWith("epoch")) return text === "" ? NaN : Number(text) / (form === "epoch" ? 1 : 1000);
    const zone = text.includes(":") && /(?:Z|UTC|GMT|([+-])(\d\d):?(\d\d))$/.exec(text);
    if (zone) {
      text = stripped(text.slice(0, zone.index));
      shift = zone[1] ? (zone[1] === "-" ? 60 : -60) * (60 * Number(zone[2]) + Number(zone[3])) : 0;
    }
    const fields = [], pattern = form.replace(/[.]/g, "\\.").replace(/ +/g, "\\s+").replace(/%(\w)/g, (_, name) => {
      fields.push(name);
      return `(${patterns[name]})`;
    });
    const match = new RegExp(`^${pattern}$`, "i").exec(text);
    if (!match) return NaN;
    const at = Object.fromEntries(fields.map((name, k) => [name, match[k + 1].toLowerCase()]));
    if ("V" in at) { // the Monday of a week; the fourth of January is in the first
      const fourth = Date.UTC(Number(at.G), 0, 4) / 86400000;
      return 86400 * (fourth - ((((fourth + 3) % 7) + 7) % 7) + 7 * (Number(at.V) - 1));
    }
    const year = "Y" in at ? Number(at.Y) : Number(at.y) + (Number(at.y) < 69 ? 2000 : 1900);
    const month = "m" in at ? Number(at.m) - 1 : "q" in at ? 3 * Number(at.q) - 3 : "b" in at ? months.indexOf(at.b) : names.indexOf(at.B);
    const hour = "I" in at ? (Number(at.I) % 12) + (at.p === "pm" ? 12 : 0) : Number(at.H || 0);
    const date = new Date(0);
    date.setUTCFullYear(year, month, Number(at.d || 1));
    if (year < 1 || month < 0 || date.getUTCMonth() !== month) return NaN;
    const fraction = "f" in at ? Number("0." + at.f) : 0;
    return date.getTime() / 1000 + 3600 * hour + 60 * Number(at.M || 0) + Number(at.S || 0) + fraction + shift;
  }

  // Hours of a clock time (10:30, 1:15 pm) or a duration (2 days 06:00:00, 1h 30min, PT2H); NaN if it is neither.
  function hoursOf(cell) {
    const units = { d: 24, h: 1, m: 1 / 60, s: 1 / 3600 };
    const amount = /^(\d+(?:\.\d*)?)\s*(d(?:ays?)?|h(?:ours?|rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)[\s,]*/i;
    let text = stripped(cell), total = 0;
    if (text[0] === "P") text = text.slice(1).replace(/T/g, "");
    for (let match = amount.exec(text); match; match = amount.exec(text)) {
      total += Number(match[1]) * units[match[2][0].toLowerCase()];
      text = text.slice(match[0].length);
      if (!text) return total;
    }
    const clock = /^(-?)(\d+):(\d{2})(?::(\d{2}(?:[.,]\d*)?))?\s*(?:([ap])\.?m?\.?|\.m?\.?|)$/i.exec(text);
    if (!clock || Number(clock[3]) > 59) return NaN;
    let hours = Number(clock[2]);
    if (clock[5]) {
      if (hours < 1 || hours > 12) return NaN;
      hours = (hours % 12) + (clock[5].toLowerCase() === "p" ? 12 : 0);
    }
    hours += Number(clock[3]) / 60 + Number((clock[4] || "0").replace(",", ".")) / 3600;
    return clock[1] ? -total - hours : total + hours;
  }

  function around(name, value) {
    const [part, axis] = name.split(" "), angle = (2 * Math.PI * value) / { month: 12, weekday: 7, hour: 24 }[part];
    return axis === "sine" ? Math.sin(angle) : Math.cos(angle);
  }

  const encoders = {
    number(column, cell, gap) {
      const value = gap ? NaN : numberOf(cell, column.decimal), absent = Number.isNaN(value);
      return [!absent ? value : column.fill === null ? NaN : column.fill, ...(column.indicator ? [Number(absent)] : [])];
    },
    category(column, cell, gap) {
      const word = gap ? column.fill : stripped(cell), place = column.levels.indexOf(word);
      const features = column.levels.map((_, k) => Number(k === place));
      if (column.other) features.push(Number(place < 0));
      return column.indicator ? [...features, Number(gap)] : features;
    },
    date(column, cell, gap) {
      const read = gap ? NaN : secondsOf(cell, column.form), absent = Number.isNaN(read);
      const seconds = absent ? column.fill : read, days = Math.floor(seconds / 86400), date = new Date(days * 86400000);
      const parts = {
        days: (seconds - column.first) / 86400, year: date.getUTCFullYear(), month: date.getUTCMonth() + 1,
        weekday: (((days + 3) % 7) + 7) % 7, hour: Math.floor((seconds - days * 86400) / 3600),
      };
      const features = column.parts.map((name) => (name in parts ? parts[name] : around(name, parts[name.split(" ")[0]])));
      return column.indicator ? [...features, Number(absent)] : features;
    },
    levels(column, cell, gap) {
      const coded = column.decimal !== "", read = gap || !coded ? NaN : numberOf(cell, column.decimal), absent = Number.isNaN(read);
      const word = gap ? column.fill : stripped(cell), number = absent ? Number(column.fill) : read;
      const found = coded ? column.levels.findIndex((level) => Number(level) === number) : column.levels.indexOf(word);
      const place = found < 0 ? column.levels.length : found;
      const values = column.outputs.length ? column.values[place] : coded ? [] : [place];
      return coded ? [number, ...values, ...(column.indicator ? [Number(absent)] : [])] : values;
    },
    time(column, cell, gap) {
      const read = gap ? NaN : hoursOf(cell), absent = Number.isNaN(read), hours = absent ? column.fill : read;
      const features = column.clock ? [hours, around("hour sine", hours), around("hour cosine", hours)] : [hours];
      return column.indicator ? [...features, Number(absent)] : features;
    },
    unused: () => [],
  };

  function features(row) {
    if (Array.isArray(row) || ArrayBuffer.isView(row)) {
      if (row.length !== model.n_features) throw new Error(`a row has ${model.n_features} features; got ${row.length}.`);
      return Array.from(row, (value) => (value === null ? NaN : Number(value)));
    }
    if (!model.columns) throw new Error("a row of this machine is an array of numbers: it knows no columns.");
    return model.columns.flatMap((column) => {
      if (column.kind !== "unused" && !(column.name in row)) throw new Error(`the row has no column '${column.name}'.`);
      return encoders[column.kind](column, row[column.name], isGap(row[column.name]));
    });
  }

  // -- the formula: weights k(x', basis) + intercept ----------------------------------------------------

  // Piecewise-linear transforms of the features, each with slopes between its knots.
  function bend(x) {
    let knot = 0, piece = 0;
    x.forEach((value, f) => {
      const last = pieces[f] - 1;
      x[f] = slopes[piece] * (last ? Math.min(value, knots[knot]) : value);
      for (let k = 1; k <= last && value > knots[knot + k - 1]; k++) {
        const end = k < last ? Math.min(value, knots[knot + k]) : value;
        x[f] += slopes[piece + k] * (end - knots[knot + k - 1]);
      }
      knot += last;
      piece += last + 1;
    });
  }

  function inputs(row) {
    const x = features(row).map((value, f) => {
      const filled = fill && Number.isNaN(value) ? fill[f] : value;
      if (!Number.isFinite(filled)) throw new Error(`feature ${f} of the row is ${filled}; expected a finite number.`);
      return (filled - (shift ? shift[f] : 0)) / (scale ? scale[f] : 1);
    });
    if (pieces) bend(x);
    if (!map) return x;
    return Array.from({ length: n_inputs }, (_, i) => x.reduce((sum, value, f) => sum + map[i * x.length + f] * value, 0));
  }

  function kernel(spec, x, from) {
    if (spec.name === "sum") return spec.parts.reduce((sum, part) => sum + kernel(part, x, from), 0);
    if (spec.name === "product") return spec.parts.reduce((product, part) => product * kernel(part, x, from), 1);
    if (spec.name === "constant") return spec.value;
    let sum = 0;
    for (let f = 0; f < n_inputs; f++) {
      const z = basis[from + f], gap = x[f] - z;
      if (spec.name === "rbf") sum += (Array.isArray(spec.gamma) ? spec.gamma[f] : spec.gamma) * gap * gap;
      else sum += spec.name === "laplacian" ? spec.gamma * Math.abs(gap) : x[f] * z;
    }
    if (spec.name === "rbf" || spec.name === "laplacian") return Math.exp(-sum);
    return spec.name === "linear" ? sum : (spec.gamma * sum + spec.coef0) ** spec.degree;
  }

  // How much each vector resembles the row.
  function similarities(row) {
    const x = inputs(row);
    return Array.from({ length: n_vectors }, (_, j) => kernel(model.kernel, x, j * n_inputs));
  }

  // What each vector adds to the score of a class (to the sum of votes, where outputs vote), or to an output.
  function support(row, k) {
    return similarities(row).map((value, j) => {
      const term = (l) => value * weights[j * n_outputs + l];
      if (model.kind === "classifier" && n_outputs === 1) return k === 1 ? term(0) : -term(0);
      if (!codes) return term(k);
      return Array.from(intercept).reduce((sum, _, l) => sum + codes[k * n_outputs + l] * term(l), 0);
    });
  }

  function scoresOf(outputs) {
    if (!outputs.every(Number.isFinite)) throw new Error("the outputs of the row are not finite: its numbers are too large.");
    if (model.log) return outputs.map((output) => Math.exp(Math.min(output, 709)));
    if (model.ordered) return [...outputs].sort((a, b) => a - b); // quantiles, which do not cross
    if (!codes) return outputs;
    return model.classes.map((_, k) => {
      let votes = model.votes_base, margin = 0;
      outputs.forEach((output, l) => {
        const code = codes[k * n_outputs + l];
        votes += (output > 0 ? code : -code) / 2;
        margin += code * Math.max(-1e300, Math.min(1e300, output));
      });
      return votes + margin / (3 * (Math.abs(margin) + 1));
    });
  }

  // Outputs with the given weights and intercept, those of the machine or of its noise.
  function outputsOf(row, weights, intercept) {
    const outputs = Array.from(intercept);
    similarities(row).forEach((value, j) => {
      for (let l = 0; l < n_outputs; l++) outputs[l] += value * weights[j * n_outputs + l];
    });
    return outputs;
  }

  // Lower and upper bound of each output that hold the promised share of new values; null for a machine without.
  function intervals(row) {
    if (!arrays.interval_reach) return null;
    const values = outputsOf(row, weights, intercept), noise = arrays.interval_weights
      ? outputsOf(row, arrays.interval_weights, arrays.interval_intercept) : null;
    return values.map((value, l) => {
      const reach = arrays.interval_reach[l] * (noise ? Math.max(noise[l], arrays.interval_floor[l]) : 1);
      return [value - reach, value + reach];
    });
  }

  // Decision values: one for two classes, outliers and one regression output, else one for each class or output.
  function scores(row) {
    return scoresOf(outputsOf(row, weights, intercept));
  }

  const best = (values) => (values.length === 1 ? Number(values[0] > 0) : values.indexOf(Math.max(...values)));

  // The label, the value (or values), or 1 for an inlier and -1 for an outlier.
  function predict(row) {
    const values = scores(row);
    if (model.kind === "regressor") return model.flat ? values[0] : values;
    return model.kind === "outlier" ? (values[0] >= 0 ? 1 : -1) : model.classes[best(values)];
  }

  // Class probabilities in the order of the classes; null for a machine that was not calibrated.
  function probabilities(row) {
    if (!slope) return null;
    const sigmoids = scores(row).map((value, l) => 0.5 * (1 + Math.tanh(-0.5 * (slope[l] * value + start[l]))));
    if (sigmoids.length === 1) return [1 - sigmoids[0], sigmoids[0]];
    const total = sigmoids.reduce((sum, value) => sum + value, 0);
    return sigmoids.map((value) => (total > 0 ? value / total : 1 / sigmoids.length));
  }

  return { classes: model.classes, columns: model.columns, features, scores, predict, probabilities, intervals, similarities, support, best };
}
