// A container's log, and a shell in it.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { Refused, socket as connect, text } from "./api.js";
import { Commands, Notice, Stale, Trouble, Waiting, link, replace, shell, useAnswer } from "./parts.js";
import { Scroll, Terminal } from "./terminal.js";

const first = 500; // lines of the log that are asked for

export function Logs({ path, query }) {
  const [namespace, name] = path;
  if (!name) return html`<${Ask} namespace=${namespace} />`;
  return html`<${Pod} key=${namespace + "/" + name} namespace=${namespace} name=${name} query=${query} />`;
}

function Ask({ namespace }) {
  const find = (event) => {
    event.preventDefault();
    const [pod, of] = event.target.pod.value.trim().split("/").reverse();
    location.hash = link(["logs", of || "default", pod]);
  };
  return html`<h1>Logs</h1>
    <form class="controls" onSubmit=${find}><label>Pod <input id="filter" name="pod" required placeholder="namespace/name" value=${namespace ? namespace + "/" : ""} /></label> <button>Open</button></form>
    <p>Or come from a pod in another view.</p>`;
}

function Pod({ namespace, name, query }) {
  const { value: pod, error } = useAnswer(`/console/v1/pod?${new URLSearchParams({ namespace, name })}`, 5000);
  if (!pod) return html`<h1>${namespace}/${name}</h1>${error ? html`<${Trouble} error=${error} />` : html`<${Waiting}>Asking for the pod<//>`}`;
  const container = pod.containers.find((c) => c.name === query.container) || pod.containers[0];
  const change = (more) => replace(link(["logs", namespace, name], { ...query, ...more }));
  const of = { namespace, name, container: container.name };
  const k = `${shell(name)} -n ${shell(namespace)} -c ${shell(container.name)}`;
  return html`
    <h1>${namespace}/${name}</h1>
    ${error && html`<${Stale} state=${error} />`}
    <form class="controls" onSubmit=${(e) => e.preventDefault()}>
      <label>Container <select id="filter" value=${container.name} onChange=${(e) => change({ container: e.target.value })}>${pod.containers.map((c) => html`<option key=${c.name} value=${c.name}>${c.name} (${c.state})</option>`)}</select></label>
      ${container.restarts > 0 && html`<label><input type="checkbox" checked=${!!query.previous} onChange=${(e) => change({ previous: e.target.checked ? "yes" : "" })} /> of its run before</label>`}
      <span>${pod.phase}${pod.node && ` on ${pod.node}`}</span>
      <a href=${link(["decision", namespace, name])}>Why is it there?</a></form>
    ${!pod.logs ? html`<${Notice} title="Not yours to see">Its logs need the verb get on pods/log in the namespace ${namespace}.<//>`
      : html`<${Log} key=${container.name + query.previous} of=${of} previous=${query.previous} />`}
    ${pod.exec ? html`<${Exec} key=${container.name} of=${of} />` : html`<p><small>A shell in it needs a session of <code>berth console --write</code>, and the verbs get and create on pods/exec.</small></p>`}
    <${Commands} lines=${[`kubectl logs -f ${k}`, `kubectl exec -it ${k} -- sh`]} />`;
}

const partOf = ({ namespace, name }, part, query) => `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/${part}?${new URLSearchParams(query)}`;

// useScroll is a Scroll that is drawn four times a second at most.
function useScroll() {
  const scroll = useRef();
  if (!scroll.current) scroll.current = new Scroll();
  const [version, setVersion] = useState(0);
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  const write = (text) => {
    scroll.current.write(text);
    timer.current ||= setTimeout(() => { timer.current = 0; setVersion((v) => v + 1); }, 250);
  };
  return [scroll.current, version, write];
}

function Log({ of, previous }) {
  const [scroll, version, write] = useScroll();
  const [state, setState] = useState("asks");
  useEffect(() => {
    const ending = new AbortController();
    const query = { container: of.container, tailLines: first, ...(previous ? { previous: "true" } : { follow: "true" }) };
    text(partOf(of, "log", query), ending.signal, (piece) => { setState("live"); write(piece); })
      .then(() => setState("ended"), (error) => !ending.signal.aborted && setState(error instanceof Refused ? error : new Refused(0, "the log was cut off")));
    return () => ending.abort();
  }, []);
  return html`<section><h2>Log</h2>
    ${state === "asks" && html`<${Waiting}>Waiting for its first line<//>`}
    ${state === "ended" && version === 0 && html`<p>It has written nothing.</p>`}
    ${state.message && html`<p class="stale" role="status">${state.message}</p>`}
    <${Terminal} scroll=${scroll} version=${version} label="Log" />
    <p><small>The last ${first} lines and what comes${state === "ended" ? "; it has ended" : ""}. <button type="button" class="plain" onClick=${() => location.reload()}>Read it anew</button></small></p></section>`;
}

// Channels of the protocol v5.channel.k8s.io: the first byte of each message.
const [stdin, stdout, stderr, failure, size] = [0, 1, 2, 3, 4];

function Exec({ of }) {
  const [scroll, version, write] = useScroll();
  const [command, setCommand] = useState("sh");
  const [state, setState] = useState("");
  const [line, setLine] = useState("");
  const socket = useRef();
  useEffect(() => () => socket.current?.close(), []);

  const send = (channel, text) => {
    const bytes = new TextEncoder().encode(text);
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel;
    message.set(bytes, 1);
    socket.current.send(message);
  };
  const open = (event) => {
    event.preventDefault();
    if (state === "asks" || state === "open") return;
    const query = new URLSearchParams({ container: of.container, stdin: "true", stdout: "true", stderr: "true", tty: "true" });
    for (const word of command.trim().split(/\s+/)) query.append("command", word);
    const to = connect(partOf(of, "exec", query), "v5.channel.k8s.io");
    const decoder = new TextDecoder();
    to.binaryType = "arraybuffer";
    socket.current = to;
    const mine = (heard) => (event) => socket.current === to && heard(event); // and not a former one's
    to.onopen = mine(() => { setState("open"); send(size, JSON.stringify({ Width: 100, Height: 30 })); });
    to.onmessage = mine(({ data }) => {
      const [channel, ...rest] = new Uint8Array(data);
      const said = decoder.decode(new Uint8Array(rest), { stream: channel !== failure });
      if (channel === stdout || channel === stderr) write(said);
      if (channel === failure) setState(ended(said));
    });
    to.onclose = mine(() => setState((was) => (was === "open" || was === "asks" ? (was === "open" ? "The connection has ended." : "It could not be opened: the container does not run, has no such program, or you may not.") : was)));
    setState("asks");
  };
  const live = state === "open";
  const enter = (event) => { event.preventDefault(); send(stdin, line + "\n"); setLine(""); };
  return html`<section><h2>Shell</h2>
    <form class="controls" onSubmit=${open}><label>Command <input value=${command} required disabled=${live} onInput=${(e) => setCommand(e.target.value)} /></label>
      ${live ? html`<button type="button" onClick=${() => socket.current.close()}>End it</button>` : html`<button disabled=${state === "asks"}>Run it in ${of.container}</button>`}
      <span role="status">${live ? "It runs." : state === "asks" ? "Opening …" : state}</span></form>
    ${(live || version > 0) && html`<${Terminal} scroll=${scroll} version=${version} label="Shell" />`}
    ${live && html`<form class="controls line-in" onSubmit=${enter}><label>Line <input value=${line} autocomplete="off" autocapitalize="off" spellcheck="false" onInput=${(e) => setLine(e.target.value)} /></label> <button>Enter</button>
      <button type="button" onClick=${() => send(stdin, "\x03")}>Ctrl-C</button> <button type="button" onClick=${() => send(stdin, "\x04")}>Ctrl-D</button></form>`}
    <p><small>It goes by lines: colours are shown, programs that draw a whole screen (vi, top) are not. For those, use <code>kubectl exec -it</code>.</small></p></section>`;
}

// ended words the Status with which a command ends.
function ended(said) {
  try {
    const { status, message } = JSON.parse(said);
    return status === "Success" ? "It ended." : `It ended: ${message}`;
  } catch {
    return `It ended: ${said}`;
  }
}
