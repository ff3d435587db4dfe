// Keys: the hottest of a rule, and the state of any one.

import { change, get } from "./api.js";
import { count, el, facts, field, head, later, put, seconds, verdict, keyText } from "./dom.js";

export class Keys {
  constructor(panel, app) {
    this.app = app;
    this.rule = el("input", { list: "keys-rules", id: "keys-rule", spellcheck: "false", autocomplete: "off",
      oninput: later(200, () => this.chosen()) });
    this.names = el("datalist", { id: "keys-rules" });
    this.by = el("select", { id: "keys-by", onchange: () => this.load() },
      el("option", { value: "traffic" }, "by takes"), el("option", { value: "refusals" }, "by refusals"));
    this.body = el("tbody", { id: "keys-list" });
    this.window = el("span", { class: "note" });
    this.none = el("p", { class: "empty", role: "status" }, "Name a rule to see its hottest keys.");
    this.table = el("table", { hidden: true }, el("caption", { class: "unseen" }, "Hottest keys"), this.head = head("#", "Key", "#Takes", "#Up to as many more", ""), this.body);
    this.parts = el("div", { class: "row" });
    this.look = el("button", { class: "primary", type: "submit" }, "Look");
    this.result = el("div", { id: "key-state", "aria-live": "polite" });
    put(panel, el("div", { class: "halves" },
      el("div", { class: "card" },
        el("div", { class: "row" }, field("Rule", this.rule), this.names, field("Hottest", this.by)),
        el("div", { class: "head" }, el("span", { class: "grow" }), this.window), this.none, el("div", { class: "scroll" }, this.table)),
      el("div", { class: "card" }, el("h2", null, "One key"),
        el("form", { class: "stack", id: "key-form", onsubmit: (e) => { e.preventDefault(); this.ask(this.inputs.map((i) => i.value)); } },
          this.parts, el("div", { class: "row" }, this.look), this.result))));
    this.fields([]);
  }

  shown() {
    if (this.known === undefined) this.chosen();
    else this.load(true);
    clearInterval(this.timer);
    this.timer = setInterval(() => document.visibilityState === "visible" && this.load(true), 3000);
  }

  hidden() {
    clearInterval(this.timer);
  }

  async choose(name) {
    this.rule.value = name;
    await this.chosen();
  }

  /** chosen finds the rule that is named, and offers names that go on from what is typed; with nothing typed, the first rule. */
  async chosen() {
    let found;
    try {
      found = (await get("v1/rules", { q: this.rule.value, offset: 0, limit: 20 })).rules ?? [];
    } catch (e) {
      this.app.failed(e);
      return;
    }
    put(this.names, found.map((r) => el("option", { value: r.name })));
    if (this.rule.value === "" && this.known === undefined && found.length) this.rule.value = found[0].name;
    const rule = found.find((r) => r.name === this.rule.value) ?? null;
    if (rule?.name === this.known?.name && this.known !== undefined) return;
    this.known = rule;
    this.fields(rule?.key ?? []);
    put(this.result);
    await this.load();
  }

  fields(names) {
    this.inputs = names.map(() => el("input", { spellcheck: "false", autocomplete: "off", class: "mono" }));
    put(this.parts, names.length ? names.map((name, i) => field(name, this.inputs[i]))
      : el("p", { class: "note" }, this.known ? "This rule has no key: it has one bucket for all." : "Name a rule first."));
    this.look.disabled = !this.known;
  }

  async load(quiet) {
    if (!this.known) {
      this.table.hidden = true;
      this.none.hidden = false;
      put(this.none, this.rule.value ? "There is no rule of this name." : "Name a rule to see its hottest keys.");
      put(this.window);
      return;
    }
    const name = this.known.name;
    try {
      const answer = await get("v1/keys", { rule: name, by: this.by.value, n: 25 });
      if (this.known?.name === name) this.fill(answer);
    } catch (e) {
      if (!quiet) this.app.failed(e);
    }
  }

  fill(answer) {
    const keys = answer.keys ?? [];
    const text = JSON.stringify(answer);
    if (text === this.told) return;
    this.told = text;
    this.head.rows[0].cells[2].textContent = this.by.value === "refusals" ? "Refusals" : "Takes";
    put(this.window, answer.window_seconds ? "of this replica, over the last " + seconds(answer.window_seconds) : "of this replica");
    this.none.hidden = keys.length > 0;
    put(this.none, this.by.value === "refusals" ? "No key of this rule was refused of late." : "No takes of this rule of late.");
    this.table.hidden = keys.length === 0;
    const kept = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    put(this.body, keys.map((k, i) => this.row(k, i)));
    if (kept !== null) [...this.body.querySelectorAll("button")].find((b) => b.dataset.key === kept)?.focus();
  }

  row(k, i) {
    const look = el("button", { type: "button", "aria-label": "Look at " + keyText(k.key), onclick: () => this.open(k.key) }, "Look");
    look.dataset.key = JSON.stringify(k.key);
    return el("tr", null, el("td", { class: "number muted" }, String(i + 1)), el("td", { class: "mono" }, keyText(k.key)),
      el("td", { class: "number" }, count(Math.round(k.count))), el("td", { class: "number muted" }, k.error >= 0.5 ? count(Math.round(k.error)) : "–"), el("td", { class: "right" }, look));
  }

  open(parts) {
    this.inputs.forEach((input, i) => { input.value = parts[i] ?? ""; });
    this.ask(parts);
  }

  async ask(parts, told) {
    const rule = this.known.name;
    try {
      // An empty key is how a query says that the rule has none.
      const answer = await get("v1/keys", { rule, key: parts.length ? parts : "" });
      put(this.result, this.state(rule, parts, answer, told));
    } catch (e) {
      put(this.result, el("p", { class: "message bad" }, e.message));
    }
  }

  state(rule, parts, answer, told) {
    return el("div", { class: "stack" },
      el("h3", { class: "mono" }, keyText(parts)), verdict(answer.decision),
      facts([["Limit", el("span", { class: "mono" }, answer.limit)],
        ["Override", answer.override === null || answer.override === undefined ? "none: the rule's own limit counts" : "number " + (answer.override + 1)],
        ["Remaining", answer.decision.remaining === null ? "unlimited" : count(answer.decision.remaining)],
        ["As new in", seconds(answer.decision.reset_after_seconds)], ["Decided by", answer.decision.source]]),
      el("div", { class: "row" }, el("button", { type: "button", class: "danger", id: "reset", onclick: () => this.reset(rule, parts) }, "Reset this key")),
      told);
  }

  async reset(rule, parts) {
    const body = { rule };
    if (parts.length === 1) body.key = parts[0];
    else if (parts.length > 1) body.key = parts;
    try {
      await change("POST", "v1/reset", body, this.app.state);
    } catch (e) {
      this.result.querySelector(".message")?.remove();
      this.result.append(el("p", { class: "message bad", role: "alert" }, e.message));
      return;
    }
    await this.ask(parts, el("p", { class: "message good" }, "Reset: the bucket is as good as new."));
  }
}
