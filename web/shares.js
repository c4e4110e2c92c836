// What a tenant holds of the cluster against what it is guaranteed and may have at most, as a bar.

import { h } from "./dom.js";
import { plural } from "./format.js";

export function shareText(tenant) {
  const parts = [`uses ${plural(tenant.slots_used || 0, "slot")}`];
  if (tenant.guaranteed_slots) parts.push(`${tenant.guaranteed_slots} guaranteed`);
  parts.push(tenant.limit_slots ? `at most ${tenant.limit_slots}` : "no limit");
  return parts.join(", ");
}

export function shareBar(tenant, slots) {
  const whole = Math.max(1, slots, tenant.limit_slots || 0, tenant.slots_used || 0, tenant.guaranteed_slots || 0);
  const at = (n) => `${(100 * n) / whole}%`;
  const borrowed = Math.max(0, (tenant.slots_used || 0) - (tenant.guaranteed_slots || 0));
  const own = (tenant.slots_used || 0) - borrowed;
  return h("div", { class: "share", "data-key": tenant.name },
    h("div", { class: "line" }, h("span", { class: "name" }, tenant.name), h("span", { class: "dim" }, shareText(tenant))),
    h("div", { class: "track", role: "img", "aria-label": `${tenant.name} ${shareText(tenant)}, of ${slots}` },
      h("span", { class: "room", style: `width: ${at(tenant.limit_slots || slots)}` }),
      h("span", { class: "own", style: `width: ${at(own)}` }),
      h("span", { class: "borrowed", style: `left: ${at(own)}; width: ${at(borrowed)}` }),
      tenant.guaranteed_slots ? h("span", { class: "mark", style: `left: ${at(tenant.guaranteed_slots)}`, title: `${tenant.guaranteed_slots} guaranteed` }) : null));
}
