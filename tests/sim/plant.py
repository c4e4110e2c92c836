#!/usr/bin/python3
"""Do the simulator's checkers have teeth? Breaks a scratch copy of the last commit in one planted way after
another, builds the simulator there and tells which seed finds it:

    tests/sim/plant.py [--seeds 900] [--scratch DIR] [NAME...]

One JSON line per plant; exit code 1 if one is not found or does not apply any more. Not part of CI: it
builds the control plane once and again for each plant (about ten minutes on two cores).
"""
import argparse
import json
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# name, file, text that stands there exactly once, what replaces it
PLANTS = [
    ("generation-not-bumped", "coordinator/core/formation.c",
     ".generation = job->next_generation++,",
     ".generation = job->next_generation > 1 ? job->next_generation - 1 : job->next_generation++,"),
    ("broken-generation-commits", "coordinator/core/checkpoint.c",
     "bool whole = !group->broken || job_gang_ends(job);", "bool whole = true;"),
    ("gang-that-starts-again-is-not-heard", "coordinator/core/restart.c",
     '    step_record(step, "restart", job, reason->node, reason);',
     '    group_clear(step->cluster, job, &job->current);\n    step_record(step, "restart", job, reason->node, reason);'),
    ("old-generation-commits", "coordinator/core/checkpoint.c",
     "checkpoint->generation == group->generation &&", ""),
    ("old-report-taken-for-news", "coordinator/core/node.c",
     "if (sequence > node->last_report) {", "if (sequence > 0) {"),
    ("late-registration-empties-the-node", "coordinator/core/node.c",
     "    if (news) {\n        reports_apply", "    if (news || node) {\n        reports_apply"),
    ("idempotency-key-ignored", "coordinator/core/job.c",
     "if (keyed && answer_repeated(step, key))", "if (keyed && !key[0] && answer_repeated(step, key))"),
    ("two-ranks-swap-on-reform", "coordinator/core/formation.c",
     "    ranks_assign(requests, group->world, group->members);",
     "    ranks_assign(requests, group->world, group->members);\n"
     "    if (group->world > 1 && job->current.world > 1)\n        group->members[1] = group->members[0];"),
    ("survivors-wait-for-new-workers", "coordinator/core/newcomers.c",
     "return nodes.count[NODE_IS_LATE] > 0 &&", "return nodes.count[NODE_IS_LATE] < 0 &&"),
    ("asked-to-grow-before-new-workers-are-ready", "coordinator/core/group.c",
     "if (all_asked(job, group, &job->current) ||", "if (all_asked(job, group, group) ||"),
    ("drained-node-left-before-new-workers-are-ready", "coordinator/core/move.c",
     "    return reform_ahead(step, job, failure);", "    return step->now_ms < 0 && reform_ahead(step, job, failure);"),
    ("death-of-a-replaced-worker-not-seen", "coordinator/core/failure.c",
     "    for (int rank = 0; !group->open && group != &job->current && rank < job->current.world; rank++)",
     "    for (int rank = job->current.world; rank < job->current.world; rank++)"),
    ("moves-though-the-drain-was-taken-back", "coordinator/core/group.c",
     "    else if (move_is_void(step, job))", "    else if (step->now_ms < 0)"),
    ("lost-node-keeps-its-workers", "coordinator/core/lease.c",
     "        lose_workers(step, node, job);\n"
     "        insist(map_get(&node->jobs, job->sequence) == NULL);",
     "        if (job->workers_count < 2)\n            lose_workers(step, node, job);\n        break;"),
    ("stop-never-sent", "coordinator/core/stop.c",
     "    worker->should_stop = true;\n", "    worker->should_stop = worker->rank % 2 == 0;\n"),
    ("limit-ignored", "coordinator/scheduler/queue.c",
     "    if (!tenant->limit_slots)\n        return nodes;", "    if (tenant->weight)\n        return nodes;"),
    ("priority-ignored-by-preemption", "coordinator/scheduler/victim.c",
     "bool lower = job->spec->priority < wants->priority;",
     "bool lower = job->sequence > victims->job->sequence;"),
    ("guaranteed-gangs-end-for-priority", "coordinator/scheduler/victim.c",
     "victims->taken[tenant->number] -\n                 (victim->staying - victim->taken);",
     "victims->taken[tenant->number] + victim->taken;"),
    ("replacement-on-a-node-of-the-gang", "coordinator/core/reform.c",
     "                              .avoid = job,\n                              .avoid_group = base};",
     "                              .avoid = base->world ? NULL : job};"),
    ("membership-before-all-joined", "coordinator/core/group.c",
     "        if (!group_has_asked(job_worker(job, uid), group->generation))\n            return false;",
     "        if (rank < 1 && !group_has_asked(job_worker(job, uid), group->generation))\n            return false;"),
    ("slot-given-twice", "coordinator/scheduler/scheduler.c",
     "            node->slot_map[slot / 64] |= UINT64_C(1) << (slot % 64);", "            (void)slot;"),
    ("assignment-generation-falls", "coordinator/model/assignment.c",
     ".generation = worker->should_stop || !member ? worker->generation : group->generation,",
     ".generation = group->generation,"),
    ("acknowledged-before-stored", "coordinator/driver.c",
     "    if (commit(driver, &err))\n        refuse_from_now(driver, &err);\n    else\n        perform(driver);\n    /* Performing",
     "    for (int i = 0; i < driver->actions.count; i++)\n"
     "        if (driver->actions.items[i].kind == ACTION_ANSWER)\n"
     "            service_perform(driver->service, &driver->actions.items[i]);\n"
     "    if (commit(driver, &err))\n        refuse_from_now(driver, &err);\n    else\n        perform(driver);\n    /* Performing"),
    ("giving-way-never-ends", "coordinator/core/evict.c",
     "    if (job_living_workers(job) > 0) {", "    if (job_living_workers(job) >= 0) {"),
    ("given-back-node-stays-a-member", "coordinator/core/reform.c",
     "if (worker->leaving ||\n            (ended", "if ((worker->leaving && !base->world) ||\n            (ended"),
    ("restart-forgets-checkpoints", "coordinator/core/checkpoint.c",
     "            step_store(step, job);\n", ""),
    ("ledger-forgets-recovery", "coordinator/model/ledger.c",
     "    ledger->ms[ledger->phase] += now_ms", "    if (ledger->phase != LEDGER_RECOVERY)\n        ledger->ms[ledger->phase] += now_ms"),
    ("ledger-counts-twice-after-a-restart", "coordinator/core/job_ledger.c",
     "    if (ledger->at_ms > now_ms)\n        ledger_shift(ledger, now_ms - ledger->at_ms);",
     "    ledger->at_ms = now_ms;"),
    ("ended-job-comes-back", "coordinator/core/job_state.c",
     "    cluster_job_moved(step->cluster, job, job_state_waits(state));\n    if (job_state_waits(state))",
     "    if (state != JOB_CANCELLED)\n        cluster_job_moved(step->cluster, job, job_state_waits(state));\n"
     "    if (job_state_waits(state))"),
    ("restored-generations-are-met-again", "coordinator/store/document_step_over.c",
     "    job->next_generation += RESTORE_SKIPS;\n", ""),
    ("restored-job-numbers-are-given-again", "coordinator/driver.c",
     "        cluster_skip_sequences(cluster, (uint64_t)first);", "        cluster_skip_sequences(cluster, first > 0);"),
    ("restored-workers-cannot-be-stopped", "coordinator/store/document_step_over.c",
     "    worker->generation = job->next_generation - 1;\n", ""),
    ("drain-of-a-silent-node-is-not-stored", "coordinator/core/node.c",
     "    step_store_node(step, node);\n    step->wants_pass = true;", "    step->wants_pass = true;"),
    ("retention-counts-seconds-for-days", "coordinator/retention.c",
     "(int64_t)RETENTION_KEEP_DAYS * DAY_MS", "(int64_t)RETENTION_KEEP_DAYS * 1000"),
    ("retention-counts-jobs-of-others", "coordinator/retention.c",
     "int beyond = tenant->ended_jobs - keep;", "int beyond = cluster_jobs_count(retention->cluster) - keep;"),
    ("node-of-an-unkillable-worker-takes-work", "coordinator/core/node.c",
     "    if (node->stuck > 0) {", "    if (node->stuck > 1) {"),
    ("spares-stay-on-a-drained-node", "coordinator/core/job.c",
     "        spare_settle(step, job);\n", ""),
    ("limit-not-counted-while-growing", "coordinator/scheduler/pass.c",
     "    request->nodes_max =\n        queue_nodes_allowed(&pass->queue, job->tenant, job->spec, request->nodes_max);\n", ""),
    ("waiting-counts-as-run-time", "coordinator/core/runtime.c",
     "    job->runtime_deadline_ms = job->runtime_counts_wall_ms = 0;\n", ""),
    ("ended-gang-not-charged-to-the-ledger", "coordinator/core/step.c",
     "        if (job_ledger_follow(job, step->now_ms))", "        if (!job_state_ended(job->state) && job_ledger_follow(job, step->now_ms))"),
    ("fixed-size-is-scaled", "coordinator/core/scale.c",
     "!same && (begun || min != max);", "!same && (begun ? min != max : !same);"),
    ("growth-by-restart-at-once", "coordinator/core/resize.c",
     "    if (due_ms < job->current.since_ms + RESIZE_SETTLE_MS)\n        due_ms = job->current.since_ms + RESIZE_SETTLE_MS;\n", ""),
    ("silent-gang-starts-again-at-once", "coordinator/core/resize.c",
     "    return last_ms + FIRST_WORD_MS;", "    return last_ms;"),
    ("waiting-is-charged-after-a-restart", "coordinator/model/tenant.c",
     "    if (!job->use_wall_ms)\n        return guess_use", "    if (job->started_wall_ms)\n        return guess_use"),
    ("use-of-forgotten-jobs-is-forgotten", "coordinator/forgotten_use.c",
     "        if (first && use > 0)\n", "        if (first && use < 0)\n"),
    ("a-place-of-a-job-is-forgotten", "coordinator/core/node_forget.c",
     "        if (!stays && !strmap_find(&names, node->name))\n", "        if (!stays)\n"),
    ("stall-is-told-again", "coordinator/core/stall_watch.c",
     "    if (job->stalled_wall_ms || !(hung", "    if (!(hung"),
]


MEMORY_MAX = 4 << 30  # of one simulating process: a plant may make it grow without end


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))


def run(command, cwd, log):
    return subprocess.run(command, cwd=cwd, stdout=log, stderr=subprocess.STDOUT, check=False).returncode


def unpack(path, content, mode):
    """Only what differs is written: a kept copy is built anew where the last plant stood, by the file's time."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def prepare(scratch, log):
    archive = subprocess.Popen(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE)
    with tarfile.open(fileobj=archive.stdout, mode="r|") as tar:
        for member in tar:
            if member.isfile():
                unpack(scratch / member.name, tar.extractfile(member).read(), member.mode)
    if archive.wait():
        sys.exit("plant: git archive failed")
    if run(["cmake", "-S", ".", "-B", "build", "-G", "Ninja"], scratch, log) or run(
            ["ninja", "-C", "build", "-j2", "sim"], scratch, log):
        sys.exit(f"plant: the copy in {scratch} does not build; see {log.name}")


def try_plant(scratch, plant, seeds, log):
    name, file, old, new = plant
    path = scratch / file
    text = path.read_text()
    if text.count(old) != 1:
        return {"plant": name, "found": None, "why": f"its text stands {text.count(old)} times in {file}"}
    try:
        path.write_text(text.replace(old, new))
        if run(["ninja", "-C", "build", "-j2", "sim"], scratch, log):
            return {"plant": name, "found": None, "why": "does not build"}
        out = subprocess.run(["build/tests/sim/sim", "--seeds", str(seeds), "--first"], cwd=scratch,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, preexec_fn=limit_memory).stdout
    finally:
        path.write_text(text)
    failed = re.search(r"FAILED seed (\d+) (.*)", out)
    return {"plant": name, "found": int(failed[1]) if failed else None,
            "why": failed[2][:160] if failed else f"not within {seeds} seeds"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=900)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    plants = [p for p in PLANTS if not args.names or p[0] in args.names]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="muster-plant-") as temporary:
        scratch = args.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        with open(scratch / "plant.log", "w", encoding="utf-8") as log:
            prepare(scratch, log)
            for plant in plants:
                result = try_plant(scratch, plant, args.seeds, log)
                missed += result["found"] is None
                print(json.dumps(result), flush=True)
    print(f"{len(plants) - missed} of {len(plants)} planted faults found within {args.seeds} seeds")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
