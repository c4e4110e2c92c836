// Who looks at the page and what the token may. The coordinator decides again with every request;
// this only keeps buttons away that would be refused.

import * as api from "./api.js";

let me = {};

export async function learn() {
  me = await api.whoAmI();
  return me;
}

export const who = () => me;
export const isAdmin = () => me.role === "admin";
export const mayChangeJobs = () => ["admin", "member"].includes(me.role);
export const maySetSecrets = mayChangeJobs;
export const mayKeepNodes = () => ["admin", "operator"].includes(me.role);
