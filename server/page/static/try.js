// Try: which rules a request would match and what would be decided. It is a peek: nothing is charged.

import { ask, get } from "./api.js";
import { count, el, field, head, keyText, put, seconds, verdict } from "./dom.js";

export class Try {
  constructor(panel, app) {
    this.app = app;
    this.pairs = el("div", { id: "attributes" });
    this.names = el("datalist", { id: "try-names" });
    this.cost = el("input", { type: "number", value: "1", min: "0", step: "1", id: "try-cost" });
    this.result = el("div", { id: "try-result", "aria-live": "polite" }, el("p", { class: "empty" }, "Give the attributes of a request, and see what would be decided."));
    put(panel, el("div", { class: "halves" },
      el("div", { class: "card" }, el("h2", null, "A request"),
        el("form", { class: "stack", id: "try-form", onsubmit: (e) => { e.preventDefault(); this.ask(); } },
          el("fieldset", null, el("legend", null, "Attributes"), this.pairs,
            el("button", { type: "button", id: "try-add", onclick: () => this.add("").focus() }, "Add an attribute")),
          this.names,
          el("div", { class: "row" }, field("Cost", this.cost, true), el("button", { class: "primary", type: "submit", id: "try-ask" }, "Try"),
            el("span", { class: "note" }, "A peek: nothing is charged.")))),
      el("div", { class: "card" }, el("h2", null, "What would be decided"), this.result)));
  }

  /** shown begins with the attributes that keys of the first rules are made of. */
  async shown() {
    if (this.begun) return;
    this.begun = true;
    let names = [];
    try {
      const rules = (await get("v1/rules", { q: "", offset: 0, limit: 50 })).rules ?? [];
      names = [...new Set(rules.flatMap((r) => r.key ?? []))];
    } catch (e) {
      this.app.failed(e);
    }
    put(this.names, [...new Set([...names, "path", "method", "ip", "user"])].map((n) => el("option", { value: n })));
    if (this.pairs.childElementCount) return;
    for (const n of names.slice(0, 3)) this.add(n);
    if (!names.length) this.add("");
  }

  add(name) {
    const input = el("input", { value: name, list: "try-names", placeholder: "attribute", "aria-label": "Attribute", spellcheck: "false", autocomplete: "off", class: "mono" });
    const value = el("input", { placeholder: "value", "aria-label": "Value", spellcheck: "false", autocomplete: "off", class: "mono" });
    const pair = el("div", { class: "pair" }, input, value,
      el("button", { type: "button", "aria-label": "Remove this attribute", onclick: () => { pair.remove(); document.getElementById("try-add").focus(); } }, "×"));
    this.pairs.append(pair);
    return input;
  }

  async ask() {
    const attributes = Object.create(null);
    for (const pair of this.pairs.children) {
      const [name, value] = [...pair.querySelectorAll("input")].map((i) => i.value);
      if (name !== "" && value !== "") attributes[name] = value;
    }
    try {
      const answer = await ask("v1/try", { attributes, cost: Number(this.cost.value) });
      put(this.result, this.told(answer));
    } catch (e) {
      put(this.result, el("p", { class: "message bad", role: "alert" }, e.message));
    }
  }

  told(answer) {
    const matched = answer.matched ?? [];
    return el("div", { class: "stack" }, verdict(answer.decision),
      matched.length ? el("div", { class: "scroll" }, el("table", null, el("caption", { class: "unseen" }, "Rules that match"),
        head("Rule", "Key", "Limit", "#Remaining", "Decision"), el("tbody", null, matched.map((m) => this.row(m)))))
        : el("p", { class: "note" }, "No rule matches: nothing limits such a request."));
  }

  row(m) {
    const d = m.decision;
    let word = d.allowed ? el("span", { class: "allowed" }, "allowed") : el("span", { class: "refused" }, "refused");
    if (!d.allowed && d.retry_after_seconds !== null) word = el("span", { class: "refused" }, "refused for " + seconds(d.retry_after_seconds));
    return el("tr", null,
      el("td", { class: "name" }, el("button", { class: "plain", type: "button", onclick: () => this.app.open("rules", m.rule) }, m.rule)),
      el("td", { class: "mono" }, keyText(m.key)),
      el("td", { class: "mono" }, m.limit, m.override !== null && m.override !== undefined && [" ", el("span", { class: "tag" }, "override " + (m.override + 1))]),
      el("td", { class: "number" }, d.remaining === null ? "–" : count(d.remaining)),
      el("td", null, word, m.shadow && [" ", el("span", { class: "tag warn" }, "shadow")]));
  }
}
