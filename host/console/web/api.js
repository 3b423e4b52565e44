// How the pages talk to the host: as the signed-in user, by the API that
// everybody has, and by the console's streams.

// The host takes a session's cookie only beside its key. A browser sends the cookie to
// each port of this name; the key is kept by origin, and sent by these pages alone.
const keyName = "berth-key";
const key = () => localStorage.getItem(keyName) || "none";

// A Refused is an answer that is no success, with its HTTP status; 0 means that
// the host was not reached.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { "Berth-Console": key(), ...options.headers } });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new Refused(0, "the host does not answer");
  }
  if (!response.ok) throw new Refused(response.status, worded(await response.text()));
  return response;
}

// worded finds the sentence in an answer that may be a Kubernetes Status.
function worded(text) {
  try {
    return JSON.parse(text).message || text;
  } catch {
    return text.trim();
  }
}

const patience = 30_000; // for an answer that comes whole, in milliseconds

// within is a signal that fires after so long, or with another before that.
const within = (ms, signal) => (signal ? AbortSignal.any([signal, AbortSignal.timeout(ms)]) : AbortSignal.timeout(ms));

export async function get(path, signal) {
  try {
    return await (await ask(path, { signal: within(patience, signal) })).json();
  } catch (err) {
    if (err instanceof Refused || signal?.aborted) throw err;
    throw new Refused(0, "the host does not answer"); // or not whole
  }
}

// patch replaces fields of a spec, each as a whole: a merge would keep what an older
// config had and a newer one leaves out. With a version it is refused once somebody
// else has written.
export const patch = (path, spec, version) => {
  const changes = Object.entries(spec).map(([field, value]) => ({ op: "add", path: `/spec/${field}`, value }));
  if (version) changes.push({ op: "add", path: "/metadata/resourceVersion", value: version });
  return ask(path, { method: "PATCH", body: JSON.stringify(changes), headers: { "Content-Type": "application/json-patch+json" } });
};

export const post = (path, body, type) => ask(path, { method: "POST", body, headers: { "Content-Type": type, Accept: "application/json" } });

// text calls piece with each piece of a text that goes on, as it comes.
export async function text(path, signal, piece) {
  const reader = (await ask(path, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    piece(value);
  }
}

export async function signIn(code) {
  const { key } = await (await ask("/console/v1/session", { method: "POST", body: JSON.stringify({ code }) })).json();
  localStorage.setItem(keyName, key);
}

// signOut takes the key away first: without it the cookie, which the host alone can
// take, does nothing.
export async function signOut() {
  localStorage.removeItem(keyName);
  await ask("/console/v1/session", { method: "DELETE", signal: within(patience) });
}

// onKey calls changed when another tab has signed in, or out, until the signal fires.
export const onKey = (changed, signal) =>
  addEventListener("storage", (event) => event.key === keyName && changed(), { signal });

// socket opens a WebSocket, no header of which a page can set: the key is named as a protocol.
export const socket = (path, protocol) =>
  new WebSocket(new URL(path, location.href.replace(/^http/, "ws")), [protocol, `berth-console.${key()}`]);

// breathe ends a task, so that input and frames come before what is left to do.
export const breathe = () => new Promise((done) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => { port1.close(); done(); };
  port2.postMessage(0);
});

const silence = 25_000; // after which a stream is cut: the host says something each ten seconds

// stream calls frame with each frame of a view, and state with "live", or with the
// Refused that ended it. It begins again until stop, which it returns, is called; a
// view's first frame after that says that it begins anew.
export function stream(view, query, frame, state) {
  const ending = new AbortController();
  const run = async () => {
    while (!ending.signal.aborted) {
      const cut = new AbortController();
      let timer;
      const heard = () => { clearTimeout(timer); timer = setTimeout(() => cut.abort(), silence); };
      try {
        heard();
        const response = await ask(`/console/v1/stream?${new URLSearchParams({ view, ...query })}`, { signal: AbortSignal.any([ending.signal, cut.signal]) });
        state("live");
        for await (const line of lines(response.body)) {
          heard();
          frame(JSON.parse(line));
          await breathe();
        }
        throw new Refused(0, "the host ended the stream");
      } catch (err) {
        if (ending.signal.aborted) return;
        state(err instanceof Refused ? err : new Refused(0, "the connection was lost"));
        if (err.status === 401) return; // the session is over: who signs in anew begins the view anew
        await new Promise((done) => setTimeout(done, 1000));
      } finally {
        clearTimeout(timer);
      }
    }
  };
  run();
  return () => ending.abort();
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}
