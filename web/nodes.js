// Nodes: what they have, who uses it, and the three switches of those who keep them.

import * as api from "./api.js";
import { ask } from "./dialog.js";
import { h, jobLink, section, show, state, table } from "./dom.js";
import { ago, bytes, plural } from "./format.js";
import { answerOf } from "./plan.js";
import { mayKeepNodes } from "./session.js";
import { colourNodes, markJobs, tiles } from "./tiles.js";

const SHOWN_MAX = 500;
const EFFECTS = { cordon: "It keeps what it runs and gets nothing new.", drain: "What it runs moves to other nodes, or waits for a place." };

async function set(node, action, refresh) {
  if (action === "uncordon") {
    await api.setNode(node.name, action);
    return refresh();
  }
  const would = action === "drain" ? answerOf(await api.plan({ drain: [node.name] })) : [];
  return ask({
    title: `${action === "drain" ? "Drain" : "Cordon"} ${node.name}?`, yes: action === "drain" ? "Drain" : "Cordon", danger: action === "drain",
    body: [h("p", {}, EFFECTS[action]), would],
    act: async () => {
      await api.setNode(node.name, action);
      await refresh();
    },
  });
}

function switches(node, refresh) {
  if (!mayKeepNodes()) return "";
  const button = (action) => h("button", { class: "quiet", "aria-label": `${action} ${node.name}`, onclick: () => set(node, action, refresh) }, action);
  return h("span", { class: "switches" }, ["cordoned", "draining", "drained"].includes(node.state) ? button("uncordon") : [button("cordon"), button("drain")]);
}

function devices(node) {
  const models = {};
  for (const gpu of node.gpus || []) models[`${gpu.model}, ${bytes(gpu.memory_bytes)}`] = (models[`${gpu.model}, ${bytes(gpu.memory_bytes)}`] || 0) + 1;
  return Object.entries(models).map(([model, n]) => `${n} × ${model}`).join("; ") || "CPU only";
}

// What somebody should look after.
function faults({ now = {}, held, held_bytes }) {
  return [
    held && (Number(held_bytes) ? `gets no job: its last worker has ended and ${bytes(held_bytes)} of its memory are still in use` : "gets no job: its last worker has ended and its memory cannot be read"),
    now.lost && "cannot be read any more, and gets no job",
    now.xid && `Xid ${now.xid}`,
    Number(now.ecc_errors) > 0 && plural(Number(now.ecc_errors), "uncorrected memory error"),
    now.slowed_by_heat && "slowed down by heat",
    now.slowed_by_power && "slowed down by its power limit",
  ].filter(Boolean).join(", ");
}

const meter = (key, share, label) => h("progress", { "data-key": key, max: "1", value: share, "aria-label": label, title: label });

// One row for each GPU that was read.
function gpus(node) {
  const read = (node.gpus || []).filter((gpu) => gpu.now);
  return read.length > 0 && section("GPUs", null, table(
    ["GPU", "Model", ">Used", ">Memory", ">Temperature", ">Power", "Faults"],
    read.map((gpu) => {
      const { now } = gpu, memory = Number(now.memory_used_bytes || 0), used = now.used_percent;
      return { key: gpu.uuid, cells: [
        h("span", { title: gpu.uuid }, `${gpu.index || 0}${gpu.instance ? " (MIG)" : ""}`), gpu.model,
        used == null ? "" : h("span", { class: "gauge" }, `${used} %`, meter("used", used / 100, `${used} % of the time with a kernel running`)),
        h("span", { class: "gauge" }, `${bytes(memory)} / ${bytes(gpu.memory_bytes)}`, meter("memory", memory / Number(gpu.memory_bytes || 1), "Memory in use")),
        now.temperature_c ? `${now.temperature_c} °C` : "", now.power_w ? `${now.power_w} W` : "", faults(gpu),
      ] };
    }), "", `GPUs of ${node.name}`));
}

// How each pair of GPUs is connected, in the words of nvidia-smi topo -m.
function links(node) {
  const all = node.gpus || [], names = all.map((gpu, i) => `${gpu.index || 0}${gpu.instance ? `:${all.slice(0, i).filter((other) => (other.index || 0) === (gpu.index || 0)).length}` : ""}`);
  return all.some((gpu) => gpu.links) && section("Links of GPUs", null, table(
    ["GPU", ...names, "PCIe", ">NUMA"],
    all.map((gpu, i) => {
      const words = (gpu.links || "").split(" ");
      return { key: gpu.uuid, cells: [names[i], ...names.map((_, j) => h("span", { class: words[j] === "X" ? "dim" : undefined }, words[j] || "")),
        gpu.pcie_lanes ? `${gpu.pcie_generation || 0} x${gpu.pcie_lanes}` : "", gpu.numa_node ?? ""] };
    }), "", `Links of GPUs of ${node.name}`));
}

const runs = (node) => h("span", { class: "list" }, (node.uses || []).map((use) => (use.job ? h("span", {}, jobLink(use.job, use.name), h("span", { class: "dim" }, ` ${use.slots}`)) : h("span", { class: "dim" }, `another tenant's ${use.slots}`))));
const labels = (node) => Object.entries(node.labels || {}).map(([k, v]) => `${k}=${v}`).join(" ");

const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });

// All nodes, or the one of that name.
export function nodesView(root, only) {
  const cards = h("div", { class: "tiles" }), body = h("div");
  root.replaceChildren(h("h1", {}, only || "Nodes"), only ? h("p", {}, h("a", { href: "#/nodes" }, "All nodes")) : "", h("h2", { class: "unseen" }, "Slots"), cards, body);
  markJobs(root);
  const view = {
    async refresh() {
      const all = ((await api.listNodes()).nodes || []).sort(byName);
      const nodes = only ? all.filter((node) => node.name === only) : all;
      const shown = nodes.slice(0, SHOWN_MAX);
      colourNodes(all);
      show(cards, tiles(shown));
      show(body, section("Details", null, table(
        ["Node", "State", ">Slots", ">CPUs", ">Memory", "Devices", "Runs", "Address", "Labels", "Seen", mayKeepNodes() ? "Actions" : ""],
        shown.map((node) => ({ key: node.name, cells: [
          h("a", { class: "clip", title: node.name, href: `#/nodes/${encodeURIComponent(node.name)}` }, node.name), h("span", {}, state(node.state), node.state !== "ready" && h("div", { class: "dim" }, node.reason?.text), node.unenforced && h("div", { class: "dim small" }, node.unenforced)),
          `${node.slots_used || 0} / ${node.slots || 0}`, `${node.cpus_used || 0} / ${node.cpus || 0}`, bytes(node.memory_bytes),
          h("span", {}, devices(node), (node.gpus || []).map((gpu) => faults(gpu) && h("div", { class: "dim small" }, `GPU ${gpu.index || 0}: ${faults(gpu)}`))), runs(node), h("span", { class: "clip", title: node.address }, node.address), h("span", { class: "dim small why" }, labels(node)), ago(node.seen_wall_ms), switches(node, view.refresh),
        ] })),
        only ? `No node is named ${only}.` : "No nodes. On a machine: muster agent --coordinator URL --token-file FILE", "Nodes"),
      only && nodes.map(gpus),
      only && nodes.map(links),
      nodes.length > SHOWN_MAX && h("p", { class: "dim" }, `${plural(nodes.length - SHOWN_MAX, "node")} more: muster nodes lists all.`)));
    },
  };
  return view;
}
