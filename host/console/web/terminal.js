// Text of programs as lines: carriage returns, backspaces and colours are heeded, all
// else that moves a cursor is left out. It stays text, whatever it holds.

import { html, useEffect, useRef } from "./vendor/preact.js";

const kept = 2000; // lines
const longest = 4000; // characters of a line that are shown
const looksAtMost = 300; // changes of colour in a line that are shown

// A Scroll keeps the last lines of what is written.
export class Scroll {
  lines = [];
  rest = "";
  gone = 0; // lines that are no longer kept
  write(text) {
    const parts = (this.rest + text).split("\n");
    this.rest = parts.pop().slice(-4 * longest);
    for (const part of parts) this.lines.push(spans(part));
    if (this.lines.length > kept) this.gone += this.lines.splice(0, this.lines.length - kept).length;
  }
}

// Sequences that begin with an escape: CSI with its letter, OSC with its end, two letters.
const escapes = /\x1b(?:\[([0-9;?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^[\]])/y;

// spans are a line's parts of one look: [{text, look}].
export function spans(line) {
  const cells = [];
  let column = 0, look = "";
  for (let i = 0; i < line.length && cells.length < longest;) {
    const c = line[i];
    if (c === "\x1b") {
      escapes.lastIndex = i;
      const found = escapes.exec(line);
      if (!found) break; // it is not whole yet
      if (found[2] === "m") look = looks(look, found[1]);
      if (found[2] === "K") cells.length = Math.min(cells.length, column);
      i += found[0].length;
      continue;
    }
    if (c === "\r") column = 0;
    else if (c === "\b") column = Math.max(0, column - 1);
    else if (c === "\t" || c >= " " && c !== "\x7f") cells[column++] = { c, look };
    i++;
  }
  const all = [];
  for (const { c, look } of cells) {
    if (all.at(-1)?.look === look || all.length === looksAtMost) all.at(-1).text += c;
    else all.push({ text: c, look });
  }
  return all;
}

const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

// looks is the look after a sequence of SGR: classes of the eight colours, and bold.
function looks(look, codes) {
  const has = new Set(look.split(" ").filter(Boolean));
  const paint = (name) => { for (const n of names) has.delete("t-" + n); if (name) has.add("t-" + name); };
  for (const code of (codes || "0").split(";").map(Number)) {
    if (code === 0) has.clear();
    else if (code === 1) has.add("t-bold");
    else if (code === 22) has.delete("t-bold");
    else if (code === 38 || code === 48) break; // of 256 and more colours: left as it is
    else if (code === 39) paint();
    else if (code >= 30 && code <= 37) paint(names[code - 30]);
    else if (code >= 90 && code <= 97) paint(names[code - 90]);
  }
  return [...has].sort().join(" ");
}

const Text = ({ of }) => html`<div>${of.map((s) => (s.look ? html`<span class=${s.look}>${s.text}</span>` : s.text))}${of.length === 0 && "\u00a0"}</div>`;

// Terminal shows a Scroll, and stays at its end where it is there.
export function Terminal({ scroll, version, label }) {
  const box = useRef();
  const end = useRef(true);
  useEffect(() => { if (end.current) box.current.scrollTop = box.current.scrollHeight; }, [version]);
  const moved = () => { const b = box.current; end.current = b.scrollHeight - b.scrollTop - b.clientHeight < 30; };
  return html`<div class="terminal" ref=${box} onScroll=${moved} role="log" aria-label=${label} tabindex="0">
    ${scroll.gone > 0 && html`<div class="t-gone">${scroll.gone} lines before are not kept here</div>`}
    ${scroll.lines.map((line, i) => html`<${Text} key=${scroll.gone + i} of=${line} />`)}${scroll.rest && html`<${Text} of=${spans(scroll.rest)} />`}</div>`;
}
