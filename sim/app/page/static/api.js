// The control API and the API of the cluster, with the token of this browser's session.

const PREFIX = "/orrery/v1";
const KEPT = "orrery-token"; // in the storage of this tab: gone when it is closed

export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

let token = sessionStorage.getItem(KEPT) || "";

export function setToken(text) {
  token = text;
  if (text) sessionStorage.setItem(KEPT, text);
  else sessionStorage.removeItem(KEPT);
}

export const hasToken = () => token !== "";

async function request(method, path, body) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const given = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(path, { method, headers, body: given, cache: "no-store" });
  if (!answer.ok) {
    let message = `${answer.status} ${answer.statusText}`;
    try {
      message = (await answer.json()).message || message;
    } catch { /* no Status */ }
    throw new Refused(answer.status, message);
  }
  return answer;
}

const json = async (method, path, body) => (await request(method, path, body)).json();

export const get = (path) => json("GET", PREFIX + path);
export const post = (path, body) => json("POST", PREFIX + path, body ?? {});
export const put = (path, body) => json("PUT", PREFIX + path, body);
export const del = (path) => json("DELETE", PREFIX + path);
export const text = async (path) => (await request("GET", PREFIX + path)).text();
export const object = (path) => json("GET", path);

// Exchange the code of the link in the terminal, which works once, for a token.
export async function login(code) {
  setToken((await json("POST", "/orrery/login", { code })).token);
}

// Call `take` with each message of changes until the connection ends.
export async function follow(take, signal) {
  const headers = { Authorization: `Bearer ${token}`, Accept: "text/event-stream" };
  const answer = await fetch(`${PREFIX}/changes`, { headers, signal, cache: "no-store" });
  if (!answer.ok) throw new Refused(answer.status, (await answer.json()).message);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) take(JSON.parse(part.slice(6)));
  }
}
