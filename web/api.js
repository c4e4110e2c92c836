// Talks to REST and nothing else. Every call returns the parsed answer or throws an ApiError.

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message || `HTTP ${status}`);
    this.status = status;
    this.code = error.code || "UNKNOWN";
    this.hint = error.hint || "";
  }
}

const TIMEOUT_MS = 15000;

// Half of the session is a cookie, which goes to every port of this host; the other half stays with
// this port. Without a storage it lasts as long as the page.
const HALF = "muster-session";
let half = "";

function keepHalf(value) {
  half = value || "";
  try {
    if (half) localStorage.setItem(HALF, half);
    else localStorage.removeItem(HALF);
  } catch { /* no storage */ }
}

function halfNow() {
  try {
    return localStorage.getItem(HALF) || half;
  } catch {
    return half;
  }
}

// Nobody is signed in without it.
export const hasSession = () => halfNow() !== "";

export const headersOf = (accept) => ({ Accept: accept, "X-Muster-Request": "1", "X-Muster-Session": halfNow() });

async function request(method, path, body) {
  const headers = headersOf("application/json");
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin", signal: AbortSignal.timeout(TIMEOUT_MS) };
  let answer, text;
  try {
    answer = await fetch(path, options);
    text = await answer.text();
  } catch {
    throw new ApiError(0, { code: "UNAVAILABLE", message: "the coordinator cannot be reached" });
  }
  let json = {};
  try {
    json = text ? JSON.parse(text) : {};
  } catch {
    json = { error: { message: `unreadable answer (HTTP ${answer.status})` } };
  }
  if (!answer.ok) throw new ApiError(answer.status, json.error || {});
  return json;
}

const get = (path, query = {}) => {
  const text = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== undefined && v !== "" && v !== 0)).toString();
  return request("GET", text ? `${path}?${text}` : path);
};
const post = (path, body = {}) => request("POST", path, body);
const job = (id) => `/v1/jobs/${encodeURIComponent(id)}`;

// All nodes as of now, of which only what changed is read; when each was heard of is no change. What
// one session was shown is not kept for the next.
let known = { nodes: new Map() };
export async function currentNodes() {
  if (known.half !== halfNow()) known = { half: halfNow(), nodes: new Map() };
  const mine = known;
  const answer = await get("/v1/nodes", { since: mine.version });
  if (answer.whole) mine.nodes.clear();
  for (const name of answer.forgotten || []) mine.nodes.delete(name);
  for (const node of answer.nodes || []) mine.nodes.set(node.name, node);
  mine.version = answer.version;
  return [...mine.nodes.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

export const login = async (token) => keepHalf((await post("/v1/login", { token })).session);
export const logout = async () => {
  await post("/v1/logout");
  keepHalf("");
};
export const whoAmI = () => get("/v1/whoami");
export const overview = (limit) => get("/v1/overview", { limit });
export const listJobs = (query) => get("/v1/jobs", query);
export const jobPath = job;
export const getJob = (id) => get(job(id));
export const getWhy = (id) => get(`${job(id)}/why`);
export const getSeries = (id, series, afterStep) => get(`${job(id)}/metrics`, { series, after_step: afterStep, max_points: 2000 });
export const getLogs = (id, query) => request("GET", `${job(id)}/logs?${new URLSearchParams(query)}`);
export const getCheckpoints = (id) => get(`${job(id)}/checkpoints`);
export const getRanks = (id) => get(`${job(id)}/ranks`);
export const listChannels = (id) => get(`${job(id)}/channels`);
export const cancelJob = (id) => post(`${job(id)}:cancel`);
export const takeStacks = (id) => post(`${job(id)}:stacks`);
export const scaleJob = (id, min, max) => post(`${job(id)}:scale`, { min, max });
export const plan = (question) => post("/v1/plan", question);
export const listNodes = () => get("/v1/nodes");
export const setNode = (name, action) => post(`/v1/nodes/${encodeURIComponent(name)}:${action}`);
export const listEvents = (query) => get("/v1/events", query);
export const listJobEvents = (id, query) => get(`${job(id)}/events`, query);
export const listAudit = (query) => get("/v1/audit", query);
export const listTenants = () => get("/v1/tenants");
export const createTenant = (tenant) => post("/v1/tenants", tenant);
export const changeTenant = (tenant) => request("PUT", `/v1/tenants/${encodeURIComponent(tenant.name)}`, tenant);
export const listSecrets = (query) => get("/v1/secrets", query);
const secretPath = (name) => `/v1/secrets/${encodeURIComponent(name)}`;
export const setSecret = (name, tenant, value) => request("PUT", secretPath(name), { tenant, value });
export const removeSecret = (name, tenant) => request("DELETE", `${secretPath(name)}?${new URLSearchParams({ tenant })}`);
export const listTokens = () => get("/v1/tokens");
export const createToken = (token) => post("/v1/tokens", token);
export const revokeToken = (id) => post(`/v1/tokens/${encodeURIComponent(id)}:revoke`);
