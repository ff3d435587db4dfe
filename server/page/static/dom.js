// Elements and words. Text goes into the page as text alone: what the API tells may hold anything.

/** el makes an element. Of the properties, on… are listeners, class and data are what they say, and the others attributes. */
export function el(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  put(node, ...children);
  return node;
}

/** put makes the children all that the node holds; absent ones are left out. */
export function put(node, ...children) {
  node.replaceChildren(...children.flat().filter((c) => c !== undefined && c !== null && c !== false));
  return node;
}

let labels = 0;

/** field is an input with its label. */
export function field(label, input, small) {
  input.id ||= "field-" + ++labels;
  return el("div", { class: small ? "field small" : "field" }, el("label", { for: input.id }, label), input);
}

/** facts is a list of names and values; values that are absent are left out with their names. */
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, v]) => v !== undefined && v !== null && v !== "")
    .flatMap(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
}

/** head is the head of a table. A name that begins with # is that of a column of numbers. */
export function head(...names) {
  return el("thead", null, el("tr", null, names.map((n) => n.startsWith("#")
    ? el("th", { scope: "col", class: "number" }, n.slice(1))
    : el("th", { scope: "col" }, n || el("span", { class: "unseen" }, "Action")))));
}

/** later calls f once it has not been called for again for so many milliseconds. */
export function later(ms, f) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...args), ms);
  };
}

/** dedent takes away the spaces that all lines begin with. */
export function dedent(text) {
  const lines = text.replace(/\s+$/, "").split("\n");
  const least = Math.min(...lines.filter((l) => l.trim()).map((l) => l.match(/^ */)[0].length));
  return lines.map((l) => l.slice(Number.isFinite(least) ? least : 0)).join("\n");
}

/** difference is a text with the lines that are gone and that are new, told by colour and by sign. */
export function difference(before, after) {
  const a = before ? dedent(before).split("\n") : [];
  const b = after ? dedent(after).split("\n") : [];
  if (a.length * b.length > 1e6) return el("pre", { class: "diff" }, marked("out", a), marked("in", b));
  // The longest lines in common, by the table of how many there are from each place on.
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const lines = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(el("span", { class: "muted" }, "  " + a[i]));
      i++;
      j++;
    } else if (i < a.length && (j === b.length || common[i + 1][j] >= common[i][j + 1])) {
      lines.push(...marked("out", [a[i++]]));
    } else {
      lines.push(...marked("in", [b[j++]]));
    }
  }
  return el("pre", { class: "diff" }, lines);
}

function marked(kind, lines) {
  return lines.map((l) => el("span", { class: kind }, (kind === "in" ? "+ " : "− ") + l));
}

const whole = new Intl.NumberFormat("en");

export function count(n) {
  return n === null || n === undefined ? "unlimited" : whole.format(n);
}

/** rate writes a number per second. */
export function rate(n) {
  if (n === 0) return "0";
  return n < 10 ? n.toFixed(1) : whole.format(Math.round(n));
}

/** seconds writes a time span in the unit that suits it. null is never. */
export function seconds(s) {
  if (s === null || s === undefined) return "never";
  if (s === 0) return "0 s";
  if (s < 0.001) return Math.max(1, Math.round(s * 1e6)) + " µs";
  if (s < 1) return +(s * 1e3).toPrecision(3) + " ms";
  if (s < 120) return +s.toFixed(1) + " s";
  if (s < 7200) return Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
  if (s < 172800) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

/** when writes a moment in the reader's zone, with the whole of it as a title. */
export function when(text) {
  const at = new Date(text);
  if (!text || isNaN(at)) return el("span", null, text || "–");
  const two = (n) => String(n).padStart(2, "0");
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  const date = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  const today = at.toDateString() === new Date().toDateString();
  return el("time", { datetime: text, title: at.toString() }, today ? time : date + " " + time);
}

/** keyText writes the parts of a key. */
export function keyText(parts) {
  return parts?.length ? parts.map((p) => (p === "" ? "“”" : p)).join(" · ") : "(one bucket for all)";
}

/** verdict says in a sentence what a decision means to one who asks why. */
export function verdict(d) {
  const paragraph = (kind, word, text) => el("div", { class: "stack" },
    el("p", { class: "verdict " + kind }, word), el("p", null, text));
  if (d.source === "unlimited") {
    return paragraph("allowed", "Allowed", d.rule ? "The rule " + d.rule + " sets no limit here." : "No rule that limits matches.");
  }
  if (d.allowed) {
    let text = count(d.remaining) + " of " + count(d.limit) + " remain" + (d.rule ? " by the rule " + d.rule : "") + ".";
    if (d.source === "shadow") text = "Only shadow rules match: they count, and refuse nothing. " + text;
    if (d.delay_seconds > 0) text += " It would start " + seconds(d.delay_seconds) + " from now.";
    if (d.reset_after_seconds > 0) text += " The bucket is as new in " + seconds(d.reset_after_seconds) + ".";
    return paragraph("allowed", "Allowed", text);
  }
  const who = d.rule ? "The rule " + d.rule + " refuses it: " : "";
  let why;
  if (d.source === "fallback" && d.limit === 0) why = who + "the store is away, and the rule's policy is to refuse then.";
  else if (d.retry_after_seconds === null) why = who + "more is asked for than its limit of " + count(d.limit) + " can ever give. Waiting is in vain.";
  else why = who + count(d.remaining) + " of " + count(d.limit) + " remain. It passes in " + seconds(d.retry_after_seconds) +
    " if nothing else is taken; the bucket is as new in " + seconds(d.reset_after_seconds) + ".";
  if (d.source === "fallback") why += " This replica decides by itself, as the store is away.";
  return paragraph("refused", "Refused", why);
}
