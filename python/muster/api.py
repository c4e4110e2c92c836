"""The calls of REST, made by tools/python_api.py from OpenAPI: change the routes instead.

docs/rest.md describes each. muster.Client has them, with the connection.
"""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional
from urllib.parse import quote

from .api_types import (BackupAnswer, CreateTokenAnswer, GetLogsAnswer, GetMetricsAnswer, GetRanksAnswer, Job,
                        JobSpecInput, JobSpecRangeInput, ListAuditAnswer, ListChannelsAnswer, ListCheckpointsAnswer,
                        ListEventsAnswer, ListJobsAnswer, ListNodesAnswer, ListSecretsAnswer, ListTenantsAnswer,
                        ListTokensAnswer, Node, OverviewAnswer, PlanAnswer, PlanRequestMoreInput, QuotaInput,
                        RekeySecretsAnswer, ReplayAnswer, Secret, Tenant, Token, VersionAnswer, WhyJobAnswer)


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _given(fields: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


class Api:
    """None: a parameter is not sent, and the coordinator's default applies."""

    def _call(self, method: str, path: str, *, query: Optional[Mapping[str, Any]] = None, body: Any = None,
              idempotency_key: Optional[str] = None) -> Any:
        raise NotImplementedError

    def submit_job(self, body: JobSpecInput, *, idempotency_key: Optional[str] = None) -> Job:
        """POST /v1/jobs"""
        answer: Job = self._call("POST", "/v1/jobs", body=body, idempotency_key=idempotency_key)
        return answer

    def list_jobs(self, *, state: Optional[str] = None, tenant: Optional[str] = None, limit: Optional[int] = None,
                  cursor: Optional[str] = None) -> ListJobsAnswer:
        """GET /v1/jobs"""
        answer: ListJobsAnswer = self._call("GET", "/v1/jobs", query={"state": state, "tenant": tenant, "limit": limit,
                                         "cursor": cursor})
        return answer

    def get_job(self, id: str) -> Job:
        """GET /v1/jobs/{id}"""
        answer: Job = self._call("GET", f"/v1/jobs/{_quoted(id)}")
        return answer

    def cancel_job(self, id: str, *, reason: Optional[str] = None) -> Job:
        """POST /v1/jobs/{id}:cancel"""
        answer: Job = self._call("POST", f"/v1/jobs/{_quoted(id)}:cancel", body=_given({"reason": reason}))
        return answer

    def scale_job(self, id: str, *, min: Optional[int] = None, max: Optional[int] = None,
                  reason: Optional[str] = None) -> Job:
        """POST /v1/jobs/{id}:scale"""
        answer: Job = self._call("POST", f"/v1/jobs/{_quoted(id)}:scale", body=_given({"min": min, "max": max,
                              "reason": reason}))
        return answer

    def take_stacks(self, id: str) -> Job:
        """POST /v1/jobs/{id}:stacks"""
        answer: Job = self._call("POST", f"/v1/jobs/{_quoted(id)}:stacks", body=_given({}))
        return answer

    def list_job_channels(self, id: str) -> ListChannelsAnswer:
        """GET /v1/jobs/{id}/channels"""
        answer: ListChannelsAnswer = self._call("GET", f"/v1/jobs/{_quoted(id)}/channels")
        return answer

    def get_job_logs(self, id: str, *, rank: Optional[int] = None, cursor: Optional[int] = None,
                     tail: Optional[int] = None, follow: Optional[bool] = None,
                     max_bytes: Optional[int] = None) -> GetLogsAnswer:
        """GET /v1/jobs/{id}/logs"""
        answer: GetLogsAnswer = self._call("GET", f"/v1/jobs/{_quoted(id)}/logs", query={"rank": rank,
                                        "cursor": cursor, "tail": tail, "follow": follow, "max_bytes": max_bytes})
        return answer

    def list_job_events(self, job: str, *, after: Optional[int] = None, limit: Optional[int] = None,
                        follow: Optional[bool] = None, newest: Optional[bool] = None) -> ListEventsAnswer:
        """GET /v1/jobs/{job}/events"""
        answer: ListEventsAnswer = self._call("GET", f"/v1/jobs/{_quoted(job)}/events", query={"after": after,
                                           "limit": limit, "follow": follow, "newest": newest})
        return answer

    def why_job(self, id: str) -> WhyJobAnswer:
        """GET /v1/jobs/{id}/why"""
        answer: WhyJobAnswer = self._call("GET", f"/v1/jobs/{_quoted(id)}/why")
        return answer

    def get_job_metrics(self, id: str, *, name: Optional[str] = None, after_step: Optional[int] = None,
                        max_points: Optional[int] = None, series: Optional[str] = None) -> GetMetricsAnswer:
        """GET /v1/jobs/{id}/metrics"""
        answer: GetMetricsAnswer = self._call("GET", f"/v1/jobs/{_quoted(id)}/metrics", query={"name": name,
                                           "after_step": after_step, "max_points": max_points, "series": series})
        return answer

    def get_job_ranks(self, id: str, *, first: Optional[int] = None, limit: Optional[int] = None) -> GetRanksAnswer:
        """GET /v1/jobs/{id}/ranks"""
        answer: GetRanksAnswer = self._call("GET", f"/v1/jobs/{_quoted(id)}/ranks", query={"first": first,
                                         "limit": limit})
        return answer

    def list_job_checkpoints(self, id: str) -> ListCheckpointsAnswer:
        """GET /v1/jobs/{id}/checkpoints"""
        answer: ListCheckpointsAnswer = self._call("GET", f"/v1/jobs/{_quoted(id)}/checkpoints")
        return answer

    def plan(self, *, spec: Optional[JobSpecInput] = None, job: Optional[str] = None,
             nodes: Optional[JobSpecRangeInput] = None, drain: Optional[List[str]] = None,
             without_jobs: Optional[List[str]] = None, without_tenants: Optional[List[str]] = None,
             add: Optional[List[PlanRequestMoreInput]] = None) -> PlanAnswer:
        """POST /v1/plan"""
        answer: PlanAnswer = self._call("POST", "/v1/plan", body=_given({"spec": spec, "job": job, "nodes": nodes,
                                     "drain": drain, "without_jobs": without_jobs, "without_tenants": without_tenants,
                                     "add": add}))
        return answer

    def get_overview(self, *, limit: Optional[int] = None) -> OverviewAnswer:
        """GET /v1/overview"""
        answer: OverviewAnswer = self._call("GET", "/v1/overview", query={"limit": limit})
        return answer

    def list_nodes(self, *, since: Optional[int] = None) -> ListNodesAnswer:
        """GET /v1/nodes"""
        answer: ListNodesAnswer = self._call("GET", "/v1/nodes", query={"since": since})
        return answer

    def cordon_node(self, name: str, *, reason: Optional[str] = None) -> Node:
        """POST /v1/nodes/{name}:cordon"""
        answer: Node = self._call("POST", f"/v1/nodes/{_quoted(name)}:cordon", body=_given({"reason": reason}))
        return answer

    def drain_node(self, name: str, *, reason: Optional[str] = None) -> Node:
        """POST /v1/nodes/{name}:drain"""
        answer: Node = self._call("POST", f"/v1/nodes/{_quoted(name)}:drain", body=_given({"reason": reason}))
        return answer

    def uncordon_node(self, name: str, *, reason: Optional[str] = None) -> Node:
        """POST /v1/nodes/{name}:uncordon"""
        answer: Node = self._call("POST", f"/v1/nodes/{_quoted(name)}:uncordon", body=_given({"reason": reason}))
        return answer

    def rekey_node(self, name: str, *, reason: Optional[str] = None) -> Node:
        """POST /v1/nodes/{name}:rekey"""
        answer: Node = self._call("POST", f"/v1/nodes/{_quoted(name)}:rekey", body=_given({"reason": reason}))
        return answer

    def list_events(self, *, job: Optional[str] = None, after: Optional[int] = None, limit: Optional[int] = None,
                    follow: Optional[bool] = None, newest: Optional[bool] = None) -> ListEventsAnswer:
        """GET /v1/events"""
        answer: ListEventsAnswer = self._call("GET", "/v1/events", query={"job": job, "after": after, "limit": limit,
                                           "follow": follow, "newest": newest})
        return answer

    def replay(self, *, at: Optional[int] = None, at_wall_ms: Optional[int] = None, limit: Optional[int] = None,
               cursor: Optional[str] = None) -> ReplayAnswer:
        """GET /v1/events/replay"""
        answer: ReplayAnswer = self._call("GET", "/v1/events/replay", query={"at": at, "at_wall_ms": at_wall_ms,
                                       "limit": limit, "cursor": cursor})
        return answer

    def get_version(self) -> VersionAnswer:
        """GET /v1/version"""
        answer: VersionAnswer = self._call("GET", "/v1/version")
        return answer

    def who_am_i(self) -> Token:
        """GET /v1/whoami"""
        answer: Token = self._call("GET", "/v1/whoami")
        return answer

    def list_tenants(self, *, name: Optional[str] = None) -> ListTenantsAnswer:
        """GET /v1/tenants"""
        answer: ListTenantsAnswer = self._call("GET", "/v1/tenants", query={"name": name})
        return answer

    def create_tenant(self, *, name: Optional[str] = None, weight: Optional[int] = None,
                      guaranteed_slots: Optional[int] = None, limit_slots: Optional[int] = None,
                      quotas: Optional[List[QuotaInput]] = None,
                      checkpoint_prefixes: Optional[List[str]] = None) -> Tenant:
        """POST /v1/tenants"""
        answer: Tenant = self._call("POST", "/v1/tenants", body=_given({"name": name, "weight": weight,
                                 "guaranteed_slots": guaranteed_slots, "limit_slots": limit_slots, "quotas": quotas,
                                 "checkpoint_prefixes": checkpoint_prefixes}))
        return answer

    def get_tenant(self, name: str) -> ListTenantsAnswer:
        """GET /v1/tenants/{name}"""
        answer: ListTenantsAnswer = self._call("GET", f"/v1/tenants/{_quoted(name)}")
        return answer

    def change_tenant(self, name: str, *, weight: Optional[int] = None, guaranteed_slots: Optional[int] = None,
                      limit_slots: Optional[int] = None, quotas: Optional[List[QuotaInput]] = None,
                      checkpoint_prefixes: Optional[List[str]] = None) -> Tenant:
        """PUT /v1/tenants/{name}"""
        answer: Tenant = self._call("PUT", f"/v1/tenants/{_quoted(name)}", body=_given({"weight": weight,
                                 "guaranteed_slots": guaranteed_slots, "limit_slots": limit_slots, "quotas": quotas,
                                 "checkpoint_prefixes": checkpoint_prefixes}))
        return answer

    def list_tokens(self) -> ListTokensAnswer:
        """GET /v1/tokens"""
        answer: ListTokensAnswer = self._call("GET", "/v1/tokens")
        return answer

    def create_token(self, *, name: Optional[str] = None, role: Optional[str] = None, tenant: Optional[str] = None,
                     expires: Optional[str] = None, uses: Optional[int] = None) -> CreateTokenAnswer:
        """POST /v1/tokens"""
        answer: CreateTokenAnswer = self._call("POST", "/v1/tokens", body=_given({"name": name, "role": role,
                                            "tenant": tenant, "expires": expires, "uses": uses}))
        return answer

    def revoke_token(self, id: str) -> Token:
        """POST /v1/tokens/{id}:revoke"""
        answer: Token = self._call("POST", f"/v1/tokens/{_quoted(id)}:revoke", body=_given({}))
        return answer

    def list_secrets(self, *, tenant: Optional[str] = None) -> ListSecretsAnswer:
        """GET /v1/secrets"""
        answer: ListSecretsAnswer = self._call("GET", "/v1/secrets", query={"tenant": tenant})
        return answer

    def set_secret(self, name: str, *, tenant: Optional[str] = None, value: Optional[str] = None) -> Secret:
        """PUT /v1/secrets/{name}"""
        answer: Secret = self._call("PUT", f"/v1/secrets/{_quoted(name)}", body=_given({"tenant": tenant,
                                 "value": value}))
        return answer

    def remove_secret(self, name: str, *, tenant: Optional[str] = None) -> Secret:
        """DELETE /v1/secrets/{name}"""
        answer: Secret = self._call("DELETE", f"/v1/secrets/{_quoted(name)}", query={"tenant": tenant})
        return answer

    def rekey_secrets(self, *, drop_lost: Optional[bool] = None) -> RekeySecretsAnswer:
        """POST /v1/secrets:rekey"""
        answer: RekeySecretsAnswer = self._call("POST", "/v1/secrets:rekey", body=_given({"drop_lost": drop_lost}))
        return answer

    def list_audit(self, *, after: Optional[int] = None, limit: Optional[int] = None,
                   newest: Optional[bool] = None) -> ListAuditAnswer:
        """GET /v1/audit"""
        answer: ListAuditAnswer = self._call("GET", "/v1/audit", query={"after": after, "limit": limit,
                                          "newest": newest})
        return answer

    def backup(self, *, path: Optional[str] = None) -> BackupAnswer:
        """POST /v1/backup"""
        answer: BackupAnswer = self._call("POST", "/v1/backup", body=_given({"path": path}))
        return answer

    def is_alive(self) -> str:
        """GET /healthz"""
        answer: str = self._call("GET", "/healthz")
        return answer

    def is_ready(self) -> str:
        """GET /readyz"""
        answer: str = self._call("GET", "/readyz")
        return answer

    def get_metrics(self) -> str:
        """GET /metrics"""
        answer: str = self._call("GET", "/metrics")
        return answer

    def get_open_api(self) -> Dict[str, Any]:
        """GET /openapi.json"""
        answer: Dict[str, Any] = self._call("GET", "/openapi.json")
        return answer
