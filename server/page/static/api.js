// The HTTP API, as any client has it.

let token = ""; // of this tab, until it is closed or reloaded; nothing else keeps it

export function useToken(t) {
  token = t;
}

export function hasToken() {
  return token !== "";
}

/** An APIError says what the server answered: its status, 0 for no answer, and for bad rules what is wrong where. */
export class APIError extends Error {
  constructor(status, message, errors) {
    super(message);
    this.status = status;
    this.errors = errors ?? [];
  }
}

export function get(path, params, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) {
    for (const v of Array.isArray(value) ? value : [value]) query.append(name, v);
  }
  const text = query.toString();
  return call("GET", path + (text && "?" + text), undefined, {}, signal);
}

/** ask sends a question, for which there is no need of the token. */
export function ask(path, body) {
  return call("POST", path, body, {});
}

/** change sends what changes something. The server would refuse it without the token; this says how to give it. */
export function change(method, path, body, state) {
  if (state && state.token_set === false) {
    throw new APIError(403, "This server has no token, so that nothing can be changed here: start it with --token-file FILE or the variable TIDEGATE_TOKEN.");
  }
  if (token === "") {
    document.getElementById("token").focus();
    throw new APIError(401, "This needs the token: enter it at the top of the page, then try again.");
  }
  return call(method, path, body, { Authorization: "Bearer " + token });
}

async function call(method, path, body, headers, signal) {
  const limit = AbortSignal.timeout(10_000);
  let response;
  let answer;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? headers : { ...headers, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store",
      credentials: "same-origin",
    });
    answer = await response.json();
  } catch (e) {
    if (signal?.aborted) throw e;
    if (response && !response.ok) throw new APIError(response.status, "The server answered " + response.status + ".");
    throw new APIError(0, response ? "The server's answer was cut short." : "The server does not answer.");
  }
  // A decision that refuses is an answer, not a failure, though its status is 429 or 503.
  if (!response.ok && !("allowed" in answer)) {
    throw new APIError(response.status, answer.error ?? "The server answered " + response.status + ".", answer.errors);
  }
  return answer;
}
