// Rules: what each matches and limits, and a limit to change.

import { change, get } from "./api.js";
import { count, dedent, el, facts, field, head, later, put, when } from "./dom.js";

const PAGE = 50;
const SPANS = [["", "for good"], ["900", "for 15 minutes"], ["3600", "for 1 hour"], ["14400", "for 4 hours"], ["86400", "for 1 day"]];

export class Rules {
  constructor(panel, app) {
    this.app = app;
    this.offset = 0;
    this.name = null; // of the rule that is shown beside the list
    this.search = el("input", { type: "search", id: "rules-search", placeholder: "Name, attribute, value, limit", spellcheck: "false",
      oninput: later(200, () => { this.offset = 0; this.load(); }) });
    this.found = el("span", { class: "note", role: "status", "aria-live": "polite", id: "rules-found" });
    this.place = el("p", { class: "message warn", id: "rules-place", hidden: true });
    this.body = el("tbody", { id: "rules-list" });
    this.back = el("button", { type: "button", onclick: () => this.turn(-PAGE) }, "Previous");
    this.on = el("button", { type: "button", onclick: () => this.turn(PAGE) }, "Next");
    this.where = el("span", { class: "note" });
    this.detail = el("section", { class: "card sticky", "aria-label": "The chosen rule", id: "rule" }, el("p", { class: "empty" }, "Choose a rule to see what it matches, and to change its limit."));
    put(panel, el("div", { class: "columns" },
      el("div", { class: "card" }, this.place,
        el("div", { class: "bar" }, el("label", { for: "rules-search" }, "Search"), this.search, this.found),
        el("div", { class: "scroll" }, el("table", { class: "rules" }, el("caption", { class: "unseen" }, "Rules"),
          head("Rule", "Limit", "Matches", "Key", "State"), this.body)),
        el("div", { class: "pager" }, this.back, this.on, this.where)),
      this.detail));
  }

  shown() {
    this.load();
    clearInterval(this.timer);
    this.timer = setInterval(() => document.visibilityState === "visible" && this.load(true), 5000);
  }

  hidden() {
    clearInterval(this.timer);
  }

  /** choose shows the rule, once the list is there to find it. */
  async choose(name) {
    this.search.value = name;
    this.offset = 0;
    this.name = name;
    await this.load();
    const rule = this.rules?.find((r) => r.name === name);
    if (rule) this.show(rule);
  }

  turn(by) {
    this.offset = Math.max(0, this.offset + by);
    this.load();
  }

  async load(quiet) {
    this.loading?.abort();
    const loading = (this.loading = new AbortController());
    try {
      const answer = await get("v1/rules", { q: this.search.value, offset: this.offset, limit: PAGE }, loading.signal);
      this.fill(answer, quiet);
    } catch (e) {
      if (!loading.signal.aborted && !quiet) this.app.failed(e);
    }
  }

  fill(answer, quiet) {
    this.answer = answer;
    this.rules = answer.rules ?? [];
    const text = JSON.stringify([this.rules, answer.total, this.offset]);
    if (quiet && text === this.told) return; // or the focus would be lost each time
    this.told = text;
    const total = answer.total ?? this.rules.length;
    this.place.hidden = answer.editable;
    put(this.place, answer.editable ? "" : "These rules cannot be changed here. " + sentence(answer.edit_hint));
    put(this.found, count(total) + (total === 1 ? " rule" : " rules"));
    this.back.disabled = this.offset === 0;
    this.on.disabled = this.offset + PAGE >= total;
    put(this.where, total ? count(this.offset + 1) + "–" + count(Math.min(this.offset + PAGE, total)) + " of " + count(total) : "");
    const focused = this.body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.rule : null;
    put(this.body, this.rules.length ? this.rules.map((r) => this.row(r))
      : el("tr", null, el("td", { colspan: "5", class: "empty" }, "No rule has this in it.")));
    if (focused !== null) [...this.body.rows].find((tr) => tr.dataset.rule === focused)?.querySelector("button").focus();
  }

  row(r) {
    const tr = el("tr", { class: r.name === this.name ? "chosen" : "" },
      el("td", { class: "name" }, el("button", { class: "plain", type: "button", "aria-current": r.name === this.name ? "true" : null,
        onclick: () => this.show(r) }, r.name)),
      el("td", { class: "mono" }, limitText(r)), el("td", null, el("span", { class: "more" }, r.match || "everything")),
      el("td", { class: "mono" }, r.key?.join(", ") || "–"), el("td", null, tags(r)));
    tr.dataset.rule = r.name;
    return tr;
  }

  show(r) {
    this.name = r.name;
    for (const tr of this.body.rows) {
      const chosen = tr.dataset.rule === r.name;
      tr.className = chosen ? "chosen" : "";
      if (chosen) tr.querySelector("button").setAttribute("aria-current", "true");
      else tr.querySelector("button")?.removeAttribute("aria-current");
    }
    put(this.detail, el("div", { class: "stack" },
      el("div", { class: "head" }, el("h2", null, r.name), tags(r)),
      facts([
        ["Limit", el("span", { class: "mono", id: "rule-limit" }, r.limit)],
        ["Until", r.until ? when(r.until) : null],
        ["Then", r.until && r.then ? el("span", { class: "mono" }, r.then) : null],
        ["Matches", r.match || "everything"],
        ["Key", r.key?.length ? el("span", { class: "mono" }, r.key.join(", ")) : "none: one bucket for all"],
        ["Overrides", r.overrides ? count(r.overrides) : null],
        ["Store away", r.on_store_failure],
      ]),
      this.edit(r),
      el("div", { class: "row" }, el("button", { type: "button", onclick: () => this.app.open("keys", r.name) }, "Hottest keys")),
      r.text && el("div", null, el("h3", null, "As it is written"), el("pre", { tabindex: "0", "aria-label": "The rule as it is written" }, dedent(r.text)))));
  }

  edit(r) {
    this.note = el("p", { class: "message", role: "status", "aria-live": "polite", id: "rule-note", hidden: true });
    const undo = this.undoable?.rule === r.name && el("button", { type: "button", id: "undo", onclick: () => this.undo() }, "Undo: back to " + this.undoable.limit);
    if (!this.answer.editable) {
      return el("div", { class: "stack" }, el("h3", null, "Change the limit"),
        el("p", { class: "message warn", id: "rule-place" }, sentence(this.answer.edit_hint)), this.note);
    }
    const limit = el("input", { value: r.limit, spellcheck: "false", autocomplete: "off", id: "edit-limit", class: "mono" });
    const span = el("select", { id: "edit-span" }, SPANS.map(([value, text]) => el("option", { value }, text)));
    const diff = el("pre", { class: "diff", "aria-live": "polite", id: "diff", "aria-label": "The difference", hidden: true });
    const apply = el("button", { class: "primary", type: "submit", id: "apply", disabled: true }, "Apply");
    const compare = () => {
      const next = limit.value.trim();
      const same = next === r.limit && span.value === "";
      apply.disabled = same || next === "";
      diff.hidden = same;
      put(diff, limitDifference(r, next, span.selectedOptions[0]));
    };
    limit.addEventListener("input", compare);
    span.addEventListener("change", compare);
    const submit = (e) => {
      e.preventDefault();
      const body = { rule: r.name, limit: limit.value.trim(), version: this.answer.version };
      if (span.value !== "") body.for_seconds = Number(span.value);
      this.apply(body, r);
    };
    return el("form", { class: "stack", onsubmit: submit, id: "edit" }, el("h3", null, "Change the limit"),
      el("div", { class: "row" }, field("Limit", limit), field("For how long", span)), diff,
      el("div", { class: "row" }, apply, undo), this.note);
  }

  async apply(body, before) {
    try {
      const answer = await change("PUT", "v1/rules", body, this.app.state);
      // What has an end already comes back as what was to come, which is what it was before that.
      this.undoable = { rule: body.rule, limit: before.until && before.then ? before.then : before.limit };
      await this.changed(answer.version, body.rule, "Applied: " + body.rule + " is " + body.limit + (body.for_seconds ? " for a time" : "") + " from the next take on.");
    } catch (e) {
      this.refused(e);
    }
  }

  async undo() {
    const { rule, limit } = this.undoable;
    try {
      const answer = await change("PUT", "v1/rules", { rule, limit, version: this.answer.version }, this.app.state);
      this.undoable = null;
      await this.changed(answer.version, rule, "Undone: " + rule + " is " + limit + " again.");
    } catch (e) {
      this.refused(e);
    }
  }

  async changed(version, name, text) {
    await this.load();
    const rule = this.rules.find((r) => r.name === name);
    if (rule) this.show(rule);
    this.tell("good", text);
  }

  refused(e) {
    const more = (e.errors ?? []).map((x) => el("p", null, x.message + (x.hint ? " – " + x.hint : "")));
    this.tell("bad", e.message, more);
    if (e.status === 409) this.load(); // someone else changed them: show theirs, and let the version be the newest
  }

  tell(kind, text, more) {
    this.note.className = "message " + kind;
    this.note.hidden = false;
    put(this.note, text, more);
  }
}

/** limitDifference is what of the rule changes, as lines out and in, with those around them where the rule's text has the limit. */
function limitDifference(r, next, span) {
  const out = (text) => el("span", { class: "out" }, "− " + text);
  const into = (text) => el("span", { class: "in" }, "+ " + text);
  const lines = [into("limit: " + next)];
  if (span.value !== "") {
    lines.push(into(span.textContent + ", until " + new Date(Date.now() + span.value * 1000).toLocaleString("en-GB")), into("then: " + r.limit));
  }
  return [el("span", null, "  " + r.name), r.limit !== next || span.value !== "" ? out("limit: " + r.limit) : null, ...lines];
}

function limitText(r) {
  return r.until ? [r.limit + " until ", when(r.until)] : r.limit;
}

function tags(r) {
  return el("span", null,
    r.shadow && el("span", { class: "tag warn", title: "It counts and refuses nothing" }, "shadow"), " ",
    !r.shadow && r.enforce !== undefined && r.enforce < 1 && el("span", { class: "tag warn", title: "It refuses only a part" }, "enforced at " + Math.round(r.enforce * 100) + " %"), " ",
    r.overrides > 0 && el("span", { class: "tag" }, count(r.overrides) + (r.overrides === 1 ? " override" : " overrides")));
}

/** sentence begins with a capital and ends with a stop. */
function sentence(text) {
  if (!text) return "";
  return text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}
