// What the counters of the server say of each second, kept for some minutes.

const KEPT = 180;

/** Traffic turns totals into rates. A rule is kept for as long as anything of it is on the charts. */
export class Traffic {
  constructor() {
    this.times = [];
    this.total = { allowed: [], refused: [] };
    this.rules = new Map();
    this.last = null;
  }

  /** add takes an answer of /v1/traffic. */
  add(answer) {
    const last = this.last;
    if (last && answer.at <= last.at) return; // it was asked twice within the clock's step
    this.last = answer;
    if (!last) return;
    const span = answer.at - last.at;
    const per = (now, before, name) => {
      const n = now?.[name] ?? 0;
      const grown = n - (before?.[name] ?? 0);
      return (grown < 0 ? n : grown) / span; // a server that was started anew counts from 0
    };
    this.times.push(answer.at);
    const sum = { allowed: 0, refused: 0 };
    for (const [name, now] of Object.entries(answer.rules ?? {})) {
      const before = last.rules?.[name];
      const step = { allowed: per(now, before, "allowed"), refused: per(now, before, "refused"), shadow: per(now, before, "shadow_refused") };
      sum.allowed += step.allowed;
      sum.refused += step.refused;
      let rule = this.rules.get(name);
      if (!rule) {
        if (step.allowed + step.refused + step.shadow === 0) continue;
        const none = () => new Array(this.times.length - 1).fill(0);
        rule = { name, allowed: none(), refused: none(), shadow: none() };
        this.rules.set(name, rule);
      }
      for (const row of ["allowed", "refused", "shadow"]) rule[row].push(step[row]);
    }
    const total = answer.total;
    this.total.allowed.push(total ? per(total, last.total, "allowed") : sum.allowed);
    this.total.refused.push(total ? per(total, last.total, "refused") : sum.refused);
    this.trim();
  }

  trim() {
    const n = this.times.length;
    for (const [name, rule] of this.rules) {
      for (const row of ["allowed", "refused", "shadow"]) {
        while (rule[row].length < n) rule[row].push(0); // the answer no longer had it
        if (n > KEPT) rule[row].shift();
      }
      if (!["allowed", "refused", "shadow"].some((row) => rule[row].some((v) => v > 0))) this.rules.delete(name);
    }
    if (n > KEPT) {
      this.times.shift();
      this.total.allowed.shift();
      this.total.refused.shift();
    }
  }

  /** busiest returns the rules with the most takes of late. */
  busiest(n) {
    const of = (rule) => rule.allowed.slice(-30).reduce((a, b) => a + b, 0) + rule.refused.slice(-30).reduce((a, b) => a + b, 0);
    return [...this.rules.values()].map((rule) => [of(rule), rule])
      .sort((a, b) => b[0] - a[0] || (a[1].name < b[1].name ? -1 : 1)).slice(0, n).map(([, rule]) => rule);
  }
}

/** mean is that of the latest three seconds, so that a number can be read before it changes. */
export function mean(row) {
  const late = row.slice(-3);
  return late.length ? late.reduce((a, b) => a + b, 0) / late.length : 0;
}
