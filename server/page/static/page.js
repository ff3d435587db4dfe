// The page: its tabs, the token, and what all tabs go by, the server's state.

import { get, hasToken, useToken } from "./api.js";
import { Changes } from "./changes.js";
import { put, seconds } from "./dom.js";
import { Keys } from "./keys.js";
import { Overview } from "./overview.js";
import { Rules } from "./rules.js";
import { Try } from "./try.js";

const byID = (id) => document.getElementById(id);
const names = ["overview", "rules", "keys", "changes", "try"];

const app = {
  state: null,
  open(tab, rule) {
    select(tab, true);
    views[tab].choose(rule);
  },
  failed(e) {
    tell("bad", e.message);
  },
};

const views = {
  overview: new Overview(byID("panel-overview"), app),
  rules: new Rules(byID("panel-rules"), app),
  keys: new Keys(byID("panel-keys"), app),
  changes: new Changes(byID("panel-changes"), app),
  try: new Try(byID("panel-try"), app),
};

let current = null;

/** select shows a tab. Its name is in the address, so that it can be linked to and gone back to. */
function select(name, focus) {
  if (!names.includes(name)) name = "overview";
  if (focus) byID("tab-" + name).focus();
  if (name === current) return;
  if (current) views[current].hidden?.();
  current = name;
  for (const n of names) {
    byID("tab-" + n).setAttribute("aria-selected", String(n === name));
    byID("tab-" + n).tabIndex = n === name ? 0 : -1;
    byID("panel-" + n).hidden = n !== name;
  }
  if (location.hash.slice(1) !== name) history.pushState(null, "", "#" + name);
  document.title = byID("tab-" + name).textContent + " – Tidegate";
  views[name].shown?.();
}

byID("tabs").addEventListener("click", (e) => {
  const tab = e.target.closest("[role=tab]");
  if (tab) select(tab.id.slice(4), true);
});
byID("tabs").addEventListener("keydown", (e) => {
  const at = names.indexOf(current);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  select(names[(to + names.length) % names.length], true);
});
addEventListener("popstate", () => select(location.hash.slice(1), false));
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault(); // the address is the tab's
  byID("main").focus();
});

byID("token-form").addEventListener("submit", (e) => {
  e.preventDefault();
  useToken(byID("token").value.trim());
  byID("token").value = "";
  tokenNote();
});

function tokenNote() {
  const none = app.state?.token_set === false;
  put(byID("token-note"), none ? "this server has none" : hasToken() ? "kept until this tab is closed" : "none");
}

function tell(kind, text) {
  const m = byID("message");
  m.hidden = text === "";
  m.className = "message " + kind;
  if (m.textContent !== text) m.textContent = text;
}

const words = { healthy: ["good", "Healthy"], degraded: ["bad", "Degraded"], returning: ["warn", "Returning"] };

function badge(kind, text) {
  const b = byID("badge");
  b.className = "badge " + kind;
  if (b.textContent !== text) b.textContent = text; // it is read out whenever it is set
}

let away = false;

async function state() {
  const s = await get("v1/state");
  app.state = s;
  badge(...(words[s.state] ?? ["", s.state]));
  if (away) tell("", "");
  away = false;
  views.overview.state(s);
  tokenNote();
  put(byID("footer"), "Tidegate " + s.version + " · up " + seconds(Math.floor(s.uptime_seconds)) + " · rules from " + s.rules_source + " · " + s.store);
}

async function traffic() {
  views.overview.counted(await get("v1/traffic"), current === "overview");
}

/** every asks again a second after each answer began to be waited for, and never twice at once; not while nobody looks. */
async function every(f) {
  for (;;) {
    const next = new Promise((done) => setTimeout(done, 1000));
    if (document.visibilityState === "visible") {
      try {
        await f();
      } catch (e) {
        if (e.status === 0) {
          away = true;
          badge("bad", "No answer");
          tell("bad", "The server does not answer. What is shown may be old; this page goes on trying.");
        } else {
          tell("bad", e.message);
        }
      }
    }
    await next;
  }
}

select(location.hash.slice(1) || "overview", false);
every(state);
every(traffic);
