// Nodes: what they have, who uses it, and the three switches an administrator needs.

import * as api from "./api.js";
import { drainWarning } from "./plan.js";
import { age, bytes, h, show, state, table } from "./dom.js";

function switches(node, refresh) {
  const button = (action) => h("button", { class: "quiet", onclick: async () => {
    if (action === "drain" && !confirm(await drainWarning(node.name))) return;
    await api.setNode(node.name, action);
    await refresh();
  } }, action);
  return h("span", {}, ["cordoned", "draining"].includes(node.state) ? button("uncordon") : [button("cordon"), button("drain")]);
}

export function nodesView(root) {
  const body = h("div");
  root.replaceChildren(h("h1", {}, "Nodes"), body);
  const view = {
    async refresh() {
      const { nodes = [] } = await api.listNodes();
      show(body, table(
        ["Node", "State", ">Slots", ">CPUs", ">Memory", "GPU", "Address", ">Seen", "Jobs", "Reason", ""],
        nodes.map((node) => [
          node.name, state(node.state), `${node.slots_used || 0} / ${node.slots || 0}`,
          `${node.cpus_used || 0} / ${node.cpus || 0}`, bytes(node.memory_bytes), node.gpus?.[0]?.model || "–",
          node.address, age(node.seen_wall_ms),
          h("span", {}, (node.jobs || []).map((id) => h("a", { href: `#/jobs/${encodeURIComponent(id)}` }, `${id} `))),
          node.state === "ready" ? "" : node.reason?.text || "",
          switches(node, view.refresh),
        ]),
        "No nodes. On a machine: muster agent --coordinator URL --token-file FILE"));
    },
  };
  return view;
}
