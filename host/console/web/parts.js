// What several views are made of.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { get, stream } from "./api.js";

// link writes a view's address. All that a view shows is in its address.
export function link(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value);
  const text = new URLSearchParams(given).toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (text && "?" + text);
}

// go leads to an address without a new entry in the history: for what is typed.
export const replace = (address) => location.replace(address);

const soon = 3000; // a host that was not reached is asked again, in milliseconds

// barred says that a session may not see any more what it saw.
export const barred = (error) => error.status === 401 || error.status === 403;

// useAnswer asks for a path, again every so many milliseconds where that is given, or
// what it is of the value, and keeps what came last: {value, error}. Without a path
// nothing is asked.
export function useAnswer(path, every) {
  const [answer, setAnswer] = useState({});
  useEffect(() => {
    if (!path) return setAnswer({});
    const ending = new AbortController();
    let timer;
    const ask = async () => {
      const next = typeof every === "function" ? every : () => every;
      let wait;
      try {
        const value = await get(path, ending.signal);
        setAnswer({ value, path });
        wait = next(value);
      } catch (error) {
        if (ending.signal.aborted) return;
        setAnswer((had) => ({ value: had.path === path && !barred(error) ? had.value : undefined, path, error }));
        wait = next() || (error.status === 0 && soon);
      }
      if (wait) timer = setTimeout(ask, wait);
    };
    setAnswer((had) => (had.path === path ? had : {}));
    ask();
    return () => { ending.abort(); clearTimeout(timer); };
  }, [path, every]);
  return answer;
}

// useFrames follows a view whose frames are whole, and keeps the last: {frame, state},
// state being "live", or what ended the stream. The frame is fresh once it is of this
// query.
export function useFrames(view, query = {}) {
  const [last, setLast] = useState({});
  const [state, setState] = useState("");
  const asked = JSON.stringify(query);
  useEffect(() => stream(view, query, (frame) => Object.keys(frame).length && setLast({ frame, asked }), setState), [view, asked]);
  return { frame: barred(state) ? undefined : last.frame, fresh: last.asked === asked, state };
}

// Stale says that what is shown is not how it is.
export const Stale = ({ state }) => state.message && html`<p class="stale" role="status">${state.status ? state.message : "Not connected: this is how it was."}</p>`;

// Filter is a field whose text is in the address.
export function Filter({ value, change, hint = "", label = "Filter" }) {
  return html`<form class="controls" onSubmit=${(e) => e.preventDefault()}><label>${label} <input id="filter" type="search" placeholder=${hint} value=${value} onInput=${(e) => change(e.target.value)} /></label></form>`;
}

// Bar is a part of a whole, from 0 to 1, for those who see; the numbers stand beside it.
export const Bar = ({ parts }) => html`<span class="bar" aria-hidden="true">${parts.map(([kind, part]) => html`<i class=${kind} style=${{ width: 100 * Math.min(1, Math.max(0, part || 0)) + "%" }}></i>`)}</span>`;

// Notice stands where there is nothing to show, and says why and what to do.
export function Notice({ title, children }) {
  return html`<div class="notice" role="status"><h2>${title}</h2><p>${children}</p></div>`;
}

// Wide is a table that moves sideways where there is no room for it, by keys too.
export const Wide = ({ label, children }) => html`<div class="wide" role="region" aria-label=${label} tabindex="0">${children}</div>`;

// Trouble words an answer that was no success; once says that it is not asked for again.
export function Trouble({ error, once }) {
  switch (error.status) {
    case 0: return html`<${Notice} title="Not connected">${error.message}: ${once ? "try it again later" : "it is asked again until it does"}.<//>`;
    case 401: return html`<${Notice} title="Signed out">Run <code>berth console</code> and open the address that it prints.<//>`;
    case 403: return html`<${Notice} title="Not yours to see">${error.message}<//>`;
    case 404: return html`<${Notice} title="Not there">${error.message}<//>`;
  }
  return html`<${Notice} title="It did not work">${error.message}<//>`;
}

// Waiting says that something is asked for, once that takes a moment.
export function Waiting({ children }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 400);
    return () => clearTimeout(timer);
  }, []);
  return late ? html`<p class="waiting" role="status"><progress aria-label="loading"></progress> ${children}</p>` : null;
}

// Commands are lines for a terminal that do what the view does.
export function Commands({ lines }) {
  return html`<div class="commands">${lines.map((line) => html`<${Copied} text=${line} key=${line}><code>${line}</code><//>`)}</div>`;
}

// Copied is a button that copies a text.
export function Copied({ text, children }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class="copy" onClick=${copy} title="Copy">${children}<span aria-live="polite">${done ? "copied" : "copy"}</span></button>`;
}

// shell quotes a word for a shell, where it has to be.
export const shell = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

// ago words how long a time is past.
export function ago(time) {
  const s = Math.max(0, Math.round((Date.now() - new Date(time)) / 1000));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

// Camel is a name that may go on in a new line where a word of it begins.
export const Camel = ({ name }) => name.split(/(?<=[a-z])(?=[A-Z])/).map((part, i) => html`${i > 0 && html`<wbr />`}${part}`);

export const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

export const percent = (part, whole) => (whole ? Math.round((100 * part) / whole) : 0);

// hue is a colour that a name always has.
export function hue(name) {
  let h = 2166136261;
  for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 16777619);
  return ((h >>> 0) * 137.508) % 360;
}

// Line is a small line over time.
export function Line({ values, label }) {
  const top = Math.max(1, ...values);
  const points = values.map((v, i) => `${((i + 60 - values.length) * 80) / 59},${(19 - (18 * v) / top).toFixed(1)}`).join(" ");
  return html`<svg class="line" viewBox="0 0 80 20" role="img" aria-label=${label}><polyline points=${points} /></svg>`;
}

// useLatest is a box that keeps what was given last, for what is called later.
export function useLatest(value) {
  const box = useRef();
  box.current = value;
  return box;
}
