// Overview: what passes and what does not, second by second, and how the store does.

import { Chart } from "./charts.js";
import { count, el, head, put, rate, seconds, when } from "./dom.js";
import { Traffic, mean } from "./traffic.js";

const SHOWN = 15; // rules with a chart of their own
const SHARES = 50; // of them that are listed

export class Overview {
  constructor(panel, app) {
    this.app = app;
    this.traffic = new Traffic();
    this.rows = new Map();
    this.order = "";
    this.tiles = {};
    const tile = (id, name) => {
      const value = el("dd", { id }, "–");
      const note = el("dd", null, "\u00a0");
      this.tiles[id] = { value, note };
      return el("dl", { class: "tile" }, el("dt", null, name), value, note);
    };
    this.body = el("tbody", { id: "busiest" });
    this.none = el("p", { class: "empty" }, "No takes in the last three minutes.");
    this.table = el("table", { hidden: true }, el("caption", { class: "unseen" }, "Rules by takes of late"),
      head("Rule", "#Allowed/s", "#Refused/s", "#Refused", "Last 3 minutes"), this.body);
    this.plot = el("div", { class: "chart", id: "chart" });
    this.aside = el("div", { class: "stack" });
    const legend = () => el("p", { class: "legend" }, el("span", { class: "allowed" }, "allowed"), el("span", { class: "refused" }, "refused"));
    put(panel,
      el("div", { class: "tiles" }, tile("allowed", "Allowed per second"), tile("refused", "Refused per second"),
        tile("state", "Store"), tile("latency", "Store latency, p50"), tile("latency99", "Store latency, p99"), tile("replicas", "Replicas")),
      el("div", { class: "columns" },
        el("div", { class: "stack" },
          el("div", { class: "card" }, el("div", { class: "head" }, el("h2", null, "Takes per second"), el("span", { class: "grow" }), legend()), this.plot),
          el("div", { class: "card" }, el("div", { class: "head" }, el("h2", null, "Busiest rules"),
            el("span", { class: "note" }, "of this replica")), this.none, el("div", { class: "scroll" }, this.table))),
        this.aside));
    this.chart = new Chart(this.plot, false);
  }

  set(id, value, note) {
    put(this.tiles[id].value, value);
    put(this.tiles[id].note, note ?? "\u00a0");
  }

  /** counted takes an answer of /v1/traffic, shown or not, so that the charts have no gap. */
  counted(answer, visible) {
    this.traffic.add(answer);
    if (visible && this.traffic.times.length) this.draw();
  }

  shown() {
    if (this.traffic.times.length) this.draw();
  }

  draw() {
    const { times, total } = this.traffic;
    const allowed = mean(total.allowed);
    const refused = mean(total.refused);
    this.set("allowed", rate(allowed), count(this.traffic.last.total?.allowed ?? 0) + " since the start");
    this.set("refused", rate(refused), count(this.traffic.last.total?.refused ?? 0) + " since the start");
    this.chart.show([times, total.allowed, total.refused], `Takes per second: ${rate(allowed)} allowed, ${rate(refused)} refused`);
    const busiest = this.traffic.busiest(SHOWN);
    this.none.hidden = busiest.length > 0;
    this.table.hidden = busiest.length === 0;
    const names = new Set(busiest.map((r) => r.name));
    for (const [name, row] of this.rows) {
      if (names.has(name)) continue;
      row.chart.remove();
      row.node.remove();
      this.rows.delete(name);
    }
    for (const rule of busiest) this.row(rule, times);
    this.arrange(busiest);
  }

  /** arrange moves rows only now and then, and never while one of them has the focus: a row that moves cannot be read. */
  arrange(busiest) {
    const missing = busiest.some((r) => !this.rows.get(r.name).node.isConnected);
    const due = !this.arranged || performance.now() - this.arranged > 10_000;
    if (!missing && (!due || this.body.contains(document.activeElement))) return;
    this.arranged = performance.now();
    this.body.append(...busiest.map((r) => this.rows.get(r.name).node));
  }

  row(rule, times) {
    let row = this.rows.get(rule.name);
    if (!row) {
      const cell = () => el("td", { class: "number" });
      row = { allowed: cell(), refused: cell(), part: cell(), spark: el("div", { class: "spark" }) };
      row.node = el("tr", null,
        el("td", { class: "name" }, el("button", { class: "plain", type: "button", onclick: () => this.app.open("rules", rule.name) }, rule.name)),
        row.allowed, row.refused, row.part, el("td", { class: "wide" }, row.spark));
      row.node.dataset.rule = rule.name;
      this.rows.set(rule.name, row);
      row.chart = new Chart(row.spark, true);
    }
    const allowed = mean(rule.allowed);
    const refused = mean(rule.refused);
    const shadow = mean(rule.shadow);
    put(row.allowed, rate(allowed));
    put(row.refused, el("span", { class: refused > 0 ? "refused" : "muted" }, rate(refused)),
      shadow > 0 && el("span", { class: "muted", title: "what the rule would refuse if it were not in shadow" }, " (" + rate(shadow) + " in shadow)"));
    put(row.part, allowed + refused > 0 ? Math.round((100 * refused) / (allowed + refused)) + " %" : "–");
    row.chart.show([times, rule.allowed, rule.refused], `${rule.name}: ${rate(allowed)} allowed, ${rate(refused)} refused per second`);
  }

  /** state takes an answer of /v1/state. */
  state(s) {
    const word = { healthy: "allowed", degraded: "refused", returning: "refused" }[s.state] ?? "";
    this.set("state", el("span", { class: word }, s.state), s.since ? el("span", null, "since ", when(s.since)) : null);
    const latency = s.store_latency_seconds ?? {};
    const known = (v) => (v === null || v === undefined ? "–" : seconds(v));
    this.set("latency", known(latency.p50), "last minute");
    this.set("latency99", known(latency.p99), "last minute");
    this.set("replicas", s.replicas ? count(s.replicas) : "–", s.replicas ? "that share the store" : "not known");
    const text = JSON.stringify([s.state, s.since, s.reason, s.store, s.rules_source, s.shares, s.breakers]);
    if (text === this.told) return;
    this.told = text;
    put(this.aside, this.store(s), this.shares(s.shares ?? {}), this.breakers(s.breakers ?? []));
  }

  store(s) {
    const what = {
      healthy: "Takes are decided in the store.",
      degraded: "The store is away. Takes are decided as each rule says for that case.",
      returning: "The store answers again; takes go back to it by and by.",
    }[s.state];
    return el("div", { class: "card" }, el("h2", null, "Store"), el("div", { class: "stack" },
      el("p", { class: "mono" }, s.store), what && el("p", null, what), s.reason && el("p", { class: "refused" }, s.reason),
      el("p", { class: "note" }, "Rules from: " + s.rules_source)));
  }

  shares(shares) {
    const all = Object.entries(shares).sort((a, b) => b[1] - a[1]);
    if (!all.length) {
      return el("div", { class: "card" }, el("h2", null, "Shares"),
        el("p", { class: "note" }, "Each rule's part of its limit that this replica may give by itself while the store is away. None is known yet."));
    }
    return el("div", { class: "card" }, el("h2", null, "Shares"),
      el("p", { class: "note" }, "Of each limit, what this replica may give by itself while the store is away."),
      el("table", null, el("caption", { class: "unseen" }, "Shares of this replica"), head("Rule", "#Share"), el("tbody", null,
        all.slice(0, SHARES).map(([rule, share]) => el("tr", null, el("td", null, rule), el("td", { class: "number" }, Math.round(share * 100) + " %"))))),
      all.length > SHARES && el("p", { class: "note" }, "and " + count(all.length - SHARES) + " more"));
  }

  breakers(breakers) {
    const kind = { closed: "tag", open: "tag warn" };
    return el("div", { class: "card" }, el("h2", null, "Breakers"), breakers.length
      ? el("table", null, el("caption", { class: "unseen" }, "Breakers"), head("Rule", "State", "Since"), el("tbody", null,
        breakers.map((b) => el("tr", null, el("td", null, b.rule), el("td", null, el("span", { class: kind[b.state] ?? "tag warn" }, b.state)),
          el("td", { class: "when" }, when(b.since))))))
      : el("p", { class: "note" }, "No rule has one."));
  }
}
