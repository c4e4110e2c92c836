// Talks to REST and nothing else. Every call returns the parsed answer or throws an ApiError.

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message || `HTTP ${status}`);
    this.status = status;
    this.code = error.code || "UNKNOWN";
    this.hint = error.hint || "";
  }
}

async function request(method, path, body) {
  const headers = { Accept: "application/json", "X-Muster-Request": "1" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin" });
  } catch {
    throw new ApiError(0, { code: "UNAVAILABLE", message: "the coordinator cannot be reached" });
  }
  const text = await answer.text();
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
  const text = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== undefined && v !== "")).toString();
  return request("GET", text ? `${path}?${text}` : path);
};
const job = (id) => `/v1/jobs/${encodeURIComponent(id)}`;

export const login = (token) => request("POST", "/v1/login", { token });
export const listJobs = () => get("/v1/jobs", { limit: 200 });
export const getJob = (id) => get(job(id));
export const getWhy = (id) => get(`${job(id)}/why`);
export const getMetrics = (id, afterStep) => get(`${job(id)}/metrics`, { after_step: afterStep, max_points: 2000 });
export const getLogs = (id, query) => get(`${job(id)}/logs`, query);
export const getJobEvents = (id) => get(`${job(id)}/events`, { limit: 1000 });
export const getCheckpoints = (id) => get(`${job(id)}/checkpoints`);
export const listNodes = () => get("/v1/nodes");
export const listEvents = (after) => get("/v1/events", { after, limit: 1000 });
export const cancelJob = (id) => request("POST", `${job(id)}:cancel`, {});
export const setNode = (name, action) => request("POST", `/v1/nodes/${encodeURIComponent(name)}:${action}`, {});
export const plan = (question) => request("POST", "/v1/plan", question);
export const whoAmI = () => get("/v1/whoami");
export const listTenants = () => get("/v1/tenants");
export const setTenant = (tenant) => request("PUT", `/v1/tenants/${encodeURIComponent(tenant.name)}`, tenant);
export const makeTenant = (tenant) => request("POST", "/v1/tenants", tenant);
export const listTokens = () => get("/v1/tokens");
export const makeToken = (token) => request("POST", "/v1/tokens", token);
export const revokeToken = (id) => request("POST", `/v1/tokens/${encodeURIComponent(id)}:revoke`, {});
