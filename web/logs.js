// What the workers print, as it comes. It follows the end until somebody scrolls up, and keeps only
// the last lines in the page.

import * as api from "./api.js";
import { h } from "./dom.js";
import { timeText } from "./format.js";

const LINES_MAX = 2000, LINE_CHARS_MAX = 4000, PAGES_A_TICK = 4, PAGE_MAX_BYTES = 256 * 1024, TAIL_LINES = 500;
const END_PX = 30; // so near to the end is at the end

// As a terminal would show it: colours are left out, a carriage return goes over what stood before it,
// and what would turn the order of letters around is shown as what it is.
const COLOURS = /\u001b\[[0-9;:?]*[A-Za-z]/g, ORDER = /[\u202a-\u202e\u2066-\u2069]/g;
export function readable(text) {
  return text.replace(COLOURS, "").replace(/\r+$/, "").split("\r").pop().replace(ORDER, (c) => `\\u${c.charCodeAt(0).toString(16)}`);
}

export class Logs {
  constructor() {
    this.list = h("div", { class: "log nothing", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Output of the workers" });
    this.rank = h("select", { "aria-label": "Rank", onchange: () => this.restart() }, h("option", { value: "-1" }, "all ranks"));
    this.filter = h("input", { type: "search", placeholder: "Filter the lines below", "aria-label": "Filter the output by text", "data-shortcut": "/", oninput: () => this.sift() });
    this.button = h("button", { class: "quiet", "data-shortcut": "f", "aria-pressed": "true", onclick: () => this.follow(!this.following) }, "Follow");
    this.stacks = h("button", { class: "quiet", hidden: true, title: "Add where each rank's programs are to the output", onclick: () => this.takeStacks() }, "Stacks");
    this.tools = h("span", { class: "toggles" }, this.rank, this.filter, this.button, this.stacks);
    this.list.addEventListener("scroll", () => this.follow(this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < END_PX, true));
    this.following = true;
    this.atEnd = false; // no more lines than those were there at the last look
    this.cursor = undefined;
  }

  follow(on, scrolled) {
    this.following = on;
    this.button.setAttribute("aria-pressed", String(on));
    if (on && !scrolled) this.list.scrollTop = this.list.scrollHeight;
  }

  // They are lines of the output a moment later.
  async takeStacks() {
    this.stacks.disabled = true;
    this.filter.value = "";
    this.sift();
    this.follow(true);
    const failed = await api.takeStacks(this.id).then(() => "", (error) => error.message);
    this.stacks.disabled = false;
    if (failed) this.add([{ wall_ms: Date.now(), is_stderr: true, text: `The stacks were not taken: ${failed}` }]);
  }

  restart() {
    this.cursor = undefined;
    this.list.replaceChildren();
    this.follow(true);
  }

  only(rank) {
    this.rank.value = String(rank);
    this.restart();
    this.list.scrollIntoView({ block: "center" });
  }

  say(nothing) {
    this.list.dataset.nothing = nothing;
  }

  ranks(world) {
    const wanted = Math.max(1, world || 1) + 1, chosen = Number(this.rank.value) + 2;
    while (this.rank.options.length > Math.max(wanted, chosen)) this.rank.remove(this.rank.options.length - 1);
    for (let i = this.rank.options.length; i < wanted; i++) this.rank.append(h("option", { value: i - 1 }, `rank ${i - 1}`));
  }

  hides(text) {
    const word = this.filter.value.trim().toLowerCase();
    return Boolean(word) && !text.toLowerCase().includes(word);
  }

  sift() {
    let hidden = 0;
    for (const line of this.list.children) hidden += line.hidden = this.hides(line.lastChild.data);
    this.list.classList.toggle("filtered", hidden > 0 && hidden === this.list.childElementCount);
    this.list.dataset.filtered = `None of the last ${this.list.childElementCount} lines has that in it; muster logs has all lines.`;
    this.follow(this.following);
  }

  line({ wall_ms, rank, is_stderr, text: written = "" }) {
    const text = readable(written);
    const more = text.length - LINE_CHARS_MAX;
    const shown = more > 0 ? `${text.slice(0, LINE_CHARS_MAX)} … (${more} characters more)` : text;
    return h("div", { class: is_stderr ? "stderr" : undefined, hidden: this.hides(shown) },
      h("span", { class: "dim" }, `${timeText(wall_ms)} [${rank || 0}]${is_stderr ? " err " : " "}`), document.createTextNode(shown));
  }

  add(lines) {
    this.list.append(...lines.slice(-LINES_MAX).map((line) => this.line(line)));
    for (let extra = this.list.childElementCount - LINES_MAX; extra > 0; extra--) this.list.firstChild.remove();
    this.list.classList.toggle("nothing", !this.list.childElementCount);
    if (this.following) this.list.scrollTop = this.list.scrollHeight;
  }

  async refresh(id) {
    this.id = id;
    for (let page = 0; page < PAGES_A_TICK; page++) {
      const rank = this.rank.value, first = this.cursor === undefined;
      const answer = await api.getLogs(id, { rank, max_bytes: PAGE_MAX_BYTES, ...(first ? { tail: TAIL_LINES } : { cursor: this.cursor }) });
      if (rank !== this.rank.value || first !== (this.cursor === undefined)) return;
      this.cursor = answer.cursor;
      this.atEnd = Boolean(answer.ended) || !answer.lines?.length;
      if (!answer.lines?.length) return;
      this.add(answer.lines);
    }
  }
}
