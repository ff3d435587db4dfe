// Changes: who changed which rule, when, from what to what.

import { get } from "./api.js";
import { difference, el, head, put, when } from "./dom.js";

export class Changes {
  constructor(panel, app) {
    this.app = app;
    this.body = el("tbody", { id: "changes-list" });
    this.none = el("p", { class: "empty", hidden: true }, "Nothing was changed since this replica was started.");
    this.table = el("table", { hidden: true }, el("caption", { class: "unseen" }, "Changes, the newest first"),
      head("At", "Rule", "Change", "By", "Source", "#Version"), this.body);
    put(panel, el("div", { class: "card" }, el("div", { class: "head" }, el("h2", null, "Changes"), el("span", { class: "note" }, "the newest first")),
      this.none, el("div", { class: "scroll" }, this.table)));
  }

  shown() {
    this.load();
    clearInterval(this.timer);
    this.timer = setInterval(() => document.visibilityState === "visible" && this.load(true), 5000);
  }

  hidden() {
    clearInterval(this.timer);
  }

  async load(quiet) {
    let changes;
    try {
      changes = (await get("v1/changes", { n: 200 })).changes ?? [];
    } catch (e) {
      if (!quiet) this.app.failed(e);
      return;
    }
    const text = JSON.stringify(changes);
    if (text === this.told) return;
    this.told = text;
    this.none.hidden = changes.length > 0;
    this.table.hidden = changes.length === 0;
    put(this.body, changes.map((c) => el("tr", null, el("td", { class: "when" }, when(c.at)),
      el("td", { class: "name" }, c.rule ? el("button", { class: "plain", type: "button", onclick: () => this.app.open("rules", c.rule) }, c.rule) : "all rules"),
      el("td", { class: "change" }, difference(c.before, c.after)),
      el("td", null, c.by || "–"), el("td", null, c.source || "–"), el("td", { class: "number mono" }, String(c.version ?? "")))));
  }
}
