// Questions before something is done. A dialog holds focus, closes with Escape, and shows what the
// coordinator answered if it refused.

import { h } from "./dom.js";

// Ask, and call `act(form values)` on yes. It stays open while `act` runs and if it throws; what
// `act` returns, if anything, is shown in place of the form; STAY leaves the form for another go.
// `body` are nodes of the form.
export const STAY = Symbol("stay");
export function ask({ title, body = [], yes, danger = false, act }) {
  const note = h("p", { class: "error", role: "alert" });
  const go = h("button", { class: danger ? "danger" : "", value: "yes" }, yes);
  const content = h("div", { class: "content" }, body);
  const no = h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close");
  const form = h("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      go.disabled = true;
      note.textContent = "";
      try {
        const shown = await act(Object.fromEntries(new FormData(form)));
        go.disabled = false;
        if (shown === STAY) return;
        if (!shown) return dialog.close();
        content.replaceChildren(...[shown].flat());
        go.remove();
        no.textContent = "Close";
        no.focus();
      } catch (error) {
        note.textContent = [error.message, error.hint].filter(Boolean).join(". ");
        go.disabled = false;
      }
    },
  }, h("h2", {}, title), content, note, h("div", { class: "buttons" }, no, go));
  const dialog = h("dialog", { "aria-label": title, onclose: () => dialog.remove() }, form);
  document.body.append(dialog);
  dialog.showModal();
}

// A line of a form.
export const field = (label, input, hint) => h("label", { class: "field" }, h("span", {}, label), input, hint && h("small", {}, hint));
export const input = (name, attributes = {}) => h("input", { name, autocomplete: "off", ...attributes });
export const choice = (name, words, chosen) => h("select", { name }, words.map((w) => h("option", { value: w, selected: w === chosen }, w)));
