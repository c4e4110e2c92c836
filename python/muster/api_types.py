"""What REST sends and takes, made by tools/python_api.py from OpenAPI: change proto/ instead.

As proto3 JSON has it: 64-bit integers are texts, and what is not known is None.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict, Union


class JobSpecInput(TypedDict, total=False):
    name: Optional[str]
    tenant: Optional[str]
    command: List[str]
    nodes: Optional[JobSpecRangeInput]
    workers_per_node: Optional[int]
    resources: Optional[JobSpecResourcesInput]
    priority: Optional[str]
    max_runtime: Optional[str]
    restart: Optional[JobSpecRestartInput]
    elastic: Optional[str]
    checkpoint: Optional[JobSpecCheckpointInput]
    constraints: Optional[Dict[str, str]]
    topology: Optional[str]
    env: Optional[Dict[str, str]]
    training: Optional[TrainingInput]
    workdir: Optional[str]
    secrets: Optional[Dict[str, str]]
    grace: Optional[str]
    stop_signal: Optional[str]
    signal: Optional[str]

class Job(TypedDict, total=False):
    id: str
    spec: JobSpec
    state: str
    reason: Reason
    generation: str
    world: int
    workers: List[Worker]
    restarts: int
    step: Optional[str]
    loss: Optional[Union[float, str]]
    tokens_per_second: Optional[Union[float, str]]
    total_steps: Optional[str]
    last_checkpoint: Checkpoint
    submitted_wall_ms: str
    started_wall_ms: str
    ended_wall_ms: str
    exit_code: Optional[int]
    version: str
    recoveries: str
    last_recovery_ms: Optional[str]
    ledger: Ledger
    spares: List[str]
    starts_wall_ms: str
    preempted_by: str
    preempted_wall_ms: str
    warnings: List[str]
    stalled_wall_ms: str
    user: str
    node_count: int
    signal_wall_ms: str

class ListJobsAnswer(TypedDict):
    jobs: List[Job]
    next_cursor: str
    changes_refused: str

class ListChannelsAnswer(TypedDict):
    channels: List[Channel]

class GetLogsAnswer(TypedDict):
    lines: List[LogLine]
    cursor: str
    ended: bool

class ListEventsAnswer(TypedDict):
    events: List[Event]
    next: str

class WhyJobAnswer(TypedDict, total=False):
    job: Job
    summary: str
    reasons: List[Reason]
    history: List[Event]

class GetMetricsAnswer(TypedDict):
    series: List[MetricSeries]

class GetRanksAnswer(TypedDict, total=False):
    ranks: List[Rank]
    next: int
    count: int
    by_work: bool
    median_ms: Optional[float]
    slowest: Reason

class ListCheckpointsAnswer(TypedDict):
    checkpoints: List[Checkpoint]

class JobSpecRangeInput(TypedDict, total=False):
    min: Optional[int]
    max: Optional[int]
    spares: Optional[int]

class PlanRequestMoreInput(TypedDict, total=False):
    like: Optional[str]
    count: Optional[int]

class PlanAnswer(TypedDict):
    summary: str
    starts: bool
    makes_room: bool
    starts_wall_ms: str
    nodes: List[str]
    ahead: int
    reasons: List[Reason]
    effects: List[PlanAnswerEffect]
    effects_left_out: int

class OverviewAnswer(TypedDict, total=False):
    jobs: OverviewAnswerJobs
    nodes: OverviewAnswerNodes
    slots: int
    slots_used: int
    tokens_per_second: float
    waiting_since_wall_ms: str
    running: List[Job]
    queue: List[OverviewAnswerPlace]
    ended: List[Job]
    changes_refused: str

class ListNodesAnswer(TypedDict):
    nodes: List[Node]
    version: str
    whole: bool
    forgotten: List[str]
    changes_refused: str

class Node(TypedDict, total=False):
    name: str
    state: str
    reason: Reason
    address: str
    slots: int
    slots_used: int
    cpus: float
    cpus_used: float
    memory_bytes: str
    memory_used_bytes: str
    labels: Dict[str, str]
    gpus: List[Gpu]
    version: str
    joined_wall_ms: str
    seen_wall_ms: str
    jobs: List[str]
    uses: List[NodeUse]
    unenforced: str

class ReplayAnswer(TypedDict):
    at: str
    first: str
    last: str
    nodes: List[Node]
    tenants: List[Tenant]
    jobs: List[Job]
    next_cursor: str
    compared: int
    differing: List[str]

class VersionAnswer(TypedDict):
    version: str
    commit: str
    cluster: str
    protocol: int

class Token(TypedDict):
    id: str
    name: str
    role: str
    tenant: str
    created_wall_ms: str
    expires_wall_ms: str
    revoked_wall_ms: str
    used_wall_ms: str
    uses: str
    uses_max: str

class ListTenantsAnswer(TypedDict):
    tenants: List[Tenant]

class QuotaInput(TypedDict, total=False):
    name: Optional[str]
    limit: Optional[str]
    used: Optional[str]
    is_default: Optional[bool]

class Tenant(TypedDict, total=False):
    name: str
    weight: int
    guaranteed_slots: int
    limit_slots: int
    created_wall_ms: str
    active_jobs: int
    slots_used: int
    ledger: Ledger
    use: float
    quotas: List[Quota]
    checkpoint_prefixes: List[str]

class ListTokensAnswer(TypedDict):
    tokens: List[Token]

class CreateTokenAnswer(TypedDict, total=False):
    token: Token
    plain: str

class ListSecretsAnswer(TypedDict):
    secrets: List[Secret]

class Secret(TypedDict):
    name: str
    tenant: str
    created_wall_ms: str
    created_by: str
    changed_wall_ms: str
    changed_by: str
    used_wall_ms: str
    lost: bool
    jobs: List[SecretUse]
    jobs_count: int

class RekeySecretsAnswer(TypedDict):
    sealed: int
    dropped: int
    place: str

class ListAuditAnswer(TypedDict):
    entries: List[AuditEntry]
    next: str

class BackupAnswer(TypedDict):
    path: str
    size_bytes: str

class JobSpecResourcesInput(TypedDict, total=False):
    slots: Optional[int]
    cpus: Optional[float]
    memory: Optional[str]

class JobSpecRestartInput(TypedDict, total=False):
    max: Optional[int]
    backoff: Optional[str]
    on_no_progress: Optional[str]
    on_failure: Optional[str]

class JobSpecCheckpointInput(TypedDict, total=False):
    dir: Optional[str]
    every: Optional[str]
    keep: Optional[int]

class TrainingInput(TypedDict, total=False):
    strategy: Optional[str]
    mixed_precision: Optional[str]
    gradient_accumulation_steps: Optional[int]
    mesh: Optional[TrainingMeshInput]
    clip_grad_norm: Optional[float]
    seed: Optional[str]
    bucket_mib: Optional[float]
    optimizer: Optional[str]
    settings: Optional[Dict[str, str]]

class JobSpec(TypedDict, total=False):
    name: str
    tenant: str
    command: List[str]
    nodes: JobSpecRange
    workers_per_node: int
    resources: JobSpecResources
    priority: str
    max_runtime: str
    restart: JobSpecRestart
    elastic: str
    checkpoint: JobSpecCheckpoint
    constraints: Dict[str, str]
    topology: str
    env: Dict[str, str]
    training: Training
    workdir: str
    secrets: Dict[str, str]
    grace: str
    stop_signal: str
    signal: str

class Reason(TypedDict):
    kind: str
    text: str
    node: str
    rank: int
    hint: str
    output: str

class Worker(TypedDict, total=False):
    uid: str
    rank: int
    local_rank: int
    node: str
    state: str
    pid: Optional[str]
    exit: Exit
    step: Optional[str]
    generation: str
    wait: Wait
    reports_dropped: str

class Checkpoint(TypedDict):
    step: str
    path: str
    generation: str
    wall_ms: str
    size_bytes: str
    world: int

class Ledger(TypedDict):
    queue: float
    start: float
    productive: float
    checkpoint: float
    rework: float
    recovery: float
    hang: float
    total: float
    rework_steps: str

class Channel(TypedDict):
    id: str
    job: str
    rank: int
    node: str
    user: str
    what: str
    terminal: bool
    opened_wall_ms: str
    bytes_in: str
    bytes_out: str

class LogLine(TypedDict):
    wall_ms: str
    rank: int
    generation: str
    is_stderr: bool
    text: str
    is_stacks: bool

Event = TypedDict("Event", {
    "seq": "str",
    "wall_ms": "str",
    "kind": "str",
    "job": "str",
    "node": "str",
    "generation": "str",
    "from": "str",
    "to": "str",
    "reason": "Reason",
    "world": "int",
}, total=False)

class MetricSeries(TypedDict):
    name: str
    points: List[MetricPoint]

class Rank(TypedDict):
    rank: int
    node: str
    slot: int
    gpu: Optional[int]
    state: str
    step: Optional[str]
    step_ms: Optional[float]
    work_ms: Optional[float]
    timed: int
    ratio: Optional[float]
    numbers: Dict[str, float]

class PlanAnswerEffect(TypedDict):
    job: str
    name: str
    effect: str
    node: str
    gives_way: bool

class OverviewAnswerJobs(TypedDict):
    queued: int
    starting: int
    running: int
    reforming: int
    restarting: int
    preempting: int
    stopping: int
    succeeded: int
    failed: int
    cancelled: int
    all: int
    active: int
    waiting: int
    stalled: int

class OverviewAnswerNodes(TypedDict):
    joining: int
    ready: int
    cordoned: int
    draining: int
    drained: int
    unreachable: int
    lost: int
    all: int

class OverviewAnswerPlace(TypedDict, total=False):
    place: int
    job: Job

class Gpu(TypedDict, total=False):
    index: int
    model: str
    memory_bytes: str
    uuid: str
    instance: bool
    nvlinks: Optional[int]
    persistent: bool
    exclusive: bool
    now: GpuReading
    held: bool
    held_bytes: str
    links: str
    nvswitch: bool
    pcie_generation: int
    pcie_lanes: int
    numa_node: Optional[int]

class NodeUse(TypedDict):
    job: str
    name: str
    slots: int

class Quota(TypedDict):
    name: str
    limit: str
    used: str
    is_default: bool

class SecretUse(TypedDict):
    job: str
    name: str

class AuditEntry(TypedDict):
    seq: str
    wall_ms: str
    token: str
    token_name: str
    role: str
    tenant: str
    carrier: str
    peer: str
    method: str
    object: str
    result: str
    text: str

class TrainingMeshInput(TypedDict, total=False):
    dp: Optional[int]
    dp_replicate: Optional[int]
    dp_shard: Optional[int]
    cp: Optional[int]
    tp: Optional[int]
    pp: Optional[int]

class JobSpecRange(TypedDict):
    min: int
    max: int
    spares: int

class JobSpecResources(TypedDict):
    slots: int
    cpus: float
    memory: str

class JobSpecRestart(TypedDict):
    max: int
    backoff: str
    on_no_progress: str
    on_failure: str

class JobSpecCheckpoint(TypedDict):
    dir: str
    every: str
    keep: int

class Training(TypedDict, total=False):
    strategy: str
    mixed_precision: str
    gradient_accumulation_steps: int
    mesh: TrainingMesh
    clip_grad_norm: float
    seed: str
    bucket_mib: float
    optimizer: str
    settings: Dict[str, str]

class Exit(TypedDict):
    code: int
    signal: int
    oom: bool
    lost: bool
    text: str
    wall_ms: str
    last_output: str

class Wait(TypedDict):
    communicator: str
    operation: str
    sequence: str
    bytes: str
    waited_ms: int
    ranks: List[int]
    ranks_count: int

class MetricPoint(TypedDict):
    step: str
    value: Union[float, str]
    wall_ms: str

class GpuReading(TypedDict):
    used_percent: Optional[int]
    memory_used_bytes: str
    temperature_c: int
    power_w: int
    ecc_errors: str
    xid: int
    slowed_by_power: bool
    slowed_by_heat: bool
    lost: bool

class TrainingMesh(TypedDict, total=False):
    dp: int
    dp_replicate: int
    dp_shard: int
    cp: int
    tp: int
    pp: int

class Error(TypedDict):
    error: Dict[str, Any]
